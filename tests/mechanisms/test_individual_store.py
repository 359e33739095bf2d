"""Ind-KNN with a durable store: every answer is covered by charges that are there before it."""

import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest

import accountant as ac
from mechanisms.budgets import open_store
from mechanisms.noise import Seeded, System
from tests.mechanisms.children import KILLS, listen, start
from tests.mechanisms.test_individual_knn import CAP, QUERIES, X, Y, silenced
from tests.mechanisms.test_individual_knn import ind as plain_ind

pytest.importorskip("opendp.prelude")
IDS = range(300)


class Foreseen(System):
    """Stands for the system's noise, and draws what a test can foresee."""

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
    """Budgets in memory, as `mechanisms.budgets` keeps them on disk."""

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

    def left(self):
        """What the 300 records of the tests have left."""
        return [CAP - self.units.get(each, 0) for each in self.positions([str(i) for i in range(300)])]


def test_a_store_changes_no_answer():
    ledger = Ledger()
    plain, durable = ind().fit(X, Y), ind(store=ledger).fit(X, Y, IDS)
    assert plain.predict(QUERIES).tolist() == durable.predict(QUERIES).tolist()
    assert np.array_equal(plain.budgets_, durable.budgets_)
    assert ledger.left() == durable._filter.left.tolist()


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
    assert max(ledger.units.values()) <= CAP
    assert np.array_equal(models[1]._filter.left, np.minimum(models[1]._filter.left, models[0]._filter.left.max()))
    for model in models:
        stored = np.array(ledger.left())
        assert (model._filter.left >= stored).all()


class Interrupted(BaseException):
    """What a signal raises."""


@pytest.mark.parametrize("stop", range(1, 21))
def test_whatever_is_drawn_has_been_paid_for(stop):
    """Stopped at any draw, the charges that it needs are already in the store."""
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
    stored = np.array(ledger.left())
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
    assert ledger.left() == plain._filter.left.tolist()
    assert model.predict(QUERIES[5:]).tolist() == plain.predict(QUERIES[5:]).tolist()


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


# --- killed --------------------------------------------------------------------------------------------


def answering_child(where, seed, pipe):
    """Answers four queries at a time, and says what, until it is killed."""
    with open_store(where) as store:
        model = ind(store=store, budget=50.0, reuse=8, rng=seed).fit(X, Y, IDS)
        pipe.send("ready")
        for first in range(0, 4000, 4):
            pipe.send(model.predict(QUERIES[np.arange(first, first + 4) % 40]).tolist())


def replayed(before, seed, batches):
    """(answers, units spent) of such a child that was not killed in so many batches."""
    ledger = Ledger()
    ledger.units = dict(zip(ledger.positions([str(i) for i in range(300)]), before, strict=True))
    model = ind(store=ledger, budget=50.0, reuse=8, rng=seed).fit(X, Y, IDS)
    answers = [model.predict(QUERIES[np.arange(4 * i, 4 * i + 4) % 40]).tolist() for i in range(batches)]
    return answers, CAP - np.array(ledger.left())


def test_killed_at_any_moment_every_answer_is_paid_for(tmp_path):
    """What is in the store is what the answers that came out have cost, or one more batch."""
    rng, where, answered = np.random.default_rng(4), str(tmp_path / "store"), 0
    with open_store(where) as store:
        positions = store.positions([str(i) for i in range(300)])
        for kill in range(KILLS // 4):
            before = store.spent(positions).tolist()
            process, reader = start(answering_child, where, kill)
            told = [reader.recv()]
            until = time.perf_counter() + rng.uniform(0, 0.1)
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
            answered += len(answers)
    assert answered > KILLS // 10
