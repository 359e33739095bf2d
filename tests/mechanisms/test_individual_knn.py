"""Ind-KNN: the answers, what every record pays for them, and that it pays before anything is drawn."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
import mechanisms as mx
from mechanisms.neighbours.kernels import Cosine
from mechanisms.neighbours.records import LARGEST_BATCH
from mechanisms.noise.source import as_randomness

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 300)
QUERIES = RNG.normal(size=(40, 6)).astype(np.float32)


def ind(**changes):
    parameters = {
        "budget": 0.5,
        "threshold": 0.3,
        "count_sigma": 5.0,
        "vote_sigma": 0.5,
        "min_count": 5.0,
        "n_classes": 3,
        "rng": 1,
    }
    return mx.IndividualKNN(**{**parameters, **changes})


class Silent:
    """Noise set by the test: `count` on counts, none on votes."""

    repeatable = False

    def __init__(self, count=0.0):
        self.count, self.drawn = count, []

    def gaussian(self, sigma, size, grain):
        self.drawn.append((sigma, size, grain))
        return np.full(size, self.count if grain == 1.0 else 0.0)


def silenced(model, count=0.0):
    model._source = Silent(count)
    return model


def at(kernel):
    """A unit vector with this cosine to (1, 0)."""
    return [kernel, math.sqrt(1 - kernel**2)]


# --- the algorithm -------------------------------------------------------------------------------------


def test_values_of_section_11(monkeypatch):
    """B = 0.1, T = 100, s2 = 0.4; then 50 neighbours of kernel 0.9, then 30 of kernel 0.7."""
    sigma = math.sqrt(100 / (6 * 0.1))
    assert sigma == pytest.approx(12.90994448735806, rel=1e-12)
    model = ind(budget=0.1, threshold=0.5, count_sigma=sigma, vote_sigma=0.4, min_count=30, n_classes=2)
    model.fit([at(0.9)] * 30 + [[0.9, -math.sqrt(0.19)]] * 20, [1] * 30 + [0] * 20)
    silenced(model)
    assert model.predict([[1.0, 0.0]]).tolist() == [1]
    assert model.counts_.tolist() == [50.0]
    assert model.budgets_ == pytest.approx([0.046375] * 50, rel=1e-6)

    model.remove(range(30, 50))
    third = math.cos(math.acos(0.9) + math.acos(0.7))
    votes = []
    model._source.gaussian = lambda sigma, size, grain: votes.append((sigma, grain)) or np.zeros(size)
    seen = []
    spend = np.bincount
    monkeypatch.setattr(np, "bincount", lambda *given: seen.append(given[1]) or spend(*given))
    assert model.predict([[third, math.sqrt(1 - third**2)]]).shape == (1,)
    assert model.counts_.tolist() == [30.0]
    assert model.budgets_.tolist() == [0.0] * 30
    # in units of the noise, s2 sqrt(K)
    assert seen[0] * 0.4 * math.sqrt(30) == pytest.approx([0.6452906321960671] * 30, rel=1e-6)
    assert [sigma for sigma, _ in votes] == [model.count_sigma, 1.0]


def naive(model, X, y, queries):
    """Zhu et al. 2023, Alg. 3, one record at a time, with the same draws."""
    source, z, labels, counts = as_randomness(model.rng), [model.budget] * len(X), [], []
    s1, s2 = model.count_sigma, model.vote_sigma
    for query in queries.astype(float):
        selected = []
        for i, x in enumerate(X.astype(float)):
            if model.kernel == "cosine":
                kernel = x @ query / math.sqrt((x @ x) * (query @ query))
            else:
                kernel = math.exp(-((x - query) @ (x - query)) / model.bandwidth**2)
            if z[i] >= 1 / (2 * s1**2) and kernel >= model.threshold:
                selected.append((i, kernel))
        for i, _ in selected:
            z[i] -= 1 / (2 * s1**2)
        count = max(len(selected) + source.gaussian(s1, 1, 1.0)[0], model.min_count)
        votes = np.zeros(model.n_classes)
        for i, kernel in selected:
            part = min(kernel, s2 * math.sqrt(2 * count * z[i]))
            z[i] = max(z[i] - part**2 / (2 * s2**2 * count), 0.0)
            votes[y[i]] += part
        labels.append(int(np.argmax(votes + source.gaussian(s2 * math.sqrt(count), model.n_classes, 1.0))))
        counts.append(count)
    return labels, counts, z


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", [{"kernel": "cosine"}, {"kernel": "rbf", "bandwidth": 3.0}])
def test_same_as_the_naive_algorithm(kernel, seed):
    model = ind(rng=seed, **kernel).fit(X, Y)
    labels = model.predict(QUERIES)
    expected, counts, left = naive(model, X, Y, QUERIES)
    assert labels.tolist() == expected
    assert model.counts_ == pytest.approx(counts, rel=1e-6)
    assert model.budgets_ == pytest.approx(left, abs=1e-6)
    assert 0 < np.mean(model.budgets_ < 0.1) < 1, "some have retired"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    budget=st.sampled_from([1e-3, 0.05, 0.5, 30.0]),
    sigmas=st.tuples(st.sampled_from([0.5, 3.0, 40.0]), st.sampled_from([0.05, 0.5, 5.0])),
    kernel=st.sampled_from(["cosine", "rbf"]),
    threshold=st.sampled_from([0.0, 0.3, 0.9]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
def test_no_record_pays_more_than_its_budget_whatever_the_batches(budget, sigmas, kernel, threshold, seed, cuts):
    parameters = {"budget": budget, "count_sigma": sigmas[0], "vote_sigma": sigmas[1], "kernel": kernel}
    whole = ind(**parameters, threshold=threshold, rng=seed).fit(X[:60], Y[:60])
    parts = ind(**parameters, threshold=threshold, rng=seed).fit(X[:60], Y[:60])
    labels = whole.predict(QUERIES[:12])
    bounds = [0, *sorted(cuts), 12]
    pieces = [parts.predict(QUERIES[a:b]) for a, b in pairwise(bounds)]
    assert labels.tolist() == np.concatenate(pieces).tolist()
    assert np.array_equal(whole._filter.left, parts._filter.left)
    assert (whole.budgets_ >= 0).all()
    assert (whole.budgets_ <= budget).all()


@pytest.mark.each_run(2)
@pytest.mark.parametrize("changes", [{}, {"reuse": True}, {"reuse": 7}, {"hashing": (6, 3)}, {"kernel": "rbf"}])
def test_a_batch_is_as_many_single_queries(changes):
    queries = RNG.normal(size=(LARGEST_BATCH + 30, 6))
    one, many = ind(**changes).fit(X, Y), ind(**changes).fit(X, Y)
    singles = [int(many.predict(query[None])[0]) for query in queries]
    assert one.predict(queries).tolist() == singles
    assert np.array_equal(one._filter.left, many._filter.left)


def test_removing_a_record_changes_nothing_for_the_others():
    """The budgets and votes of other records are equal in every bit if the released numbers are."""
    for gone in (0, 100, 299):
        whole, fewer = silenced(ind().fit(X, Y)), silenced(ind().fit(X, Y).remove([gone]))
        whole._count_event = fewer._count_event
        for query in QUERIES:
            whole._source.count = fewer._source.count = 0.0
            was = whole._records.select(Cosine(0).prepare(query[None])[0], np.array([gone]))[0].size
            was = was and whole._filter.left[gone] >= whole._prices.count_units
            whole._source.count = -1.0 if was else 0.0
            whole.predict(query[None])
            fewer.predict(query[None])
            assert whole.counts_ == fewer.counts_
        others = [i for i in range(300) if i != gone]
        assert np.array_equal(whole._filter.left[others], fewer._filter.left[others])


def test_noise_is_always_added():
    """Also far from all records: an answer without noise would reveal that no record is near."""
    model = ind(threshold=0.99, rng=0).fit([[1.0, 0.0]], [2])
    labels = model.predict([[0.0, 1.0]] * 300)
    assert np.bincount(labels, minlength=3).min() > 60
    assert model.budgets_.tolist() == [0.5], "who is not selected does not pay"
    assert len(set(model.counts_)) > 1


def test_everyone_retires_and_answers_go_on():
    model = ind(budget=0.05, count_sigma=4.0, threshold=0.0).fit(X, Y)
    labels = model.predict(np.repeat(QUERIES, 10, axis=0))
    assert (model.budgets_ < 1 / (2 * 4.0**2)).mean() > 0.95
    assert len(set(labels[-200:].tolist())) == 3


def test_a_record_selected_always_is_counted_as_often_as_planned():
    """The paper's s1 = sqrt(T / (6 B)) spends the budget on T/3 counts, with nothing lost to rounding."""
    for queries, share in [(99, 3.0), (7, 1.0), (1, 1.0), (50, 0.5)]:
        model = mx.IndividualKNN.for_budget(1.0, 1e-5, queries, 0.0, 1.0, count_share=share, n_classes=2)
        assert model.count_sigma == pytest.approx(math.sqrt(queries / (2 * model.budget * share)), rel=1e-12)
        silenced(model.fit([[1.0, 0.0]], [0]))
        for _ in range(3 + queries):
            model.predict([[0.0, 1.0]])  # kernel 0: counted, but no vote
        times = min(int(queries / share), 3 + queries)
        used, rest = divmod(model._filter.UNITS - int(model._filter.left[0]), model._prices.count_units)
        assert (used, rest) == (times, 0)


# --- construction, guarantee ---------------------------------------------------------------------------


def test_for_budget():
    model = mx.IndividualKNN.for_budget(1.0, 1e-5, n_queries=1000, threshold=0.35, vote_sigma=0.4)
    assert model.budget == pytest.approx(0.035926, abs=6e-7)
    assert model.count_sigma == pytest.approx(math.sqrt(1000 / (6 * model.budget)))
    assert 1 - 1e-5 < model.guarantee(1e-5).epsilon <= 1.0
    renyi = mx.IndividualKNN.for_budget(
        1.0, 1e-5, n_queries=1000, threshold=0.35, vote_sigma=0.4, conversion="renyi", count_share=0.5, kernel="rbf"
    )
    assert renyi.budget == pytest.approx(0.030557, abs=6e-7)
    assert renyi.kernel == "rbf"
    assert renyi.count_sigma == pytest.approx(math.sqrt(1000 / renyi.budget))
    assert 1 - 1e-5 < renyi.guarantee(1e-5, "renyi").epsilon <= 1.0
    assert renyi.guarantee(1e-5).epsilon < 1.0


def test_guarantee_is_of_what_was_fitted():
    model = ind(budget=0.1).fit(X, Y)
    before = model.guarantee(1e-5)
    model.set_params(budget=1e-6)
    assert model.guarantee(1e-5) == before
    assert model.fit(X, Y).guarantee(1e-5).epsilon < before.epsilon


def test_the_rbf_width_fits_the_thresholds_that_the_paper_prints():
    """Fashion MNIST: cosine 0.60 or RBF 0.82 to 0.84 (Zhu et al. 2023, Table 5); with nu = e^1.5 RBF selects all."""
    unit, queries = Cosine(0).prepare(X), Cosine(0).prepare(QUERIES[:5])

    def selected(**kernel):
        model = silenced(ind(**kernel).fit(unit, Y))
        model.predict(queries)
        return model.counts_

    cosine = selected(kernel="cosine", threshold=0.60)
    assert 0 < cosine.max() < 300
    assert (selected(kernel="rbf", threshold=0.84) <= cosine).all()
    assert (selected(kernel="rbf", threshold=0.82) >= cosine).all()
    assert selected(kernel="rbf", threshold=0.82, bandwidth=math.exp(1.5)).tolist() == [300.0] * 5


# --- records come and go -------------------------------------------------------------------------------


def test_removed_identifiers_resume_their_budgets():
    names = [f"r{i}" for i in range(300)]
    model = ind().fit(X, Y, ids=names)
    model.predict(QUERIES[:10])
    before = dict(zip(model.ids_, model.budgets_, strict=True))
    spent = min(before, key=before.get)
    model.remove([spent, "r299"])
    assert model.ids_ == [name for name in names if name not in (spent, "r299")]
    assert len(model.budgets_) == 298
    model.predict(QUERIES[10:12])
    model.add([spent, "new"], X[:2], Y[:2])
    after = dict(zip(model.ids_, model.budgets_, strict=True))
    assert after[spent] == before[spent]
    assert after["new"] == 0.5
    assert model.ids_[-2:] == [spent, "new"]


def test_it_does_not_matter_how_records_came():
    """Records added at once, or in parts and after removals: the same answers and budgets."""
    names = [f"r{i}" for i in range(300)]
    whole = ind().fit(X, Y, ids=names)
    parts = ind().fit(np.roll(X, 1, 0)[:80], Y[:80], ids=[f"old{i}" for i in range(80)])
    parts.remove([f"old{i}" for i in range(80)]).add(names[200:], X[200:], Y[200:])
    for start in range(0, 200, 50):
        parts.add(names[start : start + 50], X[start : start + 50], Y[start : start + 50])
    assert whole.predict(QUERIES).tolist() == parts.predict(QUERIES).tolist()
    assert dict(zip(whole.ids_, whole.budgets_, strict=True)) == dict(zip(parts.ids_, parts.budgets_, strict=True))


@pytest.mark.parametrize("hashing", [None, (8, 2)])
def test_room_grows(hashing):
    model = ind(hashing=hashing, threshold=0.0).fit(X[:10], Y[:10])
    many = np.tile(X, (30, 1))
    model.add([f"x{i}" for i in range(9000)], many, np.tile(Y, 30))
    model.remove([f"x{i}" for i in range(0, 9000, 2)])
    model.add([f"y{i}" for i in range(6000)], many[:6000], np.tile(Y, 20))
    assert len(model.budgets_) == 10 + 4500 + 6000
    stored = {name: model._records._blocks for name in model.ids_}
    assert len(stored) == 10510
    silenced(model)
    model.predict(QUERIES[:1])
    kept = np.concatenate([X[:10], many[1::2], many[:6000]])
    expected = (kept @ QUERIES[0] >= 0).sum()
    if hashing is None:
        assert model.counts_.tolist() == [expected]
    else:
        assert 0 < model.counts_[0] <= expected


def test_all_records_removed():
    model = ind().fit(X, Y)
    model.remove(range(300))
    assert model.predict(QUERIES).shape == (40,)
    assert model.budgets_.shape == (0,)


def test_features_are_copied():
    features = X.copy()
    model, other = ind(kernel="rbf").fit(features, Y), ind(kernel="rbf").fit(X, Y)
    features[:] = 0
    assert model.predict(QUERIES).tolist() == other.predict(QUERIES).tolist()


# --- hashing, reuse ------------------------------------------------------------------------------------


def test_hashing_finds_a_subset_and_most_of_it():
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(5, 32))
    features = (centres[rng.integers(0, 5, 2000)] + 0.5 * rng.normal(size=(2000, 32))).astype(np.float32)
    labels = rng.integers(0, 3, 2000)
    exact, hashed = (silenced(ind(threshold=0.8, hashing=hashing).fit(features, labels)) for hashing in (None, (30, 8)))
    exact.predict(features[:50])
    hashed.predict(features[:50])
    assert (hashed.counts_ <= exact.counts_).all()
    assert hashed.counts_.sum() > 0.9 * exact.counts_.sum()


def test_reuse_keeps_the_latest_answers():
    model = silenced(ind(threshold=0.999, reuse=3, min_count=1.0).fit([[1.0, 0.0]], [0]))
    query = [[0.0, 1.0]]
    counts = [model.predict(query) is None or float(model.counts_[0]) for _ in range(6)]
    assert counts == [1.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    assert model.budgets_.tolist() == [0.5]


def test_reuse_lets_answers_vote():
    model = silenced(
        ind(budget=0.2, threshold=0.999, reuse=True, min_count=1.0, count_sigma=2.0).fit([[1.0, 0.0]], [2])
    )
    assert model.predict([[1.0, 0.0]] * 20).tolist() == [2] * 20
    assert model.budgets_[0] < 0.125


# --- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": 0.0}, "budget = 0"),
        ({"threshold": 1.1}, "threshold = 1.1"),
        ({"threshold": -0.1}, "threshold = -0.1"),
        ({"count_sigma": 0.0}, "sigma = 0"),
        ({"vote_sigma": -1.0}, "vote_sigma = -1"),
        ({"min_count": 0}, "min_count = 0"),
        ({"kernel": "linear"}, "accepted: cosine, rbf"),
        ({"kernel": "rbf", "bandwidth": 0.0}, "bandwidth = 0"),
        ({"hashing": 30}, "hashing = 30"),
        ({"hashing": (0, 8)}, "tables = 0"),
        ({"hashing": (3, 33)}, "bits = 33"),
        ({"reuse": -1}, "reuse = -1"),
        ({"n_classes": 2}, "label 2"),
        ({"rng": "seed"}, "rng = 'seed'"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(ac.ParameterError, match=words):
        ind(**changes).fit(X, Y)


@pytest.mark.parametrize("queries", [QUERIES[:, :4], np.full((3, 6), np.nan), QUERIES[0]])
def test_bad_queries_cost_nothing(queries):
    model = ind().fit(X, Y)
    with pytest.raises(ac.ParameterError):
        model.predict(queries)
    assert (model.budgets_ == 0.5).all()


def test_bad_ids():
    with pytest.raises(ac.ParameterError, match="299 identifiers; accepted: 300"):
        ind().fit(X, Y, ids=range(299))
    with pytest.raises(ac.ParameterError, match="holds '1' twice"):
        ind().fit(X[:3], Y[:3], ids=[0, 1, "1"])
    with pytest.raises(ac.ParameterError, match=r"holds 0\.5"):
        ind().fit(X[:2], Y[:2], ids=[0.5, 1])
    with pytest.raises(ac.ParameterError, match="ids = 'ab'"):
        ind().fit(X[:2], Y[:2], ids="ab")
    model = ind().fit(X, Y)
    with pytest.raises(ac.ParameterError, match="'299', which is there"):
        model.add([300, 299], X[:2], Y[:2])
    with pytest.raises(ac.ParameterError, match="'300', which is not there"):
        model.remove([0, 300])
    with pytest.raises(ac.ParameterError, match="4 columns; accepted: 6"):
        model.add([300], X[:1, :4], Y[:1])
    with pytest.raises(ac.ParameterError, match="label 3"):
        model.add([300], X[:1], [3])
    assert len(model.ids_) == 300


@pytest.mark.parametrize(
    "use", [lambda m: m.predict(QUERIES), lambda m: m.add([1], X[:1], Y[:1]), lambda m: m.remove([1])]
)
def test_before_fit(use):
    with pytest.raises(ac.ParameterError, match="before fit"):
        use(ind())


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e15])
@pytest.mark.parametrize("kernel", ["cosine", "rbf"])
def test_features_of_any_size(scale, kernel):
    """The neighbours do not depend on the unit of the features."""
    model = silenced(ind(kernel=kernel, bandwidth=3.0 * scale).fit(scale * np.clip(X, -1, 1), Y))
    plain = silenced(ind(kernel=kernel, bandwidth=3.0).fit(np.clip(X, -1, 1), Y))
    for each, queries in ((model, scale * np.clip(QUERIES, -1, 1)), (plain, np.clip(QUERIES, -1, 1))):
        each.predict(queries)
    assert (model.counts_ == plain.counts_).mean() > 0.9


def test_zero_vectors_have_no_direction():
    model = silenced(ind(threshold=1e-9, min_count=0.5).fit(np.zeros((4, 2)), [0] * 4))
    model.predict([[1.0, 0.0], [0.0, 0.0]])
    assert model.counts_.tolist() == [0.5, 0.5]


def test_noise_that_is_almost_none_warns_of_no_neighbours(recwarn):
    ind(vote_sigma=1e-320).fit(X, Y).predict(QUERIES[:3])
    assert not recwarn
