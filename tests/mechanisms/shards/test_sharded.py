"""Records in partitions give the same labels, counts and budgets as in memory, however they are cut."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
import mechanisms as mx
from mechanisms.budgets import open_store
from mechanisms.budgets.ledger import close_ledgers
from mechanisms.neighbours.sampled import SampledSearch, find_sampled, merge_nearest
from mechanisms.noise import as_randomness
from mechanisms.noise.sampling import RecordSampler, within_rate
from mechanisms.shards import ShardedRecords, ShardSizeWarning, nearest, pieces, records, shard_records, similar
from tests.cases import audit_after
from tests.mechanisms.shards.tables import (
    CUTS,
    QUERIES,
    X,
    Y,
    cut,
    individual_knn,
    private_knn,
    reverse_knn,
    write_parquet,
)

dask = pytest.importorskip("dask")
arrays = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def _in_this_thread(monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_BYTES", 1.0)
    with dask.config.set(scheduler="synchronous"), warnings.catch_warnings(action="ignore", category=ShardSizeWarning):
        yield


# --- the same results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("changes", [{}, {"screening_sigma": None}, {"max_labels": 5}, {"sampling_rate": 1.0}], ids=str)
def test_private_knn(cuts, changes, monkeypatch):
    here = private_knn(**changes).fit(X, Y).label(QUERIES)
    monkeypatch.setattr(nearest, "PASS", 17)
    model = private_knn(**changes).fit(*cut(cuts))
    there = model.label(QUERIES)
    assert there.labels.tobytes() == here.labels.tobytes()
    assert there.composition == here.composition == model.spent_
    assert here.answered.sum() > 0


@pytest.mark.parametrize("cuts", CUTS)
def test_private_knn_with_label_sets(cuts):
    sets = np.random.default_rng(3).integers(0, 2, (len(X), 4))
    changes = {"clip": 1.5, "screening_sigma": None, "n_classes": None}
    here = private_knn(**changes).fit(X, sets).label(QUERIES)
    there = private_knn(**changes).fit(*cut(cuts, X, sets)).label(QUERIES)
    assert there.labels.tobytes() == here.labels.tobytes()


@pytest.mark.each_run(3)
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("changes", [{}, {"kernel": "rbf", "threshold": 0.5, "bandwidth": 2.5}, {"reuse": 5}], ids=str)
def test_individual_knn(cuts, changes, monkeypatch):
    here, there = individual_knn(**changes).fit(X, Y), individual_knn(**changes)
    monkeypatch.setattr(similar, "HELD", 1000)
    there.fit(*cut(cuts))
    for queries in (QUERIES, QUERIES[::-1]):
        assert there.predict(queries).tobytes() == here.predict(queries).tobytes()
        assert there.counts_.tobytes() == here.counts_.tobytes()
        assert there.budgets_.tobytes() == here.budgets_.tobytes()
        gone = here.ids_[::9]
        here.remove(gone)
        there.remove(gone)
    assert here.budgets_.min() < 0.1 * here.budgets_.max()


CHARGED = [({}, CUTS[0]), ({}, CUTS[1]), ({}, CUTS[2])]
CHARGED += [({"kernel": "rbf", "threshold": 0.5, "bandwidth": 2.5}, CUTS[1]), ({"reuse": 5}, CUTS[1])]
CHARGED += [(changes, cuts) for changes, _ in CHARGED[3:] for cuts in (CUTS[0], CUTS[2])]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("changes", "cuts"), audit_after(5, CHARGED), ids=str)
def test_individual_knn_whose_partitions_charge_a_store(cuts, changes, tmp_path, monkeypatch):
    """The same labels, counts and budgets as in memory, whether few records retire within a batch or many."""
    # noise of a store may not come from a seed; here it must, to compare with a run in memory
    monkeypatch.setattr("mechanisms.individual_knn.check_source", lambda rng, store: as_randomness(1))
    ids = [f"person {i}" for i in range(len(X))]
    here = individual_knn(budget=0.03, **changes).fit(X, Y, ids)
    with open_store(tmp_path / "store") as store:
        if len(cuts) == 2:  # positions of another order, with gaps
            store.positions([f"stranger {i}" for i in range(600)] + ids[::-3])
        there = individual_knn(budget=0.03, store=store, **changes).fit(*cut(cuts), arrays.from_array(ids, (cuts,)))
        for number, queries in enumerate((QUERIES, QUERIES[::-1])):
            assert there.predict(queries, run=f"run {number}").tobytes() == here.predict(queries).tobytes()
            assert there.counts_.tobytes() == here.counts_.tobytes()
            assert there.budgets_.tobytes() == here.budgets_.tobytes()
            gone = here.ids_[::9]
            here.remove(gone)
            there.remove(gone)
        spent = store.spent(store.positions(ids))
    assert here.budgets_.min() < 0.01 * here.budget
    with open_store(tmp_path / "store") as store:  # every row as the store's checksum says
        assert np.array_equal(store.spent(store.positions(ids)), spent)
        assert np.array_equal(store.answers("run 1", 0, 40)[0], there.labels_)
    close_ledgers()


@pytest.mark.each_run(1)
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("changes", [{}, {"rounds": 2, "balance": 0.5}, {"noise": "discrete-laplace"}], ids=str)
def test_reverse_knn(cuts, changes):
    here = reverse_knn(**changes).label(X, Y, QUERIES)
    there = reverse_knn(**changes).label(*cut(cuts), QUERIES)
    assert there.labels.tobytes() == here.labels.tobytes()
    assert all(a.counts.tobytes() == b.counts.tobytes() for a, b in zip(here.rounds, there.rounds, strict=True))
    assert there.bytes_per_client == here.bytes_per_client


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("cuts", "rows", "lists"), [(CUTS[0], 2000, True), (CUTS[1], 150, False), (CUTS[2], 99, True)])
def test_parquet(tmp_path, cuts, rows, lists):
    folder = write_parquet(tmp_path / "records", cuts, rows, lists)
    ids = [f"person {i}" for i in range(len(X))]
    expected = private_knn().fit(X, Y).label(QUERIES).labels
    assert np.array_equal(private_knn().fit(folder, "label").label(QUERIES).labels, expected)
    assert np.array_equal(private_knn().fit(f"{folder}/*.parquet", "label").label(QUERIES).labels, expected)
    assert np.array_equal(private_knn().fit(f"file://{folder}", "label").label(QUERIES).labels, expected)
    here, there = individual_knn().fit(X, Y, ids), individual_knn().fit(folder, "label", "person")
    assert here.predict(QUERIES).tobytes() == there.predict(QUERIES).tobytes()
    assert there.ids_ == ids
    assert here.budgets_.tobytes() == there.budgets_.tobytes()
    counts = [reverse_knn().label(*records, QUERIES).counts for records in ((X, Y), (folder, "label"))]
    assert counts[0].tobytes() == counts[1].tobytes()


def test_classes_by_name_and_labels_that_are_no_dask_array():
    names = np.array(["no", "some", "yes"])
    here = private_knn(classes=names, n_classes=None).fit(X, names[Y]).label(QUERIES)
    there = private_knn(classes=names, n_classes=None).fit(cut(CUTS[2])[0], names[Y]).label(QUERIES)
    assert there.labels.tolist() == here.labels.tolist()


def test_data_frames_of_dask(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcdef")).assign(label=Y)
    whole = frames.from_pandas(table, npartitions=5)
    model = private_knn().fit(whole[list("abcdef")], whole["label"])
    expected = private_knn().fit(X, Y).label(QUERIES).labels
    queries = pandas.DataFrame(QUERIES, columns=list("abcdef"))
    assert np.array_equal(model.label(queries[list("fedcba")]).labels, expected)


# --- the search, by its definition ---------------------------------------------------------------------


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 80),
    k=st.integers(1, 90),
    scale=st.sampled_from([1.0, 1e-3, 1e6, 1e15, 1e-25]),
    shift=st.sampled_from([0.0, 1.0, 1e3]),
    rates=st.sampled_from([(0.3,), (1.0, 0.5), (1e-12, 0.9)]),
    distinct=st.sampled_from([1, 2, 1000]),
    seed=st.integers(0, 10**6),
)
def test_parts_in_any_order_find_the_nearest_of_each_sample(n, k, scale, shift, rates, distinct, seed):
    rng = np.random.default_rng(seed)
    records, queries = (
        (scale * np.clip((rng.integers(0, distinct, (m, 5)) / distinct + shift), -1e3, 1e3) / 1e3).astype(np.float32)
        for m in (n, 3)
    )
    sampler, numbers = RecordSampler(rng.bytes(32)), np.array([0, 5, 10**9])
    search = SampledSearch(queries, numbers, sampler, list(enumerate(rates)), k)
    edges = np.sort(rng.integers(0, n + 1, 3))
    bounds = [0, *edges, n]
    votes, known = np.arange(n), None
    parts = []
    for first, end in itertools.pairwise(bounds):
        known = find_sampled(records[first:end], votes[first:end], first, search, known)
        parts.append(known.among(first, end - first))
    found = merge_nearest([parts[i] for i in rng.permutation(len(parts))])
    for q, s in itertools.product(range(3), range(len(rates))):
        member = within_rate(sampler.words(int(numbers[q]), votes)[:, s], rates[s])
        gaps = [sum_of_squares(records[i], queries[q]) for i in votes[member]]
        expected = sorted(votes[member][np.lexsort((votes[member], gaps))[:k]].tolist())
        assert found.of(q, s).tolist() == expected


def sum_of_squares(row, query):
    """Four partial sums, in the order that `mechanisms.neighbours.distances` fixes."""
    squares = [float(gap) ** 2 for gap in row.astype(float) - query.astype(float)]
    lanes = [0.0] * 4
    whole = len(squares) // 4 * 4
    for j, square in enumerate(squares):
        lanes[j % 4 if j < whole else 0] += square
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


# --- samples -------------------------------------------------------------------------------------------


def test_a_record_is_sampled_by_itself_and_at_its_rate():
    """Draws of a record do not depend on others, and are uniform and independent over queries and samples."""
    sampler = RecordSampler(bytes(range(32)))
    words = sampler.words(3, np.arange(1000))
    assert np.array_equal(sampler.words(3, np.array([998, 5])), words[[998, 5]])
    assert np.array_equal(sampler.words(np.array([3, 3]), np.array([1, 0])), words[[1, 0]])
    queries, records = (each.ravel() for each in np.meshgrid(np.arange(200), np.arange(500)))
    many = sampler.words(queries, records)
    assert len(np.unique(many)) == many.size
    inside = many < np.uint64(2**64 // 5)
    spread = 5 * np.sqrt(0.2 * 0.8 / len(many))
    assert abs(inside.mean(axis=0) - 0.2).max() < spread
    assert abs((inside[:, 0] & inside[:, 1]).mean() - 0.04) < spread
    by_query = inside[:, 0].reshape(500, 200)
    assert abs((by_query[:, 1:] & by_query[:, :-1]).mean() - 0.04) < spread
    assert abs((by_query[1:] & by_query[:-1]).mean() - 0.04) < spread


def test_the_probability_is_never_above_the_rate():
    words = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert within_rate(words, 1.0).all()
    assert within_rate(words, 0.5).tolist() == [True, True, True, False, False]
    assert within_rate(words, np.nextafter(1.0, 0)).tolist() == [True] * 4 + [False]
    assert within_rate(words, 1.5 * 2.0**-64).tolist() == [True] + [False] * 4
    assert not within_rate(words, 2.0**-65).any()
    assert not within_rate(words, 0.0).any()


def test_a_real_release_draws_its_samples_from_system_entropy():
    keys = {RecordSampler.from_source(mx.noise.as_randomness(None)).key for _ in range(3)}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}


def test_another_call_draws_other_samples(monkeypatch):
    keys = []
    make = RecordSampler.from_source
    monkeypatch.setattr(RecordSampler, "from_source", lambda source: keys.append(make(source).key) or make(source))
    model = private_knn().fit(*cut(CUTS[1]))
    model.label(QUERIES[:2])
    model.label(QUERIES[:2])
    assert len(set(keys)) == 2


# --- a journal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 5, 19])
def test_an_interrupted_run_goes_on_from_its_journal(tmp_path, stop):
    expected = private_knn().fit(X, Y).label(QUERIES)

    def interrupt(done):
        if done > stop:
            raise KeyboardInterrupt

    with mx.Journal(tmp_path / "run") as journal, pytest.raises(KeyboardInterrupt):
        private_knn().fit(*cut(CUTS[1])).label(QUERIES, journal, interrupt)
    with mx.Journal(tmp_path / "run") as journal:
        model = private_knn().fit(*cut(CUTS[1]))
        found = model.label(QUERIES, journal)
    assert found.labels.tobytes() == expected.labels.tobytes()
    assert found.composition == expected.composition == model.spent_
    other = X.copy()
    other[0, 0] += 1
    with mx.Journal(tmp_path / "run") as journal, pytest.raises(ac.AccountantError, match="other private"):
        private_knn().fit(*cut(CUTS[1], other, Y)).label(QUERIES, journal)


def by_workers(kind, folder, monkeypatch):
    """What runs over Parquet files with some number of workers; it returns the number of partitions, too."""

    def label(workers, journal, progress=None):
        monkeypatch.setattr(records, "count_workers", lambda: workers)
        found = shard_records(str(folder), "label", None, 3)
        if kind == "reverse":
            return reverse_knn(rounds=2).label(str(folder), "label", QUERIES, journal=journal), len(found.sizes)
        return private_knn().fit(str(folder), "label").label(QUERIES, journal, progress), len(found.sizes)

    return label


@pytest.mark.parametrize("kind", ["private", "reverse"])
def test_a_journal_does_not_depend_on_the_number_of_workers(kind, tmp_path, monkeypatch):
    """The number of workers says how row groups are put together to partitions."""
    write_parquet(tmp_path / "records")
    label = by_workers(kind, tmp_path / "records", monkeypatch)

    def interrupt(done):
        if done > 5:
            raise KeyboardInterrupt

    with mx.Journal(tmp_path / "run") as journal:
        if kind == "reverse":
            label(4, journal)
        else:
            with pytest.raises(KeyboardInterrupt):
                label(4, journal, interrupt)
    expected, _ = label(1, None)
    with mx.Journal(tmp_path / "run") as journal:
        found, fewer = label(1, journal)
    assert found.labels.tobytes() == expected.labels.tobytes()
    assert found.composition == expected.composition
    assert fewer < label(4, None)[1]
    write_parquet(tmp_path / "records", x=X[::-1])
    with mx.Journal(tmp_path / "run") as journal, pytest.raises(ac.AccountantError, match="other private"):
        label(1, journal)


@pytest.mark.parametrize("kind", ["private", "reverse"])
def test_a_journal_of_an_earlier_version_goes_on_with_as_many_workers(kind, tmp_path, monkeypatch):
    """It holds a digest of whole partitions."""
    write_parquet(tmp_path / "records")
    label = by_workers(kind, tmp_path / "records", monkeypatch)
    with monkeypatch.context() as earlier, mx.Journal(tmp_path / "run") as journal:
        earlier.setattr(
            ShardedRecords, "digest", property(ShardedRecords.digest_by_partition, lambda *_: None), raising=False
        )
        first, _ = label(2, journal)
    with mx.Journal(tmp_path / "run") as journal:
        again, _ = label(2, journal)
    assert again.labels.tobytes() == first.labels.tobytes()
    with mx.Journal(tmp_path / "run") as journal, pytest.raises(ac.AccountantError, match="other private"):
        label(1, journal)


# --- refusals and warnings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda: private_knn().fit(cut(CUTS[1])[0], Y[:-1]), "y has 1999 rows; accepted: 2000, as X"),
        (lambda: private_knn().fit(cut(CUTS[1])[0], Y + 1), r"label 3; accepted: 0\.\.2"),
        (
            lambda: private_knn().fit(*cut(CUTS[1], np.where(X[5, 1] == X, np.nan, X))),
            r"of X\[5, 1\] = nan is out of range",
        ),
        (lambda: private_knn(n_neighbors=2001).fit(*cut(CUTS[1])), "2001; accepted: at most the 2000 records"),
        (lambda: individual_knn(hashing=(2, 3)).fit(*cut(CUTS[1])), "hashing = .*accepted: None"),
        (lambda: individual_knn().fit(*cut(CUTS[1]), "digest"), "accepted: identifiers, or their column"),
        (lambda: individual_knn().fit(*cut(CUTS[1])).add(["a"], X[:1], Y[:1]), "accepted: fit of all of them"),
        (lambda: reverse_knn(model="local").label(*cut(CUTS[1]), QUERIES), "accepted: 'central', and None"),
        (lambda: private_knn().fit("nowhere", "label"), "accepted: a directory of .parquet files"),
        (lambda: private_knn().fit("nowhere://x", "label"), "accepted: a path, or an address"),
        (lambda: private_knn().fit("nowhere", Y), "accepted: the name of their column of labels"),
    ],
)
def test_refusals(fit, words):
    with pytest.raises(ac.ParameterError, match=words) as error:
        fit()
    assert "\n" not in str(error.value)


def test_parquet_that_cannot_be_used(tmp_path):
    folder = write_parquet(tmp_path / "records", lists=False)
    with pytest.raises(ac.ParameterError, match="no column 'truth'; accepted: a column of labels"):
        private_knn().fit(folder, "truth")
    model = private_knn().fit(folder, "label")
    write_parquet(folder, (1200, 799), lists=False)
    with pytest.raises(ac.ParameterError, match="came or went since fit; accepted: the same records"):
        model.label(QUERIES)
    (folder / "part-001.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ac.ParameterError, match=r"part-001.parquet: .*accepted: a Parquet file"):
        private_knn().fit(folder, "label")


@pytest.mark.each_run(1)
@pytest.mark.parametrize("what", ["order", "value", "label"])
def test_a_file_that_changed_since_fit_is_refused_before_anything_is_charged(tmp_path, what):
    """Records are known by their places: in another order others would pay for them."""
    folder, x, y = write_parquet(tmp_path / "records"), X.copy(), Y.copy()
    if what == "order":
        x[1200:], y[1200:] = x[:1199:-1].copy(), y[:1199:-1].copy()
    elif what == "value":
        x[1990, 3] += 1.0
    else:
        y[1990] = (y[1990] + 1) % 3
    with open_store(tmp_path / "store") as store:
        paying = individual_knn(store=store, rng=None).fit(folder, "label", "person")
        free = individual_knn().fit(folder, "label", "person")
        sampled = private_knn().fit(folder, "label")
        write_parquet(folder, x=x, y=y)
        words = r"part-001.parquet: changed since fit; accepted: the same records in their order$"
        for model in (paying, free, sampled):
            with pytest.raises(ac.ParameterError, match=words):
                (model.label if model is sampled else model.predict)(QUERIES)
        assert store.spent(store.positions([f"person {i}" for i in range(len(X))])).max() == 0
        assert free.budgets_.min() == free.budget
        write_parquet(folder)  # as they were
        assert sampled.label(QUERIES).answered.any()
        assert len(paying.predict(QUERIES)) == len(QUERIES)


def turning(records):
    """Dask arrays whose blocks give their rows in another order each time, as a shuffle without a seed does."""
    rng, (x, y) = np.random.default_rng(5), records
    return x.map_blocks(lambda block: rng.permutation(block), dtype=x.dtype, meta=X[:0]), y


def test_partitions_that_come_in_another_order_each_time_are_refused():
    words = "changed since fit; accepted: the same records in their order"
    with pytest.raises(ac.ParameterError, match=words):
        private_knn().fit(*turning(cut(CUTS[1]))).label(QUERIES)
    with pytest.raises(ac.ParameterError, match=words):
        reverse_knn().label(*turning(cut(CUTS[1])), QUERIES)


def test_partitions_of_a_bad_size_are_warned_of_by_rounded_numbers():
    many = cut((23,) * 86 + (22,))
    with (
        warnings.catch_warnings(action="error", category=ShardSizeWarning),
        pytest.raises(ShardSizeWarning, match=r"^partitions of about 23 records: .*better: 10000 or more"),
    ):
        shard_records(*many, None, 3)


def test_a_partition_too_large_for_a_worker_is_warned_of_by_rounded_numbers(monkeypatch):
    monkeypatch.setattr("mechanisms.shards.records.worker_memory", lambda: 4.0 * 6 * 8 * 1150)
    with (
        warnings.catch_warnings(action="error", category=ShardSizeWarning),
        pytest.raises(
            ShardSizeWarning, match=r"^a partition of about 1200 records may not fit .*better: at most 1\d00$"
        ),
    ):
        shard_records(*cut(CUTS[1]), None, 3)


def test_what_is_persisted_is_read_once():
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    x, y = cut(CUTS[1])
    lazy = x.map_blocks(read, dtype=x.dtype, meta=X[:0])
    expected = private_knn().fit(lazy, y).label(QUERIES).labels
    assert sorted(reads) == [800, 800, 1200, 1200]
    reads.clear()
    kept = lazy.persist()
    assert np.array_equal(private_knn().fit(kept, y).label(QUERIES).labels, expected)
    assert sorted(reads) == [800, 1200]


def test_the_client_gets_no_record(monkeypatch):
    """What comes back from the partitions has no features: sizes, digests, distances, indices, kernels and labels."""
    from mechanisms.shards import records

    seen, original = [], records.compute
    monkeypatch.setattr(records, "compute", lambda *given: seen.append(original(*given)) or seen[-1])
    private_knn().fit(*cut(CUTS[1])).label(QUERIES)
    individual_knn().fit(*cut(CUTS[1])).predict(QUERIES)
    reverse_knn().label(*cut(CUTS[1]), QUERIES)
    values = set(X.ravel().tolist()) - {1.0}
    found = []

    def collect(each):
        if isinstance(each, np.ndarray):
            found.extend(each.ravel().tolist())
        elif isinstance(each, list | tuple):
            for one in each:
                collect(one)
        elif hasattr(each, "__dict__"):
            for one in vars(each).values():
                collect(one)

    collect(seen)
    assert len(found) > 1000
    assert not values & set(found)
