"""Reverse k-NN with a journal: a killed run goes on with its charges and with the counts that it has."""

import json
import sqlite3
from contextlib import closing
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.budgets.journal import Journal, JournalError, JournalWarning
from mechanisms.federation import reverse_rounds
from mechanisms.federation.simulation import Federation
from mechanisms.students.network import NetworkStudent
from tests.cases import audit_after

pytestmark = pytest.mark.usefixtures("one_choice")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
PUBLIC = RNG.normal(size=(120, 4)).astype(np.float32)


def small():
    return NetworkStudent(hidden=8, max_iter=20)


def labeller(**changes):
    parameters = {"n_queries": 12, "epsilon": 4.0, "delta": 1e-6, "rounds": 3, "make_student": small, "rng": 7}
    return mx.ReverseKNN(**{**parameters, **changes})


class Killed(BaseException):
    """What ends the process."""


@lru_cache
def uninterrupted(model):
    return labeller(model=model).label(X, Y, PUBLIC)


KILLED = [*product(["central"], range(6)), ("local", 1), ("local", 4), ("shuffle", 2), ("shuffle", 3)]
KILLED += sorted({*product(["local", "shuffle"], range(6))} - {*KILLED})
"""Models, and steps after which they are killed; journals are the same in all models."""


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("model", "after"), audit_after(10, KILLED))
def test_a_killed_run_goes_on(model, after, tmp_path, monkeypatch):
    """Killed before or after any round is drawn; a seeded run ends like one without interruption."""
    whole = uninterrupted(model)
    run, steps = Federation.run, [0]

    def dying(self, setup):
        for step in ("before", "after"):
            if steps[0] == after:
                raise Killed
            steps[0] += 1
            if step == "before":
                found = run(self, setup)
        return found

    monkeypatch.setattr(Federation, "run", dying)
    with Journal(tmp_path / "journal") as journal, pytest.raises(Killed):
        labeller(model=model).label(X, Y, PUBLIC, journal=journal)
    monkeypatch.setattr(Federation, "run", run)
    with Journal(tmp_path / "journal") as journal:
        out = labeller(model=model).label(X, Y, PUBLIC, journal=journal)
    assert np.array_equal(out.labels, whole.labels)
    for now, then in zip(out.rounds, whole.rounds, strict=True):
        assert np.array_equal(now.counts, then.counts)
    assert out.composition == whole.composition == out.planned
    assert out.bytes_per_client == whole.bytes_per_client


def test_nothing_is_drawn_twice(tmp_path):
    """Without a seed, the run that goes on takes the counts in the journal."""
    with Journal(tmp_path / "journal") as journal:
        first = labeller(rng=None).label(X, Y, PUBLIC, journal=journal)
    with Journal(tmp_path / "journal") as journal:
        again = labeller(rng=None).label(X, Y, PUBLIC, journal=journal)
    for now, then in zip(again.rounds, first.rounds, strict=True):
        assert np.array_equal(now.counts, then.counts)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("changes", [{"epsilon": 3.0}, {"rounds": 2}, {"n_queries": 11}, {"rng": 8}])
def test_another_run_is_refused(changes, tmp_path):
    with Journal(tmp_path / "journal") as journal:
        labeller().label(X, Y, PUBLIC, journal=journal)
    with Journal(tmp_path / "journal") as journal, pytest.raises(JournalError, match="holds a run with other"):
        labeller(**changes).label(X, Y, PUBLIC, journal=journal)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("changed", ["a label", "a feature", "one record less", "another order"])
def test_other_private_data_are_refused(changed, tmp_path):
    """A journal is refused with records other than those that it was made for."""
    records, labels = X.copy(), Y.copy()
    with Journal(tmp_path / "journal") as journal:
        labeller().label(records, labels, PUBLIC, journal=journal)
    if changed == "a label":
        labels[7] = (labels[7] + 1) % 3
    elif changed == "a feature":
        records[7, 0] += 1e-3
    else:
        rows = np.arange(299) if changed == "one record less" else np.arange(300)[::-1]
        records, labels = records[rows], labels[rows]
    with Journal(tmp_path / "journal") as journal, pytest.raises(JournalError, match="holds a run with other private"):
        labeller().label(records, labels, PUBLIC, journal=journal)
    with Journal(tmp_path / "journal") as journal:
        labeller().label(X, Y, PUBLIC, journal=journal)


def test_under_add_remove_a_journal_does_not_hold_the_number_of_records(tmp_path):
    kept = []
    for n in (99, 100):
        path = tmp_path / f"{n}"
        with Journal(path) as journal:
            model = labeller(adjacency=ac.Adjacency.ADD_REMOVE, rng=None, n_classes=3, rounds=1)
            model.label(X[:n], Y[:n], PUBLIC, np.arange(n), journal)
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT number, part, kind, query, text FROM log ORDER BY number").fetchall()
        *others, (_, _, _, _, answer) = rows
        header = json.loads(others[0][4])
        assert len(header.pop("private")) == 64  # keyed with a random key of the file, so that it does not reveal n
        counts, *rest = json.loads(answer)
        assert rest[1:3] == [None, None]
        kept.append((others[1:], header, np.shape(counts), rest))
    assert kept[0] == kept[1]


def test_a_run_that_goes_on_is_charged_once(tmp_path):
    """The object that began a run does not charge again what the journal holds."""
    model = labeller()
    for _ in range(2):
        with Journal(tmp_path / "journal") as journal:
            out = model.label(X, Y, PUBLIC, journal=journal)
        assert model.spent_ == out.composition == out.promised
    other = model.label(X, Y, PUBLIC)
    assert model.spent_ == out.composition + other.composition == other.promised


class Unsure(NetworkStudent):
    """A student that knows nothing of every other point, so that later rounds ask elsewhere."""

    def predict_proba(self, X):
        chances = super().predict_proba(X)
        chances[::2] = 1 / chances.shape[1]
        return chances


def assert_same_rounds(again, first):
    assert np.array_equal(again.labels, first.labels)
    for now, then in zip(again.rounds, first.rounds, strict=True):
        for name in ("queries", "prices", "centre", "counts"):
            assert np.array_equal(getattr(now, name), getattr(then, name)), name


@pytest.mark.parametrize("changed", ["student", "processor"])
def test_counts_stay_with_the_queries_that_they_answer(changed, tmp_path, monkeypatch):
    """Another student, or the last bits of another processor, would place the queries of a finished round elsewhere."""
    with Journal(tmp_path / "journal") as journal:
        first = labeller(balance=1.0).label(X, Y, PUBLIC, journal=journal)
    changes = {}
    if changed == "student":
        changes["make_student"] = Unsure
    else:
        monkeypatch.setattr(
            reverse_rounds,
            "cluster_centres",
            lambda *given, centres=reverse_rounds.cluster_centres: centres(*given)[::-1],
        )
    with Journal(tmp_path / "journal") as journal:
        again = labeller(balance=1.0, **changes).label(X, Y, PUBLIC, journal=journal)
        held = journal.held()
    assert_same_rounds(again, first)
    assert held == (3, 3)
    other = labeller(balance=1.0, **changes).label(X, Y, PUBLIC)
    assert not np.array_equal(other.rounds[1].queries, first.rounds[1].queries)


def test_a_round_that_is_drawn_again_asks_what_was_charged(tmp_path, monkeypatch):
    """Killed between the charge of the second round and its counts; goes on with another student."""
    asked, run = [], Federation.run

    def dying(self, setup):
        asked.append(setup.connections.queries)
        if len(asked) == 2:
            raise Killed
        return run(self, setup)

    monkeypatch.setattr(Federation, "run", dying)
    with Journal(tmp_path / "journal") as journal, pytest.raises(Killed):
        labeller().label(X, Y, PUBLIC, journal=journal)
    with Journal(tmp_path / "journal") as journal:
        out = labeller(make_student=Unsure).label(X, Y, PUBLIC, journal=journal)
    assert np.array_equal(out.rounds[1].queries, asked[1])


def test_a_journal_of_an_earlier_version_is_read_with_a_warning(tmp_path, monkeypatch):
    """It holds no queries: that they are made again must be said, as another student would make others."""
    append = Journal._append
    with monkeypatch.context() as earlier, Journal(tmp_path / "journal") as journal:
        earlier.setattr(
            Journal, "_append", lambda self, part, kind, *row: kind == "setup" or append(self, part, kind, *row)
        )
        first = labeller().label(X, Y, PUBLIC, journal=journal)
    for _ in range(2):
        with Journal(tmp_path / "journal") as journal, pytest.warns(JournalWarning) as told:
            assert_same_rounds(labeller().label(X, Y, PUBLIC, journal=journal), first)
        assert all(
            f"counts of round {number}, but not its queries" in str(told[number - 1].message) for number in (1, 2, 3)
        )
