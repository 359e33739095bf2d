"""Rounds: their joint price, their features, and that students learn."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import accountant as ac
import mechanisms as mx
from mechanisms.features import feature_map
from mechanisms.noise.sampling import RecordSampler
from mechanisms.noise.source import Seeded
from mechanisms.queries import central_points
from mechanisms.rounds import label_in_rounds
from mechanisms.students.network import NetworkStudent

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(3, 64)) * 2


def points(n, rng=RNG):
    """`n` points around three centres, and their centres."""
    which = rng.integers(0, 3, n)
    return (CENTRES[which] + rng.normal(size=(n, 64))).astype(np.float32), which


X, Y = points(150)
PUBLIC, TRUTH = points(80)


def quick():
    return NetworkStudent(hidden=6, max_iter=20)


def knn(**changes):
    parameters = {"screening_sigma": 1.0, "vote_sigma": 1.0, "n_classes": 3, "rng": 1}
    return mx.PrivateKNN(10, 0.5, **{**parameters, **changes})


def run(labeller=None, **changes):
    arguments = {"queries": 12, "rounds": 2, "make_student": quick, **changes}
    return label_in_rounds(labeller or knn(), X, Y, PUBLIC, **arguments)


class Spy(mx.PrivateKNN):
    """Records the features that it gets in lists that its copies share."""

    def __init__(self, *values, **changes):
        super().__init__(*values, **changes)
        self.private, self.public = [], []

    def fit(self, X, y):
        self.private.append(X)
        return super().fit(X, y)

    def label(self, queries, journal=None, progress=None):
        self.public.append(queries)
        return super().label(queries, journal, progress)


def spy(**changes):
    return Spy(10, 0.5, **{"screening_sigma": None, "vote_sigma": 1.0, "n_classes": 3, "rng": 1, **changes})


# --- what they cost ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_the_cost_is_the_sum_of_rounds(rounds):
    labeller = knn(max_labels=5)
    out = run(labeller, rounds=rounds)
    assert len(out.rounds) == rounds
    total = ac.Composition()
    for each in out.rounds:
        assert each.answered.sum() == 5
        total = total + each.composition
    assert out.composition == total
    plan = rounds * (12 * labeller.screening_event + 5 * labeller.vote_event)
    assert out.planned == plan
    assert out.guarantee(1e-5) == ac.epsilon(plan, 1e-5)
    assert out.guarantee(1e-5, "classic") == ac.epsilon(plan, 1e-5, conversion="classic")
    assert not out.guarantee(1e-5).odometer


def test_without_a_plan_the_price_is_an_odometer_reading():
    out = run()
    assert out.planned is None
    reading = out.guarantee(1e-5)
    assert reading.odometer
    assert reading.epsilon == ac.epsilon(out.composition, 1e-5).epsilon


@pytest.mark.parametrize("labeller", [mx.GNMax, mx.LNMax])
def test_pate_in_rounds(labeller):
    made = labeller(5, 0.5, make_teacher=GaussianNB, max_labels=12, n_classes=3, rng=0)
    out = run(made, make_student=NetworkStudent)
    assert out.composition == 24 * made.vote_event
    assert np.mean(out.student.predict(PUBLIC) == TRUTH) > 0.8


def test_later_rounds_draw_other_noise():
    """With noise only, labels of the same queries in two rounds agree as often as by chance."""
    labeller = spy(vote_sigma=1e6)
    out = run(labeller, queries=None, features=lambda records: np.zeros((len(records), 1)))
    first, second = (each.labels for each in out.rounds)
    assert 10 < np.sum(first == second) < 45, "80/3 are expected"


def test_no_draw_is_repeated(monkeypatch):
    drawn = []

    def kept(self, size, words=Seeded.words):
        drawn.extend(values := words(self, size))
        return values

    def sampled(self, queries, records, words=RecordSampler.words):
        drawn.extend((values := words(self, queries, records)).ravel())
        return values

    monkeypatch.setattr(Seeded, "words", kept)
    monkeypatch.setattr(RecordSampler, "words", sampled)
    run()
    assert len(drawn) > 1000
    assert len(set(drawn)) == len(drawn)


def test_the_parameters_of_the_labeller_are_not_changed_and_releases_are_its_own():
    labeller = knn(rng=3)
    before = dict(vars(labeller))
    out = run(labeller)
    assert {name: vars(labeller)[name] for name in before} == before
    assert labeller.spent_ == out.composition
    assert np.array_equal(run(labeller).labels, run(labeller).labels), "a seed is a seed"


@pytest.mark.parametrize("ended", [True, False])
def test_what_is_asked_afterwards_is_priced_by_its_own_plan(ended):
    """Rounds with less noise, or more, than `fit` had fixed; or rounds that end in an error."""
    labeller = knn(max_labels=20).fit(X, Y)
    labeller.set_params(vote_sigma=1000.0)
    if ended:
        run(labeller)
    else:
        with pytest.raises(RuntimeError):
            run(labeller, progress=fail)
    promised = labeller.guarantee(1e-5).epsilon
    out = labeller.label(PUBLIC[:20])
    assert out.composition.entries.keys() == {labeller._plan.screening, labeller._plan.vote}
    assert labeller._plan.vote == knn().vote_event
    assert out.guarantee(1e-5).epsilon > promised
    assert labeller.guarantee(1e-5).epsilon >= ac.epsilon(labeller.spent_, 1e-5).epsilon


def fail(done):
    raise RuntimeError


@pytest.mark.parametrize("cap", [None, 5])
def test_during_rounds_all_that_was_charged_is_told(cap):
    labeller, told = knn(max_labels=cap), []

    def look(done):
        told.append((sum(labeller.spent_.entries.values()), labeller.guarantee(1e-5).epsilon))
        assert told[-1][1] >= ac.epsilon(labeller.spent_, 1e-5).epsilon * (1 - 1e-9)

    run(labeller, progress=look)
    assert [spent for spent, _ in told] == sorted({spent for spent, _ in told})
    assert told[0][0] > 0


# --- what they release ---------------------------------------------------------------------------------


def test_labels_are_the_latest_of_each_point():
    labeller = spy(vote_sigma=20.0)
    out = run(labeller)
    expected, asked = np.full(80, -1), np.zeros(80, bool)
    student = None
    for each, described in zip(out.rounds, labeller.public, strict=True):
        features = PUBLIC if student is None else student.transform(PUBLIC)
        chosen = central_points(features, 12)
        assert np.array_equal(described, features[chosen])
        expected[chosen] = each.labels
        asked[chosen] = True
        student = quick().fit(PUBLIC, expected)
    assert np.array_equal(out.labels, expected)
    assert np.array_equal(out.asked, asked)
    assert np.array_equal(out.answered, expected >= 0)
    assert 12 < out.asked.sum() <= 24


def test_a_refused_query_keeps_its_earlier_label():
    """Every point is a query in both rounds, and screening refuses some in each."""
    out = run(knn(screening_sigma=6.0, threshold=8.0, vote_sigma=20.0), queries=None)
    first, second = out.rounds
    assert out.asked.all()
    assert np.any(first.answered & ~second.answered)
    assert np.any(first.answered & second.answered & (first.labels != second.labels))
    assert not out.answered.all()
    assert np.array_equal(out.labels, np.where(second.answered, second.labels, first.labels))


def test_later_features_are_the_students_hidden_layer():
    labeller = spy()
    out = run(labeller, queries=20)
    labels = np.full(80, -1)
    labels[central_points(PUBLIC, 20)] = out.rounds[0].labels
    student = quick().fit(PUBLIC, labels)
    assert np.array_equal(labeller.private[0], X)
    assert np.array_equal(labeller.private[1], student.transform(X))
    assert labeller.public[1].shape == (20, 6)


@pytest.mark.each_run(2)
@pytest.mark.parametrize("features", ["raw", "standardised", "hog"])
def test_features_do_not_depend_on_private_records(features):
    """With other private records and labels, features and queries of the first round are the same."""
    found = []
    for records, labels in ((X, Y), (10 * X[::2] + 3, Y[::2][::-1])):
        labeller = spy()
        label_in_rounds(labeller, records, labels, PUBLIC, queries=12, features=features, images=(8, 8))
        found.append(labeller.public[0])
        assert np.array_equal(labeller.private[0], feature_map(features, PUBLIC, (8, 8))(records))
    assert np.array_equal(*found)


def test_later_features_depend_on_released_labels_alone():
    """If noise hides the votes, all rounds are the same for other private labels."""
    found = []
    for labels in (Y, (Y + 1) % 3):
        labeller = spy(vote_sigma=1e12)
        label_in_rounds(labeller, X, labels, PUBLIC, queries=12, rounds=3, make_student=quick)
        found.append(labeller)
    for one, other in zip(found[0].public + found[0].private, found[1].public + found[1].private, strict=True):
        assert np.array_equal(one, other)


def test_a_callable_describes_the_first_round():
    labeller = spy()
    run(labeller, features=lambda records: 2 * records[:, :5])
    assert np.array_equal(labeller.private[0], 2 * X[:, :5])


def test_progress_goes_on_through_the_rounds():
    ticks = []
    run(progress=ticks.append)
    assert ticks == list(range(1, 25))


@pytest.mark.audit
def test_students_learn_digits():
    bunch = load_digits()
    order = np.random.default_rng(2).permutation(len(bunch.data))
    digits, truth = bunch.data[order], bunch.target[order]
    labeller = mx.PrivateKNN(20, 0.5, None, vote_sigma=2.0, n_classes=10, rng=1)
    public, answers = digits[900:1300], truth[900:1300]
    out = label_in_rounds(labeller, digits[:900], truth[:900], public, queries=60, rounds=2)
    assert np.mean(out.labels[out.answered] == answers[out.answered]) > 0.9
    assert np.mean(out.student.predict(digits[1300:]) == truth[1300:]) > 0.85


# --- edges ---------------------------------------------------------------------------------------------


def test_one_class_only():
    out = label_in_rounds(knn(), X, np.full(150, 2), PUBLIC, queries=12, rounds=2, make_student=quick)
    assert set(out.labels[out.answered]) == {2}
    assert np.all(out.student.predict(PUBLIC) == 2)


def test_all_points_of_one_and_one_public_point():
    out = label_in_rounds(knn(screening_sigma=None), X, Y, PUBLIC[:1], rounds=2, make_student=quick)
    assert out.labels.shape == (1,)
    assert out.answered.all()


def test_nothing_was_answered():
    with pytest.raises(ac.ParameterError, match=r"none of \d+ queries was answered, which cost \d+ "):
        run(knn(threshold=1e6))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 0}, r"rounds = 0; accepted: an integer in \[1, "),
        ({"rounds": 1.0}, r"rounds = 1\.0"),
        ({"queries": 0}, r"queries = 0; accepted: an integer in \[1, 80\]"),
        ({"queries": 81}, r"queries = 81; accepted: an integer in \[1, 80\]"),
        ({"features": "hog"}, "features = 'hog' needs images"),
        ({"features": "hog", "images": (9, 9)}, r"images = \(9, 9\); accepted: a shape of the 64 columns"),
        ({"features": "pixels"}, "features = 'pixels'; accepted: "),
        ({"features": lambda records: records[1:]}, "features have 79 rows; accepted: 80"),
        ({"features": lambda records: records * np.nan}, r"features\[0, 0\] = nan is out of range"),
        ({"make_student": lambda: NetworkStudent(hidden=0)}, "hidden = 0"),
    ],
)
def test_bad_values_cost_nothing(changes, words):
    labeller = spy()
    with pytest.raises(ac.ParameterError, match=words):
        run(labeller, **changes)
    assert labeller.public == [], "nothing was labelled"


@pytest.mark.parametrize(
    ("records", "labels", "public", "words"),
    [
        (X, Y, PUBLIC[:, :63], "public has 63 columns; accepted: 64, as X"),
        (X[:0], Y[:0], PUBLIC, "X holds no points"),
        (X, Y, PUBLIC[:0], "public holds no points"),
        (X, Y[1:], PUBLIC, r"y has shape \(149,\)"),
        (X, Y + 1, PUBLIC, r"label 3; accepted: 0\.\.2"),
        (np.where(X[3] == X, np.nan, X), Y, PUBLIC, r"X\[3, 0\] = nan"),
        (X, Y, np.where(PUBLIC[3] == PUBLIC, np.nan, PUBLIC), r"public\[3, 0\] = nan"),
    ],
)
@pytest.mark.parametrize("features", ["standardised", "hog"])
def test_bad_data_cost_nothing(records, labels, public, words, features):
    labeller = spy()
    with pytest.raises(ac.ParameterError, match=words):
        label_in_rounds(labeller, records, labels, public, features=features, images=(8, 8))
    assert labeller.public == [], "nothing was labelled"


def test_labels_in_the_place_of_label_sets_are_refused():
    with pytest.raises(ac.ParameterError, match=r"y has shape \(150,\); accepted with clip: \(150, c\)"):
        run(knn(clip=2.0))


@pytest.mark.parametrize("far", [1.0, 1e15])
def test_a_record_far_from_all_others_ends_no_later_round(far):
    """Its features by the student are out of range: an error after the first release would reveal it."""
    records = RNG.normal(size=(60, 3))
    records[0] = far
    near = 1e-8 * RNG.normal(size=(30, 3))
    labeller = mx.PrivateKNN(5, 0.5, screening_sigma=None, vote_sigma=1.0, max_labels=12, n_classes=3, rng=0)
    out = label_in_rounds(labeller, records, Y[:60], near, queries=12, rounds=3, make_student=quick)
    assert len(out.rounds) == 3
