"""Identifiers that stay in the database are found as by a dictionary, whatever their marks are."""

import sqlite3

import numpy as np
import pytest

from mechanisms.budgets import StoreError, names, open_store
from mechanisms.budgets.ledger import close_ledgers, reach_ledger
from tests.mechanisms.budgets.test_budgets import new, server  # noqa: F401

ODD = ["", " ", "a", "A", "é", "e\u0301", "\ud800", "\x00", "x" * 5000, "0", "00", "日本", '"', "\\u0041"]


@pytest.fixture(params=["digests", "equal", "few"])
def marks(request, monkeypatch):
    """Marks as they are, all equal, or of five values."""
    if request.param != "digests":
        values = 1 if request.param == "equal" else 5

        def mark(given, key):
            return np.array([(len(each) + 7) % values << 60 for each in given], np.uint64)

        monkeypatch.setattr(names, "mark_names", mark)
        monkeypatch.setattr("mechanisms.budgets.ledger.mark_names", mark)
        monkeypatch.setattr("mechanisms.budgets.snapshot.mark_names", mark)


@pytest.mark.each_run(3)
@pytest.mark.usefixtures("marks")
def test_positions_are_those_of_a_dictionary(new, monkeypatch):  # noqa: F811
    monkeypatch.setattr(names, "READ_BYTES", 300)
    rng, known, where = np.random.default_rng(3), {}, new()
    all_ids = [*ODD, *(f"person {i}" for i in range(200))]
    store = open_store(where)
    for step in range(25):
        ids = [all_ids[i] for i in rng.permutation(len(all_ids))[: rng.integers(0, 40)]]
        if step % 2:
            ids += ids[:3]
        for each in ids:
            known.setdefault(each, len(known))
        if step % 3 == 0:
            ids = list(dict.fromkeys(ids))
        found = store.positions(ids) if step % 3 else reach_ledger(store.ledger()).positions(ids)
        assert found.tolist() == [known[each] for each in ids]
        if step % 8 == 7:
            store.close()
            store = open_store(where)
    looked = reach_ledger(store.ledger()).positions(all_ids, add=False)
    assert looked.tolist() == [known.get(each, -1) for each in all_ids]
    order = rng.permutation(len(known))
    assert store.names(order) == [list(known)[i] for i in order]
    assert store.spent(order).tolist() == [0] * len(known)
    store.close()
    close_ledgers()


def test_marks_that_are_missing_or_torn_are_made_again(tmp_path):
    """A store of an earlier program has none; a copy of two moments may lack some."""
    with open_store(tmp_path / "store") as store:
        for first in (0, 5, 90):
            store.positions([f"{i}" for i in range(first, first + 30)])
        whole = list(store._backend._database._connection.execute("SELECT * FROM knn_marks"))
    changes = (
        "DELETE FROM knn_marks",
        "DELETE FROM knn_marks WHERE seq = 2",
        "UPDATE knn_marks SET marks = zeroblob(length(marks))",
        "UPDATE knn_marks SET names = zeroblob(16) WHERE seq = 3",
        "DROP TABLE knn_marks",
    )
    for change in changes:
        database = sqlite3.connect(tmp_path / "store")
        with database:
            database.execute(change)
        database.close()
        with open_store(tmp_path / "store") as store:
            assert list(store._backend._database._connection.execute("SELECT * FROM knn_marks")) == whole
            assert store.positions(["100", "0", "new"]).tolist()[:2] == [45, 0]
            whole = list(store._backend._database._connection.execute("SELECT * FROM knn_marks"))


def test_marks_that_change_while_the_store_is_open_are_refused(tmp_path):
    """They would give a known record a second budget."""
    for change in ("DELETE FROM knn_marks", "UPDATE knn_marks SET marks = zeroblob(8)"):
        with open_store(tmp_path / f"store {len(change)}") as store:
            store.positions(["a", "b"])
            ledger = reach_ledger(store.ledger())
            ledger.positions(["b"])
            with store._backend.transaction() as run:
                run(change)
            with pytest.raises(StoreError, match="damaged: names"):
                store.positions(["a"])
            with pytest.raises(StoreError, match="damaged: names"):
                ledger.positions(["a"])
    close_ledgers()
