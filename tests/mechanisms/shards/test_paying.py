"""Partitions that charge their own records: bounds on counts, other processes, a coordinator that is killed."""

import os
import signal
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import accountant as ac
from mechanisms.budgets import StoreError, open_store
from mechanisms.budgets.ledger import Ledger, close_ledgers
from mechanisms.budgets.owners import this_process
from mechanisms.individual_votes import Prices, Selected, count_between, pay_for
from mechanisms.neighbours.kernels import similarity_of
from mechanisms.neighbours.records import Records
from mechanisms.noise import as_randomness
from mechanisms.shards import records
from tests.mechanisms.children import end_of
from tests.mechanisms.shards.tables import CUTS, QUERIES, X, Y, cut, individual_knn, write_parquet

dask = pytest.importorskip("dask")
arrays = pytest.importorskip("dask.array")
IDS = [f"person {i}" for i in range(len(X))]


@pytest.fixture(autouse=True)
def _in_this_thread(monkeypatch):
    monkeypatch.setattr("mechanisms.individual_knn.check_source", lambda rng, store: as_randomness(1))
    with dask.config.set(scheduler="synchronous"):
        yield
    close_ledgers()


def fitted(store, **changes):
    ids = arrays.from_array(IDS, (CUTS[1],))
    return individual_knn(store=store, **{"budget": 0.03, **changes}).fit(*cut(CUTS[1]), ids)


def replayed(model, queries, counts):
    """Units that every record has spent, by the definition, if queries had these K."""
    kernel = similarity_of(model.kernel, model.threshold, model.bandwidth)
    records = Records(kernel, kernel.prepare(X))
    found = [records.select(*pair) for pair in records.near(kernel.prepare(queries))]
    near = [Selected(rows, kernels, Y[rows]) for rows, kernels in found]
    left = np.full(len(X), model._filter.UNITS)
    pay_for(near, left, counts, model._prices)
    return model._filter.UNITS - left


@pytest.mark.each_run(11)
@pytest.mark.parametrize("seed", range(20))
def test_counts_lie_between_their_bounds_wherever_k_lies_between_its_own(seed):
    rng = np.random.default_rng(seed)
    filter = ac.IndividualFilter(1.0)
    prices = Prices(1.0, int(filter.units(rng.choice([0.02, 0.1, 0.3]))), 0.2, 5.0, 2)
    rows = [np.sort(rng.choice(60, rng.integers(0, 60), replace=False)) for _ in range(12)]
    queries = [Selected(each, rng.uniform(0, 1, len(each)), each % 2) for each in rows]
    left = (filter.UNITS * rng.uniform(0, 1, 60) ** 2).astype(np.int64)
    low = rng.uniform(5, 40, 12)
    high = low + rng.choice([0.0, 1.0, 30.0, np.inf], 12)
    fewest, most = count_between(queries, left, low, high, prices)
    assert fewest[0] == most[0] == np.count_nonzero(left[rows[0]] >= prices.count_units)
    reached = set()
    for _ in range(40):
        share = rng.choice([0.0, 1.0, rng.uniform()], 12)
        known = low + share * np.where(np.isfinite(high), high - low, 1e3)
        counts, _ = pay_for(queries, left.copy(), known, prices)
        assert (fewest <= counts).all()
        assert (counts <= most).all()
        reached.add(tuple(counts))
    exact, same = count_between(queries, left, known, known, prices)
    assert np.array_equal(exact, same)
    assert np.array_equal(exact, counts)
    assert len(reached) > 1 or (fewest == most).mean() > 0.3


def test_many_queries_are_paid_for_together(tmp_path, monkeypatch):
    """Two rounds of tasks would do for each query; bounds that close in make it less than one."""
    rounds = []
    with open_store(tmp_path / "store") as store:
        model = fitted(store)
        ask = model._records.ask
        monkeypatch.setattr(model._records, "ask", lambda what, *more: rounds.append(what) or ask(what, *more))
        model.predict(QUERIES)
        assert model.budgets_.min() == 0, "records retired on the way"
    assert len(rounds) < 0.7 * len(QUERIES)
    assert rounds.count("pay") < 0.3 * len(QUERIES)


def test_only_counts_and_sums_of_votes_come_back(tmp_path, monkeypatch):
    found = []
    with open_store(tmp_path / "store") as store:
        model = fitted(store)
        ask = model._records.ask
        monkeypatch.setattr(model._records, "ask", lambda *given: found.append(ask(*given)) or found[-1])
        model.predict(QUERIES)
    assert len(found) > 2
    for first, second in found:
        assert first.shape == (len(second),)
        assert second.shape in ((len(first),), (len(first), 3))
        assert len(first) <= len(QUERIES)


def test_what_another_process_charges_meanwhile_is_seen(tmp_path, monkeypatch):
    """Counts that no longer hold are not paid for: the batch is cancelled, and asked for again."""
    some, batches = np.arange(0, len(X), 3), []
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "other") as other:
        model, expected = fitted(store), fitted(other)
        units = np.full(len(some), model._filter.UNITS)
        other.charge(other.positions([IDS[i] for i in some]), units, model._filter.UNITS)
        count = model._paying._count

        def late(*given):
            found = count(*given)
            if not batches:
                assert store.charge(store.positions([IDS[i] for i in some]), units, model._filter.UNITS).all()
            batches.append(found)
            return found

        monkeypatch.setattr(model._paying, "_count", late)
        assert np.array_equal(model.predict(QUERIES), expected.predict(QUERIES))
        assert not np.array_equal(batches[0][0], batches[1][0][: len(batches[0][0])])
        assert np.array_equal(model.counts_, expected.counts_)
        assert np.array_equal(model.budgets_, expected.budgets_)


@pytest.mark.each_run(2)
@pytest.mark.parametrize("kind", ["dask", "parquet", "list"])
@pytest.mark.parametrize("twice", [(5, 1999), (5, 6), (1198, 1201)])
def test_an_identifier_that_occurs_twice_is_refused_before_anything_is_charged(tmp_path, kind, twice):
    """In one partition, or in two; by its name."""
    names = [IDS[twice[0]] if i == twice[1] else each for i, each in enumerate(IDS)]
    with open_store(tmp_path / "store") as store:
        for _ in range(2):  # also where all of them are known
            with pytest.raises(ac.ParameterError, match=f"'{IDS[twice[0]]}' twice; accepted: every identifier once"):
                fit_by(kind, store, names, tmp_path)
        assert store.settings() is None
        assert np.array_equal(fit_by(kind, store, IDS, tmp_path).predict(QUERIES), fitted(None).predict(QUERIES))


def fit_by(kind, store, names, folder):
    """Fitted, by identifiers in a dask collection, in a column, or in the memory of this process."""
    if kind == "parquet":
        where = write_parquet(folder / "records")
        for path, some in zip(sorted(where.iterdir()), (names[:1200], names[1200:]), strict=True):
            table = pq.read_table(path)
            at = table.column_names.index("person")
            pq.write_table(table.set_column(at, "person", [some]), path, row_group_size=150)
        return individual_knn(store=store, budget=0.03).fit(where, "label", "person")
    ids = arrays.from_array(names, (CUTS[1],)) if kind == "dask" else names
    return individual_knn(store=store, budget=0.03).fit(*cut(CUTS[1]), ids)


@pytest.mark.parametrize("order", ["same", "mixed"])
def test_identifiers_stay_in_the_partitions(tmp_path, monkeypatch, order):
    """The process that calls `fit` gets the position of each partition's first record, or of all if they are mixed."""
    found = []
    compute = records.compute
    monkeypatch.setattr(records, "compute", lambda *given: found.append(compute(*given)) or found[-1])
    with open_store(tmp_path / "store") as store:
        if order == "mixed":
            store.positions([IDS[i] for i in np.random.default_rng(0).permutation(len(IDS))])
        model = fitted(store)
        assert [each.ids for each in found[0]] == [None, None]
        assert [type(each) for each in found[1]] == [int if order == "same" else np.ndarray] * 2
        assert model.ids_ == IDS
        assert model._people.slots == {}
        assert model._filter.left.size == 0
        model.remove([IDS[1999], IDS[0]])
        assert model.ids_ == IDS[1:-1]
        for gone in (IDS[0], "nobody"):
            with pytest.raises(ac.ParameterError, match=f"ids holds '{gone}', which is not there; accepted: those in"):
                model.remove([IDS[7], gone])
        assert len(model.budgets_) == len(IDS) - 2


def test_settings_are_not_fixed_by_a_fit_that_is_refused(tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(ac.ParameterError, match="accepted: str or int"):
            individual_knn(store=store).fit(*cut(CUTS[1]), arrays.from_array(np.linspace(0, 1, len(X)), (CUTS[1],)))
        assert store.settings() is None
        fitted(store)
        with pytest.raises(StoreError, match="settled with budget"):
            fitted(store, budget=0.5)


def killed_child(where, stop, run, _):
    """Answers queries in a process that is killed at that call of the ledger."""
    calls = [0]

    def stopping(method):
        def stopped(*given):
            calls[0] += 1
            if calls[0] == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*given)

        return stopped

    for name in ("begin_batch", "pay", "end_batch"):
        setattr(Ledger, name, stopping(getattr(Ledger, name)))
    sys.modules["mechanisms.individual_knn"].check_source = lambda rng, store: as_randomness(stop)
    with dask.config.set(scheduler="synchronous"), open_store(where) as store:
        fitted(store).predict(QUERIES, run=run)


@pytest.mark.filterwarnings("ignore:partitions of about")
def test_a_coordinator_that_is_killed_resumes_from_the_store(tmp_path):
    """Killed before, between and after the charges of partitions: every query is paid for once, as its K says."""
    for stop in (1, 3, 4, 10):
        assert end_of(killed_child, tmp_path / "store", stop, "run") == -signal.SIGKILL
    with open_store(tmp_path / "store") as store:
        kept = np.count_nonzero(store.answers("run", 0, 40)[0] >= 0)
        model = fitted(store)
        labels = model.predict(QUERIES, run="run")
        assert kept > 0
        assert model.kept_ == 0, "how many of a batch were answered together depends on budgets"
        assert (labels >= 0).all()
        spent = store.spent(store.positions(IDS))
        assert np.array_equal(spent, replayed(model, QUERIES, model.counts_))
        assert np.array_equal(fitted(store).predict(QUERIES, run="run"), labels)
        assert np.array_equal(store.spent(store.positions(IDS)), spent)


@pytest.mark.filterwarnings("ignore:partitions of about")
@pytest.mark.skipif(not this_process(), reason="the system does not tell when a process began")
def test_a_run_without_a_name_that_is_killed_gives_back_what_released_nothing(tmp_path):
    """Killed after some partitions have paid, or all: the next run, of any process of this machine, gives it back."""
    for stop in (3, 4):  # before the second partition pays, and before the answers are in the store
        assert end_of(killed_child, tmp_path / f"store {stop}", stop, None) == -signal.SIGKILL
        with open_store(tmp_path / f"store {stop}") as store:
            assert store.spent(store.positions(IDS)).max() > 0, "until then it is spent"
            model = fitted(store)
            model.predict(QUERIES)
            assert np.array_equal(store.spent(store.positions(IDS)), replayed(model, QUERIES, model.counts_))


def test_an_error_after_the_charges_gives_them_back(tmp_path, monkeypatch):
    """Nothing was released: the answers were to be kept first."""
    with open_store(tmp_path / "store") as store:
        model = fitted(store)

        def fail(*given):
            raise KeyboardInterrupt

        with monkeypatch.context() as change:
            change.setattr(Ledger, "end_batch", fail)
            with pytest.raises(KeyboardInterrupt):
                model.predict(QUERIES)
        assert store.spent(store.positions(IDS)).max() == 0
        model.predict(QUERIES)
        assert np.array_equal(store.spent(store.positions(IDS)), replayed(model, QUERIES, model.counts_))


def test_an_error_of_a_task_gives_back_what_was_charged(tmp_path, monkeypatch):
    with open_store(tmp_path / "store") as store:
        model = fitted(store)
        pay, calls = Ledger.pay, []

        def fail(*given):
            calls.append(pay(*given))
            if len(calls) == 2:
                raise RuntimeError("no more")
            return calls[-1]

        monkeypatch.setattr(Ledger, "pay", fail)
        with pytest.raises(RuntimeError, match="no more"):
            model.predict(QUERIES)
        assert store.spent(store.positions(IDS)).max() == 0
        assert model.budgets_.min() == pytest.approx(0.03)


def stop(done):
    raise KeyboardInterrupt


def test_an_interruption_shows_no_more_than_was_told(tmp_path):
    """How many queries partitions answer together depends on what records have left: nobody sees it."""
    with open_store(tmp_path / "store") as store:
        model = fitted(store, budget=0.01)
        for _ in range(2):  # again: some answers are in the store
            with pytest.raises(KeyboardInterrupt):
                model.predict(QUERIES, stop, run="a")
            assert np.flatnonzero(model.labels_ >= 0).tolist() == [0]
            assert np.flatnonzero(~np.isnan(model.counts_)).tolist() == [0]
            assert model.kept_ == 0
        assert np.count_nonzero(store.answers("a", 0, 40)[0] >= 0) > 1
        assert (model.predict(QUERIES, run="a") >= 0).all()


def test_whole_batches_are_told(tmp_path):
    many = np.tile(QUERIES, (7, 1))
    told = []

    def stop_late(done):
        told.append(done)
        if done == 200:
            raise KeyboardInterrupt

    with open_store(tmp_path / "store") as store:
        model = fitted(store)
        with pytest.raises(KeyboardInterrupt):
            model.predict(many, stop_late, run="a")
        assert told == list(range(1, 201))
        with pytest.raises(KeyboardInterrupt):
            model.predict(many, stop, run="a")
        assert model.kept_ == 128
