"""Private-kNN: the released labels, their price, and that nothing is released before it is charged."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
import mechanisms as mx
from mechanisms.neighbours.euclidean import Neighbours
from mechanisms.noise.sampling import RecordSampler, poisson_sample, within_rate
from mechanisms.noise.source import Seeded, as_randomness
from mechanisms.voting import clipped_sensitivity

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 200)
QUERIES = RNG.normal(size=(40, 5)).astype(np.float32)


def knn(**changes):
    parameters = {
        "n_neighbors": 15,
        "sampling_rate": 0.3,
        "screening_sigma": 4.0,
        "vote_sigma": 2.0,
        "n_classes": 3,
        "rng": 1,
    }
    return mx.PrivateKNN(**{**parameters, **changes})


def naive_neighbours(query, subset, k):
    """Double-precision distances, one record at a time; ties to the lower index."""
    differences = [X[i].astype(float) - query.astype(float) for i in subset]
    ranked = sorted(
        subset, key=lambda i: (float(np.dot(differences[list(subset).index(i)], differences[list(subset).index(i)])), i)
    )
    return sorted(ranked[:k])


def naive_sample(sampler, rate, query, column):
    """Records whose draw, which is of that record and query alone, is below the rate."""
    draws = sampler.words(query, np.arange(len(X)))[:, column].tolist()
    return [record for record, draw in enumerate(draws) if draw < rate * 2**64]


def naive_labels(model, queries):
    """The algorithm of Zhu et al. 2020, section 3, with the same draws."""
    source, (screening, _) = as_randomness(model.rng), (model._plan.screening, model._plan.vote)
    sampler, labels = RecordSampler.from_source(source), []
    for i, query in enumerate(queries):
        sample = naive_neighbours(query, naive_sample(sampler, model.sampling_rate, i, 0), model.n_neighbors)
        counts = np.bincount(Y[sample], minlength=3)
        if counts.max(initial=0) + source.gaussian(model.screening_sigma, 1, 1.0)[0] < screening.event.threshold:
            labels.append(-1)
            continue
        sample = naive_neighbours(query, naive_sample(sampler, model.sampling_rate, i, 1), model.n_neighbors)
        labels.append(int(np.argmax(np.bincount(Y[sample], minlength=3) + source.gaussian(model.vote_sigma, 3, 1.0))))
    return labels


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 15, 200])
def test_same_labels_as_the_naive_algorithm(seed, k):
    model = knn(n_neighbors=k, rng=seed, threshold=0.4 * min(k, 60)).fit(X, Y)
    out = model.label(QUERIES)
    assert out.labels.tolist() == naive_labels(model, QUERIES)
    assert np.array_equal(out.answered, out.labels >= 0)
    assert 0 < out.answered.sum() < 40


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 60),
    k=st.integers(1, 60),
    values=st.sampled_from([1.0, 1e-3, 1e3, 1e6, 1e-25]),
    distinct=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)
def test_ties_go_to_the_lower_index_whatever_else_is_there(n, k, values, distinct, seed):
    """A record's rank depends on that record and the query: removing another record changes at most one neighbour."""
    rng = np.random.default_rng(seed)
    records = (values * (1 + 1e-6 * rng.integers(0, distinct, (n, 3)))).astype(np.float32)
    query = (values * (1 + 1e-6 * rng.integers(0, distinct, 3))).astype(np.float32)
    everyone = np.arange(n)
    squared = np.array([float(np.dot(row, row)) for row in records.astype(float) - query.astype(float)])
    expected = sorted(np.lexsort((everyone, squared))[:k].tolist())
    found = Neighbours(records).find_nearest(query, records @ query, everyone, k)
    assert found.tolist() == expected
    if n > 1:
        gone = int(rng.integers(n))
        left = np.delete(everyone, gone)
        fewer = Neighbours(np.delete(records, gone, axis=0))
        others = left[fewer.find_nearest(query, fewer.records @ query, np.arange(n - 1), k)]
        assert len(set(found.tolist()) - {gone} - set(others.tolist())) == 0
        assert len(set(others.tolist()) - set(found.tolist())) <= 1


def test_removing_a_record_moves_one_vote_although_the_matrix_product_changes():
    rng = np.random.default_rng(3)
    records, query = rng.normal(size=(999, 64)).astype(np.float32), rng.normal(size=64).astype(np.float32)
    whole = Neighbours(records)
    (_, row), *_ = whole.batches(query[None])
    before = set(whole.find_nearest(query, row, np.arange(999), 100).tolist())
    for gone in range(0, 999, 37):
        left = np.delete(np.arange(999), gone)
        fewer = Neighbours(records[left])
        (_, row), *_ = fewer.batches(query[None])
        after = set(left[fewer.find_nearest(query, row, np.arange(998), 100)].tolist())
        assert len(before - after - {gone}) == 0
        assert len(after - before) == (1 if gone in before else 0)


# --- what it costs -------------------------------------------------------------------------------------


def test_composition_counts_what_was_released():
    out = knn().fit(X, Y).label(QUERIES)
    screening = ac.PoissonSubsampled(ac.NoisyScreening(4.0, 9.0, 15), 0.3)
    votes = ac.PoissonSubsampled(ac.GNMax(2.0), 0.3)
    assert out.composition == 40 * screening + int(out.answered.sum()) * votes
    assert out.planned is None
    assert out.odometer
    reading = out.guarantee(1e-5)
    assert reading.odometer
    assert "odometer reading" in str(reading)
    assert reading.epsilon == ac.epsilon(out.composition, 1e-5).epsilon


def test_plan_is_fixed_before_the_run_and_kept():
    model = knn(max_labels=7)
    plan = model.planned(40)
    out = model.fit(X, Y).label(QUERIES)
    assert out.answered.sum() == 7
    assert out.planned == plan
    assert not out.odometer
    orders = [1.5, 8, 60]
    assert np.all(out.composition.renyi(orders) <= plan.renyi(orders))
    last = int(np.flatnonzero(out.answered)[-1])
    assert out.composition.entries[model.screening_event] == last + 1, "it stops at the last answer"
    assert out.guarantee(1e-5) == ac.epsilon(plan, 1e-5)


def test_runs_add_up():
    model = knn().fit(X, Y)
    first, second = model.label(QUERIES[:10]), model.label(QUERIES[10:])
    assert model.spent_ == first.composition + second.composition


def test_for_budget_meets_the_target():
    model = mx.PrivateKNN.for_budget(1.0, 1e-5, n_queries=1000, max_labels=700, n_neighbors=300, sampling_rate=0.15)
    price = ac.epsilon(model.planned(1000), 1e-5)
    assert (price.method, model.planned(1000).releases) == ("tight", 1700)
    assert 1 - 1e-3 < price.epsilon <= 1.0
    usual = mx.PrivateKNN.for_budget(1.0, 1e-5, 1000, 700, 300, 0.15, conversion="improved")
    assert model.vote_sigma < usual.vote_sigma
    assert 1 - 1e-5 < ac.epsilon(usual.planned(1000), 1e-5, method="renyi").epsilon <= 1.0


def test_the_guarantee_is_priced_by_the_route_that_chose_the_noise():
    how = {"n_queries": 12, "max_labels": 5, "n_neighbors": 20, "sampling_rate": 0.3, "n_classes": 3, "rng": 0}
    for conversion in (None, "improved", "classic"):
        model = mx.PrivateKNN.for_budget(1.0, 1e-5, conversion=conversion, **how)
        out = model.fit(X, Y).label(QUERIES[:12])
        for found in (out.guarantee(1e-5, conversion), model.guarantee(1e-5, conversion)):
            assert found == ac.epsilon(model.planned(12), 1e-5, conversion=conversion)
            assert 0.99 < found.epsilon <= 1.0
            assert found.method == ("tight" if conversion is None else "renyi")
    assert model.screening_sigma == 3 * model.vote_sigma


def test_screening_can_be_switched_off():
    out = knn(screening_sigma=None).fit(X, Y).label(QUERIES)
    assert out.answered.all()
    assert out.composition == 40 * ac.PoissonSubsampled(ac.GNMax(2.0), 0.3)


class Interrupted(BaseException):
    """Raised by a signal."""


@pytest.mark.parametrize("stop", range(1, 50))
def test_interrupted_run_has_recorded_all_that_it_released(stop, monkeypatch):
    """If a run is interrupted at any draw, the charge for that draw is already in `spent_`."""
    model = knn().fit(X, Y)
    calls, drawn = [0], {"screening": 0, "votes": 0}

    class Stops(Seeded):
        def uniform(self, size):
            calls[0] += 1
            if size == 1:
                drawn["screening"] += 1
            elif size == 3:
                drawn["votes"] += 1
            if calls[0] == stop:
                raise Interrupted
            return super().uniform(size)

    model._source = Stops(model._source.generator)
    with pytest.raises(Interrupted):
        model.label(QUERIES)
    assert model.spent_.entries.get(model.screening_event, 0) >= drawn["screening"]
    assert model.spent_.entries.get(model.vote_event, 0) >= drawn["votes"]


# --- edges ---------------------------------------------------------------------------------------------


def test_no_queries():
    out = knn().fit(X, Y).label(np.empty((0, 5)))
    assert out.labels.shape == (0,)
    assert out.composition.releases == 0
    assert knn().fit(X, Y).label([]).labels.shape == (0,)


def test_k_equals_n_and_everyone_sampled():
    out = knn(n_neighbors=200, sampling_rate=1.0, vote_sigma=1e-3, screening_sigma=None).fit(X, Y).label(QUERIES)
    assert set(out.labels.tolist()) == {int(np.bincount(Y).argmax())}


def test_samples_smaller_than_k_and_empty_ones():
    model = knn(n_neighbors=50, sampling_rate=1e-4, screening_sigma=None, vote_sigma=1.0).fit(X, Y)
    out = model.label(np.repeat(QUERIES, 20, axis=0))
    assert out.answered.all()
    assert len(set(out.labels.tolist())) == 3, "an empty sample answers by noise alone"


def test_one_class():
    out = knn(n_classes=1, screening_sigma=None).fit(X, np.zeros(200, int)).label(QUERIES)
    assert set(out.labels.tolist()) == {0}


def test_no_answers_are_allowed():
    out = knn(max_labels=0).fit(X, Y).label(QUERIES)
    assert not out.answered.any()
    assert out.composition.releases == 0


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (np.where(np.arange(1000).reshape(200, 5) == 7, np.nan, X), Y, r"X\[1, 2\] = nan is out of range"),
        ([[0.0, 1.0], [0.0, None]] * 100, Y, r"X\[1, 1\] = nan is out of range"),
        (np.full((200, 5), 1e300), Y, r"X\[0, 0\] = 1e\+300 is out of range; accepted: numbers in"),
        (X, Y + 1, r"label 3; accepted: 0\.\.2"),
        (X, -Y, "label -"),
        (X, Y[:-1], r"shape \(199,\)"),
        (X, Y + 0.5, "float64"),
        (X[0], Y, r"shape \(5,\)"),
        (X[:10], Y[:10], "n_neighbors = 15; accepted: at most the 10"),
        (["abc"], Y, "not a matrix"),
        ("abc", "label", "abc: no Parquet files|abc: .*accepted: a directory of .parquet files"),
    ],
)
def test_bad_records(features, labels, words):
    with pytest.raises(ac.ParameterError, match=words):
        knn().fit(features, labels)


def test_labels_below_zero_where_nothing_says_how_many_classes_there_are():
    with pytest.raises(ac.ParameterError, match=r"label -3; accepted: 0\.\.c-1"):
        knn(n_classes=None).fit(X, np.full(200, -3))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_neighbors": 0}, "n_neighbors = 0"),
        ({"sampling_rate": 0.0}, "sampling_rate = 0.0"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"vote_sigma": -1.0}, "sigma = -1"),
        ({"screening_sigma": math.nan}, "sigma = nan"),
        ({"rng": "seed"}, "rng = 'seed'"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(ac.ParameterError, match=words):
        knn(**changes).fit(X, Y)


@pytest.mark.parametrize("queries", [QUERIES[:, :4], np.full((3, 5), np.inf), QUERIES[0]])
def test_bad_queries_cost_nothing(queries):
    model = knn().fit(X, Y)
    with pytest.raises(ac.ParameterError):
        model.label(queries)
    assert model.spent_.releases == 0


def test_label_before_fit():
    with pytest.raises(ac.ParameterError, match="before fit"):
        knn().label(QUERIES)


# --- label sets ----------------------------------------------------------------------------------------


def test_label_sets():
    sets = (RNG.random((200, 6)) < [0.05, 0.95, 0.5, 0.0, 1.0, 0.5]).astype(int)
    model = knn(clip=4.0, vote_sigma=0.5, sampling_rate=0.9, n_neighbors=30).fit(X, sets)
    out = model.label(QUERIES)
    assert out.labels.shape == (40, 6)
    assert set(np.unique(out.labels)) == {0, 1}
    assert out.labels[:, 4].mean() > 0.9
    assert out.labels[:, 3].mean() < 0.1
    assert out.composition == 40 * ac.PoissonSubsampled(ac.Gaussian(0.5, math.sqrt(8.0)), 0.9)


@pytest.mark.parametrize("clip", [1.0, 2.5, 10.0])
def test_clipped_votes_keep_their_sensitivity(clip):
    from mechanisms.voting import clip_votes

    sets = (RNG.random((300, 12)) < RNG.random((300, 1))).astype(int)
    votes = clip_votes(sets, clip)
    gaps = np.linalg.norm(votes[:, None] - votes[None], axis=2)
    assert gaps.max() <= math.sqrt(2 * clip) * (1 + 1e-12)
    assert votes.sum(axis=1).max() <= clip * (1 + 1e-12)


def test_the_sensitivity_of_clipped_votes_is_rounded_up():
    """sqrt(2 clip) was below the root for 1.5, 3, 5."""
    for clip in (0.1, 1.5, 3.0, 5.0, 7.3, 1e-40, 1e90):
        assert Fraction(clipped_sensitivity(clip)) ** 2 >= 2 * Fraction(clip)
        assert clipped_sensitivity(clip) == pytest.approx(math.sqrt(2 * clip), rel=1e-15)
    for clip in (0.0, -1.0, math.nan, math.inf, 1e100):
        with pytest.raises(ac.ParameterError, match=r"clip = .*; accepted: "):
            clipped_sensitivity(clip)


@pytest.mark.parametrize("bad", [np.full((200, 3), 2), RNG.random((200, 3)), Y, np.zeros((200, 0))])
def test_label_sets_that_are_not_binary_are_refused(bad):
    with pytest.raises(ac.ParameterError, match="clip"):
        knn(clip=4.0).fit(X, bad)


# --- randomness ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e-3, 0.15, 0.5, 0.97])
def test_poisson_sample_is_a_bernoulli_process(rate):
    source = as_randomness(5)
    included = np.zeros(50)
    sizes = []
    for _ in range(4000):
        sample = poisson_sample(50, rate, source)
        assert np.all(np.diff(sample) > 0)
        included[sample] += 1
        sizes.append(len(sample))
    spread = math.sqrt(rate * (1 - rate) / 4000)
    assert np.abs(included / 4000 - rate).max() < 5 * spread
    assert np.var(sizes) == pytest.approx(50 * rate * (1 - rate), rel=0.15)


class Ties:
    """First words of zeros, which decide no coin of a small rate, then the same word again and again."""

    def __init__(self, word):
        self.given = [0, word]

    def words(self, size):
        return np.full(size, self.given.pop(0) if len(self.given) > 1 else self.given[0], np.uint64)


@pytest.mark.parametrize("rate", [2.0**-64, 1e-14, 1e-6, 1.5e-5])
def test_nobody_joins_a_poisson_sample_above_the_rate(rate):
    """By gaps of 53 bits the first record joined above a rate of 1e-6 by 3e-11 of it, above 1e-14 by 1 %."""
    bar = math.floor(Fraction(rate) * 2**64)
    assert poisson_sample(3, rate, Ties((bar - 1) << 16)).tolist() == [0, 1, 2]
    assert poisson_sample(3, rate, Ties(bar << 16)).size == 0
    assert within_rate(np.array([bar - 1, bar], np.uint64), rate).tolist() == [True, False]


def test_poisson_sample_edges():
    source = as_randomness(0)
    assert poisson_sample(5, 1.0, source).tolist() == [0, 1, 2, 3, 4]
    assert poisson_sample(5, 0.0, source).size == 0
    assert poisson_sample(0, 0.5, source).size == 0
    assert poisson_sample(10, 1e-15, source).size == 0


def test_seeds_reproduce_and_system_entropy_does_not():
    assert np.array_equal(knn(rng=3).fit(X, Y).label(QUERIES).labels, knn(rng=3).fit(X, Y).label(QUERIES).labels)
    plan = {"screening_sigma": None, "vote_sigma": 1e3}
    assert not np.array_equal(*(knn(rng=None, **plan).fit(X, Y).label(QUERIES).labels for _ in range(2)))
