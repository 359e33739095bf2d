"""Reverse k-NN: labels that do not depend on who holds a record, noise as priced, unbiased estimates."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs

import accountant as ac
from mechanisms.exclusive import UsageError
from mechanisms.federation.protocols import central_event, noise_variance
from mechanisms.federation.targets import total_price
from mechanisms.neighbours.reverse import Connections
from mechanisms.reverse_knn import ReverseKNN, simplex_rows
from mechanisms.students.network import NetworkStudent

POINTS, TRUTH = make_blobs(700, n_features=6, centers=5, cluster_std=1.0, random_state=0)
X, Y, PUBLIC = POINTS[:500], TRUTH[:500], POINTS[500:]
REPLACE = ac.Adjacency.REPLACE
SETTINGS = {
    "central": {"epsilon": 1.0},
    "central, discrete": {"epsilon": 1.0, "delta": 1e-5, "noise": "discrete-gaussian", "n_neighbors": 2},
    "central, two rounds": {"epsilon": 4.0, "rounds": 2, "balance": 0.5},
    "local": {"epsilon": 4.0, "model": "local"},
    "local, two rounds": {
        "epsilon": 8.0,
        "delta": 1e-5,
        "model": "local",
        "randomizer": "randomized-response",
        "rounds": 2,
    },
    "local, separation": {"epsilon": 6.0, "model": "local", "randomizer": "separation"},
    "shuffle": {"epsilon": 2.0, "delta": 1e-5, "model": "shuffle"},
    "shuffle, shares": {"epsilon": 2.0, "delta": 1e-5, "model": "shuffle", "randomizer": "shares", "dropout": 0.1},
}


def knn(**changes):
    return ReverseKNN(**{"n_queries": 10, "n_classes": 5, "rng": 1, **changes})


@pytest.mark.each_run(1)
@pytest.mark.usefixtures("one_choice")
@pytest.mark.parametrize("name", SETTINGS)
def test_the_result_does_not_depend_on_who_holds_what(name):
    rng = np.random.default_rng(0)
    splits = {
        "one client": None,
        "by label": Y,
        "one record each": rng.permutation(500) - 250,
    }
    found = {split: knn(**SETTINGS[name]).label(X, Y, PUBLIC, clients) for split, clients in splits.items()}
    first = found["one client"]
    for out in found.values():
        np.testing.assert_array_equal(out.labels, first.labels)
        np.testing.assert_array_equal(out.soft, first.soft)
        for mine, theirs in zip(out.rounds, first.rounds, strict=True):
            np.testing.assert_array_equal(mine.counts, theirs.counts)
            np.testing.assert_array_equal(mine.variance, theirs.variance)


@pytest.mark.each_run(2)
@pytest.mark.usefixtures("one_choice")
@pytest.mark.parametrize("name", SETTINGS)
def test_the_guarantee_is_met_and_every_public_point_answered(name):
    model = knn(**SETTINGS[name])
    out = model.label(X, Y, PUBLIC)
    price = out.guarantee(model.delta)
    assert 0.9 * model.epsilon < price.epsilon <= model.epsilon
    assert price.adjacency == REPLACE
    assert not price.odometer
    assert not out.odometer
    assert out.composition == out.planned == model.spent_ == model.rounds * out.release.event
    assert out.answered.all()
    assert out.labels.shape == (200,)
    assert np.mean(out.labels == TRUTH[500:]) > 0.55


def test_public_points_take_the_label_of_their_query():
    out = knn().label(X, Y, PUBLIC)
    (only,) = out.rounds
    np.testing.assert_array_equal(only.centre, Connections(only.queries).find_best(PUBLIC.astype(np.float32)))
    np.testing.assert_array_equal(out.labels, only.counts.argmax(axis=1)[only.centre])
    np.testing.assert_array_equal(out.soft, only.soft[only.centre])
    np.testing.assert_array_equal((out.queries, out.queries), (only.queries, only.queries))
    assert out.counts is only.counts
    assert out.variance is only.variance


def test_without_noise_to_speak_of_counts_are_the_votes():
    out = knn(epsilon=1e6, n_neighbors=3).label(X, Y, PUBLIC)
    votes = np.zeros((10, 5))
    nearest = ((X[:, None].astype(np.float32) - out.queries) ** 2).sum(axis=2).argsort(axis=1)[:, :3]
    for row, label in zip(nearest, Y, strict=True):
        votes[row, label] += 1
    np.testing.assert_allclose(out.counts, votes, atol=1e-3)
    assert np.mean(out.labels == TRUTH[500:]) >= 0.85


@pytest.mark.parametrize("noise", ["laplace", "discrete-laplace"])
@pytest.mark.parametrize(("k", "rounds", "epsilon"), [(1, 1, 1.0), (3, 1, 0.1), (2, 3, 0.7)])
def test_pure_privacy_takes_the_papers_noise_for_all_rounds(noise, k, rounds, epsilon):
    release = knn(noise=noise, n_neighbors=k, rounds=rounds, epsilon=epsilon).planned(500, 5)
    assert release.noise == pytest.approx(2 * k * rounds / epsilon, rel=1e-9)
    assert release.guarantee(0.0).epsilon <= epsilon


def test_the_exact_price_of_many_coordinates_takes_less_noise():
    """Noise far below 2kr/epsilon (Wang et al. 2022), and at most that of a Gaussian of equal variance."""
    release = knn(n_queries=40, n_neighbors=20, delta=1e-5).planned(10_000, 5)
    assert release.event == ac.Laplace(release.noise, 1.0, 40, adjacency=REPLACE)
    assert release.noise < 0.6 * 40
    assert ac.epsilon(ac.Laplace(release.noise * 0.99, 1.0, 40, adjacency=REPLACE), 1e-5).epsilon > 1.0 * 0.97
    gaussian = knn(n_queries=40, n_neighbors=20, delta=1e-5, noise="gaussian").planned(10_000, 5)
    assert gaussian.event == ac.Gaussian(gaussian.noise, 40**0.5, adjacency=REPLACE)


def test_local_noise_is_each_records_own():
    release = knn(model="local", randomizer="randomized-response", epsilon=0.4).planned(500, 5)
    assert release.event == ac.RandomizedResponse(0.2, bits=2, adjacency=REPLACE)
    release = knn(model="local", epsilon=3.0, rounds=3).planned(500, 5)
    assert release.parameters[0] == release.event.epsilon == pytest.approx(1.0)
    best = {
        epsilon: knn(model="local", randomizer="best", epsilon=epsilon, n_queries=40).planned(500, 10).protocol
        for epsilon in (0.5, 4.0)
    }
    assert set(best.values()) <= {"collision", "randomized-response", "separation"}


@pytest.mark.audit
def test_shuffling_needs_less_noise_than_the_local_model():
    local = knn(model="local", epsilon=1.0).planned(10_000, 5)
    shuffled = knn(model="shuffle", epsilon=1.0, delta=1e-6).planned(10_000, 5)
    assert shuffled.parameters[0] > 2 * local.parameters[0]
    assert shuffled.event.n == shuffled.least == 10_000
    fewer = knn(model="shuffle", epsilon=1.0, delta=1e-6, dropout=0.5).planned(10_000, 5)
    assert fewer.least == 5000
    assert fewer.parameters[0] < shuffled.parameters[0]


def test_label_sets():
    sets = np.zeros((500, 5), int)
    sets[np.arange(500), Y] = 1
    sets[np.arange(500), (Y + 1) % 5] = 1
    out = knn(epsilon=1e5).label(X, sets, PUBLIC)
    assert out.labels.shape == (200, 5)
    assert (out.labels.sum(axis=1) == 2).all()
    assert out.release.event.coordinates == 4
    truth = (TRUTH[500:, None] + [0, 1]) % 5
    assert np.take_along_axis(out.labels, truth, axis=1).mean() > 0.9
    single = np.eye(5, dtype=int)[Y]
    np.testing.assert_array_equal(
        knn().label(X, single, PUBLIC).labels.argmax(axis=1), knn().label(X, Y, PUBLIC).labels
    )
    two = knn(rounds=2)
    with pytest.raises(ac.ParameterError, match="rounds = 2 with label sets"):
        two.label(X, sets, PUBLIC)
    assert not hasattr(two, "spent_")


def test_later_rounds_ask_where_the_student_is_uncertain():
    out = knn(rounds=2, epsilon=20.0, n_queries=15).label(X, Y, PUBLIC)
    assert len(out.rounds) == 2
    assert out.composition == 2 * ac.Laplace(0.2, 1.0, 2, adjacency=REPLACE)
    assert not np.array_equal(out.rounds[0].queries, out.rounds[1].queries)
    np.testing.assert_allclose(out.soft, np.mean([each.soft[each.centre] for each in out.rounds], axis=0))


def test_prices_even_out_the_records():
    points = np.concatenate([POINTS, 0.05 * POINTS[:300] + 40])
    loads = [
        knn(epsilon=1e6, balance=balance).label(points[:800], np.zeros(800, int), points[800:]).counts.sum(axis=1)
        for balance in (0.0, 1.0)
    ]
    assert loads[1].std() < loads[0].std()


def test_exact_noise_from_the_system():
    for changes in (
        {},
        {"noise": "discrete-laplace"},
        {"noise": "discrete-gaussian", "delta": 1e-5},
        {"model": "local"},
    ):
        runs = [knn(rng=None, **changes).label(X, Y, PUBLIC) for _ in range(2)]
        assert (runs[0].counts != runs[1].counts).any()
        if "noise" in changes:
            assert (runs[0].counts == np.round(runs[0].counts)).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"n_queries": 0}, "n_queries = 0"),
        ({"n_queries": 201}, "n_queries = 201; accepted: an integer in \\[1, 200\\]"),
        ({"n_neighbors": 11}, "n_neighbors = 11; accepted: an integer in \\[1, 10\\]"),
        ({"epsilon": 0.0}, "epsilon = 0.0"),
        ({"delta": 1.0}, "delta = 1.0"),
        ({"model": "peer-to-peer"}, "model = 'peer-to-peer'; accepted: central, local, shuffle"),
        ({"noise": "uniform"}, "noise = 'uniform'"),
        ({"noise": "gaussian"}, "delta = 0 with noise = 'gaussian'"),
        ({"noise": "discrete-gaussian"}, "delta = 0 with noise = 'discrete-gaussian'"),
        ({"model": "shuffle"}, "delta = 0 in the shuffle model"),
        ({"model": ["local"]}, "model = .*; accepted: "),
        ({"noise": {}}, "noise = {}; accepted: "),
        ({"model": "local", "randomizer": ["collision"]}, "randomizer = .*; accepted: "),
        ({"model": "local", "randomizer": "shares"}, "randomizer = 'shares' in the local model"),
        ({"model": "local", "randomizer": "concatenation"}, "no information on their product"),
        ({"rounds": 0}, "rounds = 0"),
        ({"balance": 2.0}, "balance = 2.0"),
        ({"dropout": 1.0}, "dropout = 1.0"),
        ({"n_classes": 4}, "n_classes = 4"),
    ],
)
def test_bad_parameters_are_named_before_anything_is_spent(changes, match):
    model = knn(**changes)
    with pytest.raises(ac.ParameterError, match=match):
        model.label(X, Y, PUBLIC)
    assert not hasattr(model, "spent_")


@pytest.mark.parametrize(
    ("records", "labels", "public", "clients"),
    [
        (X[:0], Y[:0], PUBLIC, None),
        (X, Y[:-1], PUBLIC, None),
        (X, Y, PUBLIC[:, :5], None),
        (X * np.nan, Y, PUBLIC, None),
        (X, Y - 1, PUBLIC, None),
        (X, Y, PUBLIC[:0], None),
        (X, Y, PUBLIC, np.zeros(3, int)),
        (X, Y, PUBLIC, np.zeros(500)),
    ],
)
def test_bad_data_is_named(records, labels, public, clients):
    with pytest.raises(ac.ParameterError, match="accepted"):
        knn().label(records, labels, public, clients)


def test_parameters_are_scikit_learns():
    model = knn(noise="gaussian", delta=1e-5)
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "ReverseKNN(n_queries=10, delta=1e-05, noise='gaussian', n_classes=5)"


# --- pieces --------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=1, max_size=4),
    st.floats(0, 100),
)
def test_soft_labels_are_the_nearest_point_of_the_simplex(rows, variance):
    counts = np.array(rows)
    soft = simplex_rows(counts, np.full(counts.shape, variance))
    np.testing.assert_allclose(soft.sum(axis=1), 1.0)
    assert (soft >= 0).all()
    sizes = np.maximum(counts.sum(axis=1), (3 * variance) ** 0.5)
    shares = np.where(sizes[:, None] > 0, counts / np.maximum(sizes, 1e-300)[:, None], 0.0)
    # condition for the nearest point: no corner of the simplex lies in the direction of the residual
    left = shares - soft
    assert (left.max(axis=1) - (left * soft).sum(axis=1) <= 1e-6 * (1 + np.abs(shares).max(axis=1))).all()


def test_certain_counts_are_their_shares():
    np.testing.assert_allclose(simplex_rows(np.array([[6.0, 2.0, 0.0]]), np.zeros((1, 3))), [[0.75, 0.25, 0.0]])
    np.testing.assert_allclose(simplex_rows(np.zeros((1, 4)), np.zeros((1, 4))), [[0.25] * 4])


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("scale", [0.2, 0.7, 3.0, 40.0])
def test_central_noise_is_unbiased_with_the_variance_reported(noise, scale):
    from mechanisms.noise.source import as_randomness, noise_of

    event = central_event(noise, scale, 2)
    draws = noise_of(event, as_randomness(0), 400_000)
    variance = noise_variance(event)
    assert abs(draws.mean()) < 4 * (variance / len(draws)) ** 0.5
    if variance > 0.01:
        assert draws.var() == pytest.approx(variance, rel=0.02)
    else:
        assert draws.var() == pytest.approx(variance, abs=4 * (variance / len(draws)) ** 0.5)


@pytest.mark.parametrize("scale", [1e-50, 1e-3, 1 / 750, 0.02, 0.5, 1.0, 30.0, 1e20, 1e50])
def test_the_variance_of_discrete_laplace_noise(scale):
    """1/(2 sinh(1/(2 scale))^2) at 60 digits; the square overflowed below a scale of 1/711."""
    with mpmath.workdps(60):
        exact = 1 / (2 * mpmath.sinh(1 / (2 * mpmath.mpf(scale))) ** 2)
    assert noise_variance(central_event("discrete-laplace", scale, 2)) == pytest.approx(float(exact), rel=1e-12, abs=0)


def test_next_to_no_discrete_noise_is_drawn_and_its_variance_told():
    """The run failed after its charge, and for ever."""
    model = ReverseKNN(20, 3, epsilon=4500.0, delta=1e-4, noise="discrete-laplace", rng=None)
    out = model.label(np.eye(20)[np.arange(60) % 20], np.arange(60) % 3, np.eye(20))
    assert (out.variance == 0).all()
    assert out.counts.sum() == 180


@pytest.mark.parametrize("balance", [2.0, float("nan"), "abc", None])
def test_balance_is_checked_before_anything_is_spent(balance):
    model = ReverseKNN(2, balance=balance, rng=0)
    with pytest.raises(ac.ParameterError, match=r"^balance = .*; accepted: \[0, 1\]"):
        model.label(np.eye(4), [0, 1, 0, 1], np.eye(4))
    assert not hasattr(model, "spent_")


@pytest.mark.each_run(2)
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"])
def test_add_remove_moves_half_as_many_counts(noise):
    """One record more adds to k r counts; replacing one also subtracts from k r counts."""
    parameters = {"n_neighbors": 3, "epsilon": 1.0, "delta": 1e-6, "noise": noise}
    plans = {adjacency: ReverseKNN(**parameters, adjacency=adjacency).planned(1000, 10) for adjacency in ac.Adjacency}
    add = plans[ac.Adjacency.ADD_REMOVE]
    assert add.event.adjacency == ac.Adjacency.ADD_REMOVE
    assert add.event == central_event(noise, add.noise, 3, ac.Adjacency.ADD_REMOVE)
    assert add.noise < 0.8 * plans[ac.Adjacency.REPLACE].noise
    assert 0.99 < add.guarantee(1e-6).epsilon <= 1.0
    for model in ("local", "shuffle"):
        with pytest.raises(ac.ParameterError, match=f"adjacency = add-remove in the {model} model; accepted: replace"):
            ReverseKNN(**parameters, model=model, adjacency=ac.Adjacency.ADD_REMOVE).planned(1000, 10)
    with pytest.raises(ac.ParameterError, match="adjacency = 'add-remove'; accepted"):
        ReverseKNN(**parameters, adjacency="add-remove").planned(1000, 10)


def test_one_record_more_moves_k_counts_by_one():
    rng = np.random.default_rng(5)
    X, public = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=(30, 3)).astype(np.float32)
    y = rng.integers(0, 4, 50)
    bare = ReverseKNN(n_queries=8, n_neighbors=2, epsilon=1e9, n_classes=4, rng=0)
    moved = bare.label(X, y, public).counts - bare.label(X[1:], y[1:], public).counts
    assert sorted(np.round(moved, 3).ravel().tolist()) == [0.0] * 30 + [1.0] * 2


# --- what a run may depend on --------------------------------------------------------------------------


def test_what_an_object_has_released_is_its_composition_for_good():
    model = knn()
    first = model.label(X, Y, PUBLIC)
    second = model.set_params(epsilon=0.5).label(X, Y, PUBLIC)
    assert model.spent_ == first.composition + second.composition
    with pytest.raises(ac.ParameterError):
        model.set_params(n_queries=0).label(X, Y, PUBLIC)
    assert model.spent_ == first.composition + second.composition
    model.set_params(n_queries=10, adjacency=ac.Adjacency.ADD_REMOVE)
    with pytest.raises(ac.AdjacencyMismatch):
        model.label(X, Y, PUBLIC)
    assert model.spent_ == first.composition + second.composition


@pytest.mark.each_run(1)
@pytest.mark.parametrize("name", ["central, two rounds", "local, two rounds", "shuffle, shares"])
def test_a_second_run_s_guarantee_counts_the_first(name):
    """Both runs release the same records: the second guarantee covers both."""
    model = knn(**SETTINGS[name])
    first, second = (model.label(X, Y, PUBLIC) for _ in range(2))
    assert first.promised == first.planned
    assert second.before == first.planned
    assert second.promised == model.spent_ == first.composition + second.composition
    assert first.guarantee(1e-4) == first.release.guarantee(1e-4)
    assert second.guarantee(1e-4).epsilon > 1.3 * first.guarantee(1e-4).epsilon


def test_a_run_that_was_broken_off_is_counted_whole():
    """Its whole plan counts; fewer rounds would make the next guarantee depend on where it was interrupted."""

    def broken():
        raise OSError("no student")

    model = knn(rounds=2, make_student=broken)
    with pytest.raises(OSError, match="no student"):
        model.label(X, Y, PUBLIC)
    assert model.spent_.releases == 1
    after = model.set_params(make_student=None).label(X, Y, PUBLIC)
    assert after.before == after.planned
    assert after.promised.releases == 4


@pytest.mark.each_run(1)
@pytest.mark.parametrize("name", ["central, two rounds", "local, two rounds"])
def test_parameters_that_change_while_a_run_goes_on_change_nothing(name):
    expected = knn(**SETTINGS[name]).label(X, Y, PUBLIC)

    def meddling():
        others = {
            "epsilon": 99.0,
            "rounds": 9,
            "n_queries": 3,
            "n_neighbors": 3,
            "noise": "gaussian",
            "model": "central",
        }
        model.set_params(**others, soft_labels=False, balance=0.0, n_classes=9, make_student=None, delta=0.5)
        return NetworkStudent()

    model = knn(**SETTINGS[name], make_student=meddling)
    found = model.label(X, Y, PUBLIC)
    np.testing.assert_array_equal(found.soft, expected.soft)
    assert found.composition == found.planned == model.spent_ == expected.composition
    assert found.guarantee(1e-5) == expected.guarantee(1e-5)


def test_a_student_cannot_start_another_run_of_the_same_object():
    def greedy():
        return model.label(X, Y, PUBLIC)

    model = knn(rounds=2, make_student=greedy)
    with pytest.raises(UsageError, match="label was called from within"):
        model.label(X, Y, PUBLIC)
    assert model.spent_.releases == 1


def test_threads_charge_all_that_they_release():
    model = knn(n_queries=3)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: model.label(X[:50], Y[:50], PUBLIC), range(12)))
    assert model.spent_.releases == len(runs) == 12


def test_a_used_object_is_not_copied():
    model = knn()
    copy.deepcopy(model)
    model.label(X, Y, PUBLIC)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError):
            make(model)
    assert clone(model).get_params() == model.get_params()


def public_side(out):
    """All of a result except what noise protects."""
    release = {each.name: getattr(out.release, each.name) for each in fields(out.release)}
    shapes = [(each.counts.shape, each.variance.tolist(), each.queries.tolist()) for each in out.rounds[:1]]
    return release, shapes, out.bytes_per_client, out.composition, out.planned, out.answered.tolist()


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 40), st.data())
def test_under_add_remove_results_do_not_tell_the_number_of_records(n, data):
    clients = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n + 1, max_size=n + 1)))
    model = {"adjacency": ac.Adjacency.ADD_REMOVE, "n_classes": 5, "rng": data.draw(st.integers(0, 9))}
    rows = data.draw(st.permutations(range(500)))[: n + 1]
    found = [knn(**model).label(X[some], Y[some], PUBLIC, clients[: len(some)]) for some in (rows[:n], rows)]
    assert public_side(found[0]) == public_side(found[1])
    assert not found[0].release.records_public
    assert knn().planned(500, 5).records_public


@pytest.mark.audit
def test_only_a_crowd_plans_by_the_number_of_records():
    for name, changes in SETTINGS.items():
        plans = [knn(**changes).planned(n, 5) for n in (500, 501)]
        same = all(getattr(plans[0], each.name) == getattr(plans[1], each.name) for each in fields(plans[0]))
        assert same is not name.startswith("shuffle")
        assert plans[0].records_public


@pytest.mark.parametrize("epsilon", [0.7, 0.3, 1.1])
@pytest.mark.parametrize("rounds", [3, 7, 10])
@pytest.mark.parametrize("randomizer", ["collision", "randomized-response", "separation"])
def test_local_rounds_add_up_to_no_more_than_was_asked_exactly(epsilon, rounds, randomizer):
    release = knn(model="local", epsilon=epsilon, rounds=rounds, randomizer=randomizer).planned(500, 5)
    assert total_price(rounds * release.event, 0.0) <= Fraction(epsilon)
    assert total_price(rounds * release.event, 0.0) > Fraction(epsilon) * Fraction(1 - 1e-9)


@pytest.mark.audit
@pytest.mark.parametrize(
    ("randomizer", "epsilon", "delta", "rounds", "n"),
    [("collision", 1.0, 1e-6, 3, 400), ("best", 1.5, 1e-3, 1, 40), ("separation", 1.5, 1e-3, 1, 40)],
)
def test_small_crowds_are_calibrated_although_the_best_randomizer_changes(randomizer, epsilon, delta, rounds, n):
    """The price jumps down where the number of buckets changes with epsilon."""
    knn = ReverseKNN(
        4, epsilon=epsilon, delta=delta, model="shuffle", randomizer=randomizer, rounds=rounds, n_classes=3
    )
    price = knn.planned(n, 3).guarantee(delta)
    assert 0.99 * epsilon < price.epsilon <= epsilon
