"""Ind-KNN with a durable store: the charges for an answer are on disk before it is released."""

import argparse
import copy
import os
import pickle
import signal
import time
from contextlib import contextmanager
from threading import Thread

import numpy as np
import pytest

import accountant as ac
from mechanisms.budgets import prediction_run
from mechanisms.budgets import store as store_module
from mechanisms.budgets.store import StoreError, open_store
from mechanisms.cli.store_option import hold_digests
from mechanisms.exclusive import UsageError
from mechanisms.noise.source import Seeded, System
from tests.mechanisms.children import KILLS, listen, start
from tests.mechanisms.test_individual_knn import QUERIES, X, Y, silenced
from tests.mechanisms.test_individual_knn import ind as plain_ind

pytest.importorskip("opendp.prelude")
IDS = range(300)


class Foreseen(System):
    """Stands for system entropy, and draws what a test can predict."""

    def __init__(self, seed):
        super().__init__()
        self.seeded = Seeded(np.random.default_rng(seed))

    def words(self, size):
        return self.seeded.words(size)

    def gaussian(self, sigma, size, grain):
        return self.seeded.gaussian(sigma, size, grain)


def ind(rng=1, **changes):
    return plain_ind(rng=Foreseen(rng), **changes)


class Ledger:
    """Budgets in memory, as `mechanisms.budgets.store` keeps them on disk."""

    def __init__(self):
        self.names, self.units, self.settings = {}, {}, None

    def settle(self, settings):
        if self.settings not in (None, settings):
            raise ac.ParameterError("other settings")
        self.settings = settings

    def positions(self, ids):
        return np.array([self.names.setdefault(name, len(self.names)) for name in ids])

    def spent(self, positions):
        return np.array([self.units.get(each, 0) for each in positions])

    def charge(self, positions, units, cap):
        granted = []
        for each, amount in zip(positions, units, strict=True):
            granted.append(self.units.get(each, 0) + int(amount) <= cap)
            if granted[-1]:
                self.units[each] = self.units.get(each, 0) + int(amount)
        return np.array(granted)

    def left(self, cap):
        """What the 300 records of the tests have left of so many units."""
        return [cap - self.units.get(each, 0) for each in self.positions([str(i) for i in range(300)])]


def test_a_store_changes_no_answer():
    ledger = Ledger()
    plain, durable = ind().fit(X, Y), ind(store=ledger).fit(X, Y, IDS)
    assert plain.predict(QUERIES).tolist() == durable.predict(QUERIES).tolist()
    assert np.array_equal(plain.budgets_, durable.budgets_)
    assert ledger.left(durable._filter.UNITS) == durable._filter.left.tolist()


def test_budgets_resume_from_a_store():
    ledger = Ledger()
    first = ind(store=ledger).fit(X, Y, IDS)
    first.predict(QUERIES[:20])
    second = ind(store=ledger).fit(X[100:], Y[100:], ids=range(100, 300))
    assert np.array_equal(second.budgets_, first.budgets_[100:])
    second.add(range(100), X[:100], Y[:100])
    assert np.array_equal(second.budgets_, np.roll(first.budgets_, 200))
    with pytest.raises(ac.ParameterError, match="other settings"):
        ind(store=ledger, budget=0.6).fit(X, Y, IDS)


def test_two_processes_on_one_store_do_not_overspend():
    ledger = Ledger()
    models = [ind(store=ledger, rng=seed, budget=0.1).fit(X, Y, IDS) for seed in range(2)]
    for first in range(0, 40, 4):
        for model in models:
            model.predict(QUERIES[first : first + 4])
    assert max(ledger.units.values()) <= models[0]._filter.UNITS
    assert np.array_equal(models[1]._filter.left, np.minimum(models[1]._filter.left, models[0]._filter.left.max()))
    for model in models:
        stored = np.array(ledger.left(model._filter.UNITS))
        assert (model._filter.left >= stored).all()


class Interrupted(BaseException):
    """The exception of a signal."""


@pytest.mark.parametrize("stop", range(1, 21))
def test_whatever_is_drawn_has_been_paid_for(stop):
    """When a run stops at a draw, the charges for it are already in the store."""
    ledger = Ledger()
    model = ind(store=ledger, rng=3).fit(X, Y, IDS)
    reference = ind(rng=3).fit(X, Y, IDS)
    reference.predict(QUERIES[: (stop - 1) // 2])
    draws = [0]

    class Stops(Foreseen):
        def gaussian(self, sigma, size, grain):
            draws[0] += 1
            if draws[0] == stop:
                raise Interrupted
            return super().gaussian(sigma, size, grain)

    model._source = Stops(3)
    with pytest.raises(Interrupted):
        model.predict(QUERIES)
    stored = np.array(ledger.left(model._filter.UNITS))
    done = model._filter.left
    assert np.array_equal(stored, done)
    assert (done <= reference._filter.left).all()
    assert (done < reference._filter.left).any(), "the charge for the draw that was stopped"


class Batched(Ledger):
    """Charges count from the end of a batch on, unless it fails."""

    fails = False

    @contextmanager
    def batch(self):
        kept = dict(self.units)
        try:
            yield
            if self.fails:
                raise OSError("disk full")
        except BaseException:
            self.units = kept
            raise


def test_batches_are_committed_together_and_when_interrupted():
    ledger = Batched()
    model, plain = ind(store=ledger).fit(X, Y, IDS), ind().fit(X, Y)

    def stop(done):
        if done == 5:
            raise Interrupted

    with pytest.raises(Interrupted):
        model.predict(QUERIES, progress=stop)
    plain.predict(QUERIES[:5])
    assert ledger.left(model._filter.UNITS) == plain._filter.left.tolist()
    assert model.predict(QUERIES[5:]).tolist() == plain.predict(QUERIES[5:]).tolist()


def test_a_process_with_slow_queries_leaves_the_store_to_others(tmp_path, monkeypatch):
    """Another one gets its turn meanwhile, however many queries there are; a turn of a second is shortened here."""
    monkeypatch.setattr(prediction_run, "COMMIT_SECONDS", 0.1)
    monkeypatch.setattr(store_module, "TURN", 0.1)
    told, many = [], np.tile(QUERIES, (3, 1))[:100]

    def slow(done):
        told.append(done)
        time.sleep(0.03)

    def serve():
        with open_store(tmp_path / "budgets.db") as store:
            ind(store=store, rng=2).fit(X, Y, IDS).predict(many, slow)

    with open_store(tmp_path / "budgets.db") as store:
        other = Thread(target=serve)
        other.start()
        while len(told) < 10:
            time.sleep(0.001)
        assert store.spent(store.positions(["0"])).shape == (1,)
        waited = len(told)
        other.join()
    assert len(told) == len(many)
    assert waited < 90, "the other one waited for all queries"


@pytest.mark.parametrize(
    ("seconds", "commit", "sizes"),
    [
        (0.0, 0.0, [4, 8, 16, 32, 64, 76]),
        (0.12, 0.1, [4, 8, 8, 8]),
        (0.3, 0.1, [4, 2, 2, 2]),
        (3.0, 0.1, [4, 2, 1, 1]),
        (0.01, 2.0, [4, 8, 16, 32, 64, 76]),  # to write less at a time would save nobody a wait
    ],
)
@pytest.mark.parametrize("wait", [0.0, 20.0])
def test_batches_last_about_a_second(wait, seconds, commit, sizes, monkeypatch):
    """However long this process waits for others."""
    clock = [0.0]

    class Slow(Batched):
        @contextmanager
        def batch(self):
            clock[0] += wait
            yield
            clock[0] += commit

    monkeypatch.setattr(prediction_run.time, "monotonic", lambda: clock[0])
    run = prediction_run.PredictionRun(Slow(), None, QUERIES, {})
    found = []
    for some in run.batches(200):
        found.append(some)
        with run.batch():
            clock[0] += seconds * (some.stop - some.start)
    assert [some.stop - some.start for some in found][: len(sizes)] == sizes
    assert np.concatenate([np.arange(200)[some] for some in found]).tolist() == list(range(200))


@pytest.mark.parametrize("store", [None, Ledger()])
def test_where_nobody_waits_batches_are_large(store):
    run = prediction_run.PredictionRun(store, None, QUERIES, {})
    assert list(run.batches(200)) == [slice(0, 128), slice(128, 200)]


def test_answers_whose_commit_failed_are_not_reused():
    ledger = Batched()
    model = silenced(ind(threshold=0.999, reuse=True, min_count=1.0, store=ledger).fit([[1.0, 0.0]], [0], [0]))
    ledger.fails = True
    with pytest.raises(OSError, match="disk full"):
        model.predict([[0.0, 1.0]] * 3)
    ledger.fails = False
    model.predict([[0.0, 1.0]] * 3)
    assert model.counts_.tolist() == [1.0, 1.0, 2.0]


def test_a_durable_store_keeps_what_was_spent(tmp_path):
    plain = ind().fit(X, Y)
    with open_store(tmp_path / "budgets.db") as store:
        first = ind(store=store).fit(X, Y, IDS)
        assert first.predict(QUERIES).tolist() == plain.predict(QUERIES).tolist()
    with open_store(tmp_path / "budgets.db") as store:
        assert np.array_equal(ind(store=store).fit(X, Y, IDS).budgets_, plain.budgets_)


# --- who the records are ------------------------------------------------------------------------------


def test_row_numbers_and_seeds_are_refused_with_a_store(tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(ac.ParameterError, match="ids = None with a store"):
            ind(store=store).fit(X, Y)
        model = ind(store=store).fit(X[:2], Y[:2], ["a", "b"])
        with pytest.raises(ac.ParameterError, match="accepted: identifiers that were given, as at fit"):
            model.add("digest", X[2:3], Y[2:3])
        for rng in (1, np.random.default_rng(1), Seeded(np.random.default_rng(1))):
            with pytest.raises(ac.ParameterError, match="with a store, where it would repeat its noise"):
                plain_ind(rng=rng, store=store).fit(X, Y, IDS)
        with pytest.raises(StoreError, match="settled with identifiers = 'given'"):
            ind(store=store).fit(X, Y, "digest")


@pytest.mark.parametrize("kind", ["digest", "given"])
def test_the_same_people_in_another_order_pay_once(kind, tmp_path):
    """Several sessions on one store: no record exceeds its budget, though rows have moved."""
    rng = np.random.default_rng(0)
    for session in range(3):
        order = rng.permutation(300)
        with open_store(tmp_path / "store") as store:
            ids = "digest" if kind == "digest" else [f"person {i}" for i in order]
            ind(store=store, budget=0.05, rng=session).fit(X[order], Y[order], ids).predict(QUERIES)
    with open_store(tmp_path / "store") as store:
        model = ind(store=store, budget=0.05).fit(X, Y, ids if ids == "digest" else [f"person {i}" for i in range(300)])
        spent = store.spent(np.arange(300))
        assert store._snapshot.head.records == 300
        cap = model._filter.UNITS
        assert spent.max() <= cap
        assert sorted(cap - model._filter.left) == sorted(spent.tolist())
        assert (spent > 0.7 * cap).mean() > 0.5, "sessions went on where the ones before them had ended"


def test_digests_are_of_the_record_and_the_store(tmp_path):
    twice = np.concatenate([X[:3], X[:1], -0.0 * X[:1], 0.0 * X[:1]])
    labels = np.array([0, 1, 2, 0, 1, 1])
    names = []
    for name, order in (("a", [0, 1, 2, 3, 4, 5]), ("a", [5, 3, 1, 4, 0, 2]), ("b", [0, 1, 2, 3, 4, 5])):
        with open_store(tmp_path / name) as store:
            names.append(set(ind(store=store).fit(twice[order], labels[order], "digest").ids_))
    assert names[0] == names[1]
    assert not names[0] & names[2]
    assert sorted(len(each) for each in names[0]) == [64, 64, 64, 64, 66, 66]
    model = ind().fit(X[:3], Y[:3], "digest").add("digest", X[:1], Y[:1])
    assert len(model.ids_) == 4
    model.remove(model.ids_[:1]).add("digest", X[:1], Y[:1])
    assert len(set(model.ids_)) == 4


def test_the_record_that_stays_of_two_equal_ones_has_spent_what_both_have(tmp_path):
    """Whichever of their names is removed, and also where the records are read again by another process."""
    twice, labels = np.concatenate([X[:4], X[:1], X[:1]]), np.concatenate([Y[:4], Y[:1], Y[:1]])
    for removed in (0, 1, 2):
        with open_store(tmp_path / f"{removed}") as store:
            model = ind(store=store, threshold=0.0).fit(twice, labels, "digest")
            equal = sorted(name for name in model.ids_ if name[:64] == max(model.ids_, key=len)[:64])
            model.predict(X[[0, 0]])
            with pytest.raises(ac.ParameterError, match="which is not there"):
                model.remove([equal[removed], "f" * 64])
            model.remove([equal[removed]])
            assert sorted(set(equal) & set(model.ids_)) == equal[:2]
            model.predict(X[[0, 0, 0]])
            left = dict(zip(model.ids_, model.budgets_, strict=True))
            assert left[equal[0]] == min(left.values()) < 0.3
        with open_store(tmp_path / f"{removed}") as store:
            model = ind(store=store, threshold=0.0).fit(twice[:5], labels[:5], "digest")
            assert dict(zip(model.ids_, model.budgets_, strict=True)) == left
            assert model.remove(equal[:2]).ids_ == [name for name in left if name not in equal]


def test_many_records_leave_by_their_digests_at_once():
    """Of 20 000 different ones and two hundred equal ones; each was compared with all others, for half a minute."""
    rows = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)
    rows = np.concatenate([rows, np.repeat(rows[:1], 200, axis=0)])
    model = ind().fit(rows, np.zeros(len(rows), int), "digest")
    names = model.ids_
    first = names[0]
    model.remove([name for name in names if not name.startswith(first)] + names[-150:])
    assert sorted(model.ids_) == sorted([first, *(f"{first}#{i}" for i in range(2, 52))])


def test_digests_are_made_of_the_same_columns_and_classes_for_ever(tmp_path):
    """Others would give every record a new name, and a new budget."""
    pandas = pytest.importorskip("pandas")
    columns, names = [f"c{i}" for i in range(X.shape[1])], ["no", "yes", "perhaps"]
    frame, text = pandas.DataFrame(X, columns=columns), np.array(names)[Y]
    turned = frame[columns[::-1]]
    with open_store(tmp_path / "store") as store:
        for keeper in (store, None):
            model = ind(store=keeper, n_classes=None, classes=names).fit(frame, text, "digest")
            model.predict(frame[:3])
            left = model.budgets_
            for records, labels, classes, match in (
                (turned, text, names, "columns"),
                (X, text, names, "columns"),
                (frame[columns[:-1]], text, names, "columns, width"),
                (frame, text, names[::-1], "classes"),
                (frame, Y, None, "classes"),
            ):
                with pytest.raises(ac.ParameterError, match=f"other {match}.*; accepted with ids = .digest.: the same"):
                    model.set_params(classes=classes).fit(records, labels, "digest")
            model.set_params(classes=names).fit(frame, text, "digest")
            assert (model.budgets_ == left).all()
    with (
        open_store(tmp_path / "store") as store,
        pytest.raises(ac.ParameterError, match=r"other columns; .*other store"),
    ):
        ind(store=store, n_classes=None, classes=names).fit(turned, text, "digest")


def test_a_store_that_fails_is_not_taken_for_other_columns(tmp_path, monkeypatch):
    """A locked or damaged store says so, also where it is asked what its digests are made of."""

    def fail(*_):
        raise StoreError("the store: is locked; accepted: try again")

    monkeypatch.setattr("mechanisms.budgets.store.Store.begin", fail)
    options = argparse.Namespace(ids="digest", label="label")
    private = argparse.Namespace(features=X, columns=None)
    with open_store(tmp_path / "store") as store:
        for ask in (
            lambda: ind(store=store).fit(X, Y, "digest"),
            lambda: hold_digests(store, options, private, ("a", "b")),
        ):
            with pytest.raises(StoreError, match=r"^the store: is locked; accepted: try again$"):
                ask()


def test_what_was_answered_is_spent_for_good():
    """A second `fit`, also without a store: identifiers keep their remaining budgets, other kinds are refused."""
    model = ind().fit(X, Y, [f"r{i}" for i in range(300)])
    model.fit(X, Y)  # nothing was answered yet
    model.predict(QUERIES)
    before = dict(zip(model.ids_, model.budgets_, strict=True))
    for again in (lambda: model.fit(X, Y), lambda: model.fit(X, Y, "digest")):
        with pytest.raises(ac.ParameterError, match="fit again after answers"):
            again()
    with pytest.raises(ac.ParameterError, match=r"the same store and budget = 0\.5"):
        model.set_params(budget=5.0).fit(X, Y, range(300))
    model.set_params(budget=0.5, threshold=0.2).fit(X[::-1], Y[::-1], range(299, -1, -1))
    assert dict(zip(model.ids_, model.budgets_, strict=True)) == before
    model.predict(QUERIES)
    model.remove(range(100)).fit(X[:100], Y[:100], range(100))
    assert (model.budgets_ <= [before[str(i)] for i in range(100)]).all()
    assert (model.budgets_ < 0.1).any()


def test_parameters_that_change_after_fit_change_nothing():
    model, plain = ind(reuse=3).fit(X, Y), ind(reuse=3).fit(X, Y)
    changes = {"budget": 50.0, "threshold": 0.0, "count_sigma": 0.1, "vote_sigma": 0.01, "min_count": 1.0}
    model.set_params(**changes, kernel="rbf", n_classes=9, reuse=False, hashing=(2, 2), rng=5, store=Ledger())
    assert model.predict(QUERIES).tolist() == plain.predict(QUERIES).tolist()
    assert np.array_equal(model.budgets_, plain.budgets_)
    assert model.guarantee(1e-5) == plain.guarantee(1e-5)


# --- one object, many users -----------------------------------------------------------------------------


def test_threads_take_turns():
    """Every answer is charged, whichever thread asked: a record that is always selected pays for each."""
    model = ind(budget=1e6, threshold=0.0, kernel="rbf", bandwidth=1e6, min_count=1.0, n_classes=2)
    model.fit([[0.0, 1.0]], [0], ["a"])
    plain = ind(budget=1e6, threshold=0.0, kernel="rbf", bandwidth=1e6, min_count=1.0, n_classes=2)
    plain.fit([[0.0, 1.0]], [0], ["a"]).predict([[0.0, 1.0]] * 600)
    threads = [Thread(target=lambda: [model.predict([[0.0, 1.0]]) for _ in range(100)]) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert model.budgets_ == pytest.approx(plain.budgets_, rel=1e-12)


def test_a_fork_and_copies_are_refused(tmp_path):
    with open_store(tmp_path / "store") as store:
        model = ind(store=store).fit(X, Y, IDS)
        code = os.fork()
        if code == 0:
            try:
                model.predict(QUERIES[:1])
            except UsageError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(code, 0)[1]) == 7
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(UsageError, match="a copy of a IndividualKNN"):
                copied(model)
        assert len(model.predict(QUERIES[:1])) == 1


def test_an_error_discards_no_answer_that_was_paid_for():
    model, plain = ind().fit(X, Y), ind().fit(X, Y)
    queries = np.tile(QUERIES, (5, 1))

    def stop(done):
        if done == 150:
            raise Interrupted

    with pytest.raises(Interrupted):
        model.predict(queries, stop)
    assert model.labels_[:150].tolist() == plain.predict(queries[:150]).tolist()
    assert np.array_equal(model.counts_[:150], plain.counts_)
    assert (model.labels_[150:] == -1).all()
    assert np.isnan(model.counts_[150:]).all()


# --- runs -----------------------------------------------------------------------------------------------


def test_a_run_that_is_there_costs_nothing(tmp_path):
    queries = np.tile(QUERIES, (8, 1))
    with open_store(tmp_path / "store") as store:
        model = ind(store=store, reuse=True, budget=5.0).fit(X, Y, IDS)
        labels, counts = model.predict(queries, run="a"), model.counts_
        before = store.spent(np.arange(300))
    with open_store(tmp_path / "store") as store:
        model = ind(store=store, reuse=True, budget=5.0, rng=2).fit(X, Y, IDS)
        for _ in range(2):
            assert np.array_equal(model.predict(queries, run="a"), labels)
            assert np.array_equal(model.counts_, counts)
            assert model.kept_ == len(queries)
        assert len(model._answered._order) == len(queries), "they vote again, once"
        assert np.array_equal(store.spent(np.arange(300)), before)
        for other, words in (
            (queries[::-1], "other queries"),
            (queries[:-1], "other queries, size"),
        ):
            with pytest.raises(StoreError, match=f"run 'a' was begun with {words}; accepted: the same"):
                model.predict(other, run="a")
        with pytest.raises(StoreError, match="other reuse"):
            ind(store=store, budget=5.0).fit(X, Y, IDS).predict(queries, run="a")
        assert np.array_equal(store.spent(np.arange(300)), before)
        assert (model.predict(queries[::-1], run="b") >= 0).all()
        assert (store.spent(np.arange(300)) > before).any()
        with pytest.raises(ac.ParameterError, match="run = ''; accepted: text"):
            model.predict(queries, run="")
    with pytest.raises(ac.ParameterError, match="run = 'a'; accepted: text, with a store"):
        ind().fit(X, Y).predict(queries, run="a")


def test_two_objects_share_one_run(tmp_path):
    """No query is answered twice, whichever process is first."""
    queries = np.tile(QUERIES, (10, 1))
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "store") as other:
        first, second = (ind(store=each, rng=i).fit(X, Y, IDS) for i, each in enumerate((store, other)))

        def meanwhile(done):
            if done == 200:
                raise Interrupted

        with pytest.raises(Interrupted):
            first.predict(queries, meanwhile, run="a")
        labels = second.predict(queries, run="a")
        assert labels[:200].tolist() == first.labels_[:200].tolist()
        spent = store.spent(np.arange(300))
        assert first.predict(queries, run="a").tolist() == labels.tolist()
        assert np.array_equal(store.spent(np.arange(300)), spent)


def running_child(where, pipe):
    """One run of many queries, restarted until it is killed or finished; one record pays the same for each."""
    with open_store(where) as store:
        model = ind(store=store, budget=1e6, threshold=0.0, kernel="rbf", bandwidth=1e9, min_count=1.0, n_classes=2)
        model.set_params(rng=None).fit([[0.0, 1.0]], [0], ["a"])
        pipe.send("ready")
        labels = model.predict([[0.0, 1.0]] * RUN, run="a")
        pipe.send((labels.tolist(), model.counts_.tolist()))


RUN = 3 * 128


def test_killed_at_any_moment_no_answer_is_lost_and_no_query_charged_twice(tmp_path):
    """After every kill, the store has charged exactly what the answers in it cost."""
    rng, kills, runs, halfway, seconds = np.random.default_rng(5), 0, 0, 0, None
    event, wanted = ac.Gaussian(5.0), max(KILLS // 4, 6)
    while kills < wanted or halfway <= wanted // 10:
        runs += 1
        assert runs < 100 * wanted, (kills, halfway)
        where, before, result = str(tmp_path / f"store {runs}"), np.empty(0), None
        while result is None:
            process, reader = start(running_child, where)
            told, begun = [reader.recv()], time.perf_counter()
            if seconds is None:  # the first run is left alone: it says how long one takes
                told.append(reader.recv())
                seconds = time.perf_counter() - begun
            else:
                process.join(rng.uniform(0, seconds))
            process.kill()
            process.join()
            kills += process.exitcode == -signal.SIGKILL
            listen(reader, told)
            reader.close()
            result = told[1] if len(told) > 1 else None
            with open_store(where) as store:
                labels, counts = store.answers("a", 0, RUN) if store.settings() and begun_run(store) else ([], [])
                (spent,) = store.spent(store.positions(["a"]))
            done = np.asarray(labels) >= 0
            if result is None and done.sum() == len(before):
                seconds *= 1.2  # the machine is slower than before
            filter = ac.IndividualFilter(1e6)
            cost = filter.units(1 / (2 * event.sigma**2)) + filter.units(1 / (2 * 0.25 * np.asarray(counts)[done]))
            assert cost.sum() == pytest.approx(spent, rel=1e-9), "charged for what is there, and for nothing else"
            assert np.array_equal(np.asarray(labels)[: len(before)], before), "kept"
            before = np.asarray(labels)[: int(done.sum())]
            halfway += 0 < done.sum() < RUN
        assert result[0] == labels.tolist()
        assert (np.asarray(result[0]) >= 0).all()


def begun_run(store):
    with store.batch():
        return bool(list(store._run("SELECT 1 FROM knn_runs")))


# --- killed --------------------------------------------------------------------------------------------


def answering_child(where, seed, pipe):
    """Answers four queries at a time and sends the answers, until it is killed."""
    with open_store(where) as store:
        model = ind(store=store, budget=50.0, reuse=8, rng=seed).fit(X, Y, IDS)
        pipe.send("ready")
        for first in range(0, 4000, 4):
            pipe.send(model.predict(QUERIES[np.arange(first, first + 4) % 40]).tolist())


def replayed(before, seed, batches):
    """(answers, units spent) of such a child process that ran so many batches."""
    ledger = Ledger()
    ledger.units = dict(zip(ledger.positions([str(i) for i in range(300)]), before, strict=True))
    model = ind(store=ledger, budget=50.0, reuse=8, rng=seed).fit(X, Y, IDS)
    answers = [model.predict(QUERIES[np.arange(4 * i, 4 * i + 4) % 40]).tolist() for i in range(batches)]
    return answers, model._filter.UNITS - np.array(ledger.left(model._filter.UNITS))


def test_killed_at_any_moment_every_answer_is_paid_for(tmp_path):
    """The store has charged what the released answers cost, or one batch more."""
    rng, where = np.random.default_rng(4), str(tmp_path / "store")
    kill, answered, moment = 0, 0, 0.1
    with open_store(where) as store:
        positions = store.positions([str(i) for i in range(300)])
        while kill < KILLS // 4 or answered <= KILLS // 10:
            assert kill < 20 * KILLS, answered
            before = store.spent(positions).tolist()
            process, reader = start(answering_child, where, kill)
            told = [reader.recv()]
            until = time.perf_counter() + rng.uniform(0, moment)
            while time.perf_counter() < until:
                listen(reader, told)
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            listen(reader, told)
            reader.close()
            answers, least = replayed(before, kill, len(told) - 1)
            assert told[1:] == answers
            found = store.spent(positions)
            if not np.array_equal(found, least):
                assert np.array_equal(found, replayed(before, kill, len(told))[1])
            moment *= 1 if answers else 2  # a slow machine
            kill, answered = kill + 1, answered + len(answers)


@pytest.mark.parametrize("stored", [True, False])
def test_records_that_are_added_need_identifiers(tmp_path, stored):
    """With row numbers as identifiers, the same people in another order would get new budgets."""
    changes = {"store": open_store(tmp_path / "a.db")} if stored else {}
    model = ind(**changes).fit(X[:9], Y[:9], [f"p{i}" for i in range(9)])
    model.predict(QUERIES[:2])
    with pytest.raises(ac.ParameterError, match="ids = None; accepted: an identifier for each record"):
        model.add(None, X[9:12], Y[9:12])
    assert len(model.ids_) == 9


def test_numbered_records_get_no_new_budgets_under_names():
    """Who is who cannot be known: the numbers go on, and names are for other people."""
    model = ind().fit(X[:9], Y[:9])
    model.fit(X[:9], Y[:9], [f"p{i}" for i in range(9)])  # nothing was answered
    model.fit(X[:9], Y[:9])
    model.predict(QUERIES[:2])
    left = model.budgets_
    assert left.min() < model.budget
    for names in ([f"p{i}" for i in range(9)], [*range(8), "p8"], range(1, 10)):
        with pytest.raises(ac.ParameterError, match="but records were numbered when they were charged"):
            model.fit(X[:9], Y[:9], names)
    assert np.array_equal(model.budgets_, left), "a fit that is refused changes nothing"
    model.add(["another"], X[9:10], Y[9:10])
    model.predict(QUERIES[2:4])
    left = model.budgets_
    order = [*range(8, -1, -1), "another"]
    model.fit(X[:10], Y[:10], order)
    assert np.array_equal(model.budgets_, left[[*order[:9], 9]])
    with pytest.raises(ac.ParameterError, match="numbered"):
        model.fit(X[:9], Y[:9], [f"p{i}" for i in range(9)])
