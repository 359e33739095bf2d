"""Forecasts from public points against runs on private records of the same distribution, and against definitions."""

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.forecast.sample import PublicSample, draw_records, extrapolate, vote_counts
from mechanisms.queries import central_points, cluster_centres

CLASSES, DELTA = 5, 1e-5


def draw(n, seed):
    """Classes that overlap: some two thirds of the neighbours of a typical point share its label."""
    rng = np.random.default_rng(seed)
    centres = 2.2 * np.eye(CLASSES, 6)
    labels = rng.integers(0, CLASSES, n)
    return (centres[labels] + rng.standard_normal((n, 6))).astype(np.float32), labels


PUBLIC, TRUTH = draw(400, 0)
N = 1500
PRIVATE = [draw(N, seed) for seed in range(1, 5)]


def plan(mechanism, epsilon=1.0, **values):
    return mx.plan_labelling(mechanism, PUBLIC, TRUTH, epsilon=epsilon, delta=DELTA, n_records=N, **values)


# --- forecasts and what comes out ------------------------------------------------------------------------


@pytest.mark.audit
@pytest.mark.parametrize(
    "values", [{"screening_ratio": (None,)}, {"screening_ratio": 2.0, "threshold": 0.5, "max_labels": 0.7}], ids=str
)
def test_private_knn_answers_as_many_and_as_well_as_foreseen(values):
    best = plan("private-knn", queries=60, n_neighbors=60, sampling_rate=0.5, **values).best
    asked = central_points(PUBLIC, 60)
    answers, right = [], []
    for number, (records, labels) in enumerate(PRIVATE):
        for seed in range(5):
            out = best.estimator(rng=10 * number + seed).fit(records, labels).label(PUBLIC[asked])
            answers.append(out.answered.sum())
            right.append(np.sum(out.labels == TRUTH[asked]))
    assert best.answers == pytest.approx(np.mean(answers), abs=2.5)
    # one public sample errs by what 60 queries can tell
    assert best.accuracy == pytest.approx(np.sum(right) / np.sum(answers), abs=0.06)


@pytest.mark.audit
def test_individual_knn_answers_as_well_as_foreseen():
    found = plan("ind-knn", queries=150, count_share=3.0)
    for best in (found.forecasts[0], found.forecasts[10]):
        right = []
        for number, (records, labels) in enumerate(PRIVATE):
            for seed in range(2):
                some = np.random.default_rng(seed).permutation(400)[:150]
                answers = best.estimator(rng=10 * number + seed).fit(records, labels).predict(PUBLIC[some])
                right.append(np.mean(answers == TRUTH[some]))
        assert best.accuracy == pytest.approx(np.mean(right), abs=0.04)


@pytest.mark.audit
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete-laplace"])
def test_reverse_knn_labels_as_well_as_foreseen(noise):
    best = plan("reverse-knn", epsilon=0.3, queries=20, n_neighbors=2, noise=noise).best
    centres = cluster_centres(PUBLIC, 20)
    right = []
    for number, (records, labels) in enumerate(PRIVATE):
        for seed in range(10):
            model = best.estimator(rng=10 * number + seed)
            right.append(np.mean(model.label(records, labels, PUBLIC, queries=centres).labels == TRUTH))
    assert best.accuracy == pytest.approx(np.mean(right), abs=0.04)


# --- limits ----------------------------------------------------------------------------------------------


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("mechanism", "values"),
    [
        ("private-knn", {"queries": 40, "n_neighbors": 40, "sampling_rate": 1.0, "screening_ratio": (None,)}),
        ("ind-knn", {"queries": 40, "threshold": 0.7}),
        ("reverse-knn", {"queries": 20, "n_neighbors": 1, "noise": "laplace"}),
    ],
)
def test_next_to_no_budget_leaves_guessing_and_much_of_it_the_votes(mechanism, values):
    poor, rich = plan(mechanism, 1e-4, **values).forecasts[-1], plan(mechanism, 100.0, **values).best
    assert poor.accuracy == pytest.approx(1 / CLASSES, abs=0.06)
    assert rich.accuracy > 0.65


def test_votes_without_noise_are_those_of_the_nearest_points():
    """With as many records as points, all sampled, each point's k nearest others vote once."""
    sample = PublicSample.of(PUBLIC, TRUTH, CLASSES, len(PUBLIC) - 1, 0)
    rng = np.random.default_rng(0)
    assert sample.weight == 1
    records = draw_records(sample, rng)
    assert (records == 1).all()
    counts = vote_counts(sample, records, 1.0, 15, rng)
    distances = ((PUBLIC[:, None].astype(float) - PUBLIC) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(distances, axis=1)[:, :15]
    np.testing.assert_array_equal(counts, [np.bincount(TRUTH[row], minlength=CLASSES) for row in near])


def test_votes_of_samples_have_the_mean_that_sampling_gives():
    """A rate of a half of twice as many records: k votes, spread as among the k nearest points."""
    sample = PublicSample.of(PUBLIC, TRUTH, CLASSES, 2 * (len(PUBLIC) - 1), 0)
    rng = np.random.default_rng(1)
    counts = vote_counts(sample, draw_records(sample, rng), 0.5, 30, rng)
    assert (counts.sum(axis=1) == 30).all()
    few = vote_counts(sample, draw_records(sample, rng), 0.01, 30, rng).sum(axis=1)
    assert few.mean() == pytest.approx(0.01 * 798, abs=0.6), "so few records are sampled that all of them vote"


def test_drawn_records_add_up_to_the_public_number():
    sample = PublicSample.of(PUBLIC, TRUTH, CLASSES, N, 0)
    for share in (1.0, 0.5):
        drawn = [draw_records(sample, np.random.default_rng(seed), share).sum() for seed in range(50)]
        assert np.mean(drawn) == pytest.approx(N * 400 / 399, rel=0.01)
    held = draw_records(sample, np.random.default_rng(0), 0.5)
    assert np.count_nonzero(held) <= 200


def test_extrapolation_removes_what_falls_with_the_number_of_points():
    sample = PublicSample.of(PUBLIC, TRUTH, CLASSES, N, 0)
    assert extrapolate(sample, 0.7 + 3 / 400, 0.7 + 3 / 200) == pytest.approx(0.7 + 3 / N)
    fewer = PublicSample.of(PUBLIC, TRUTH, CLASSES, 100, 0)
    assert extrapolate(fewer, 0.7, 0.6) == 0.7


# --- the grid and the guarantee --------------------------------------------------------------------------


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", ["private-knn", "ind-knn", "reverse-knn"])
def test_every_setting_keeps_the_guarantee_and_the_best_comes_first(mechanism):
    values = {"sampling_rate": 0.2, "n_neighbors": 20} if mechanism == "private-knn" else {}
    values |= {"threshold": (0.6, 0.8)} if mechanism == "ind-knn" else {}
    found = plan(mechanism, queries=(10, 20), **values)
    reaches = [each.reach for each in found.forecasts]
    assert reaches == sorted(reaches, reverse=True)
    assert found.best is found.forecasts[0]
    assert {each.queries for each in found.forecasts} == {10, 20}
    for each in found.forecasts:
        assert 0 <= each.reach <= 1
        assert 0 <= each.accuracy <= 1
        assert 0 <= each.answers <= each.queries
        assert each.epsilon <= 1.0
        model = each.estimator()
        if mechanism == "private-knn":
            price = ac.epsilon(model.planned(each.queries), DELTA)
        elif mechanism == "ind-knn":
            price = model.guarantee(DELTA)
        else:
            price = model.planned(N, CLASSES).guarantee(DELTA)
        assert price.epsilon >= each.epsilon * (1 - 1e-6)
        assert not hasattr(model, "spent_"), "a plan spends nothing"
    best_of = found.by("queries")
    assert [each.queries for each in best_of] == [10, 20]
    assert found.best in best_of


@pytest.mark.audit
def test_a_plan_is_the_same_when_it_is_made_again():
    first, second = (plan("private-knn", queries=15, sampling_rate=0.5, n_neighbors=20) for _ in range(2))
    assert [vars(each) for each in first.forecasts] == [vars(each) for each in second.forecasts]


@pytest.mark.audit
def test_default_deltas_are_far_below_one_over_the_records():
    for n, delta in ((1000, 1e-4), (1001, 1e-5), (60_000, 1e-6)):
        best = mx.plan_labelling("ind-knn", PUBLIC, TRUTH, epsilon=2.0, n_records=n, queries=5, threshold=0.9).best
        assert best.delta == delta <= 1 / (10 * n)
    assert mx.plan_labelling("reverse-knn", PUBLIC, TRUTH, epsilon=2.0, n_records=9, queries=10).best.delta == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mechanism": "gnmax"}, "mechanism = 'gnmax'; accepted: private-knn, ind-knn, reverse-knn"),
        ({"epsilon": 0.0}, "epsilon = 0.0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"n_records": 0}, "n_records = 0"),
        ({"X": PUBLIC[:5], "y": TRUTH[:5]}, "public holds 5 points"),
        ({"y": TRUTH + 1, "n_classes": CLASSES}, "label"),
        ({"queries": 401}, "queries = 401"),
        ({"queries": ()}, "at least one value"),
        ({"sampling_rate": 1.5}, "sampling_rate = 1.5"),
        ({"rounds": 0}, "rounds = 0"),
        ({"mechanism": "reverse-knn", "model": "trusted"}, "model = 'trusted'; accepted: central, local, shuffle"),
        ({"threshold": 3.0}, "threshold = 3.0"),
        ({"screening_ratio": -1.0}, "screening_ratio = -1.0"),
        ({"vote_sigma": 2.0}, "vote_sigma = 2.0; accepted: queries, sampling_rate"),
        ({"mechanism": "reverse-knn", "noise": "cauchy"}, "noise = 'cauchy'"),
        ({"mechanism": "ind-knn", "kernel": "linear"}, "kernel = 'linear'"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_bad_input_is_refused_in_one_line(changes, named):
    given = {"mechanism": "private-knn", "X": PUBLIC, "y": TRUTH, "epsilon": 1.0, "n_records": N, **changes}
    with pytest.raises(ac.ParameterError) as caught:
        mx.plan_labelling(**given)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
