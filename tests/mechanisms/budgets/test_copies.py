"""Copies of stores and journals, taken during writes: they show no less than was spent when the copying began."""

import os
import random
import shutil
import struct
import time
from contextlib import contextmanager, suppress
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest

from mechanisms.budgets.journal import Journal, JournalError
from mechanisms.budgets.store import StoreError, open_store
from tests.mechanisms.children import CONTEXT

COPIES = int(os.environ.get("BUDGET_COPIES", 24))
RECORDS = 1500
PAGE = 4096


class Acknowledged:
    """Number of commits that a child process has seen, in shared memory."""

    def __init__(self, path):
        path.write_bytes(bytes(8)) if not path.exists() else None
        self._file = os.open(path, os.O_RDWR)
        self._memory = mmap(self._file, 8)

    def get(self):
        return struct.unpack("<q", self._memory[:])[0]

    def put(self, number):
        self._memory[:] = struct.pack("<q", number)


def charged(number):
    """Which records commit `number` charges."""
    return np.random.default_rng(number).permutation(RECORDS)[: RECORDS // 3]


def store_child(where, grows, ack):
    """Charges, answers and, every so many commits, new records."""
    done = Acknowledged(ack)
    with open_store(where) as store:
        positions = store.positions([f"record {i}" for i in range(RECORDS)])
        store.begin("run", {}, 5000)
        number = 0
        while True:
            with store.batch():
                store.charge(positions[charged(number)], np.ones(RECORDS // 3, np.int64), 2**62)
                store.answer("run", number * 20 % 4980, np.full(20, number % 10), np.full(20, 1.0))
            number += 1
            done.put(number)
            if grows and number % grows == 0:
                store.positions([f"new {number} {i}" for i in range(100)])


def journal_child(where, _, ack):
    """Charges and answers."""
    done = Acknowledged(ack)
    with Journal(where) as journal:
        part = journal.part({"a": 1})
        for number in range(10**9):
            part.charge(number, "vote")
            done.put(number + 1)
            part.answer(number, number % 10, {"state": "x" * 300})


@contextmanager
def writing(child, where, grows, ack):
    """A process that writes until it is ended, and its number of commits."""
    done = Acknowledged(ack)
    process = CONTEXT.Process(target=child, args=(str(where), grows, ack), daemon=True)
    process.start()
    until = time.monotonic() + 300
    while done.get() < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    yield done
    process.kill()
    process.join()
    process.close()


def copied(where, to, how, rng):
    """Copies at once, page by page as from a slow disk, or with the rollback journal before or after the file."""
    for each in (to, Path(f"{to}-journal"), Path(f"{to}.generation")):
        with suppress(FileNotFoundError):
            each.unlink()
    if how != "slowly":
        endings = {"at once": [""], "then the journal": ["", "-journal"], "the journal first": ["-journal", ""]}
        for ending in endings[how]:
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{where}{ending}", f"{to}{ending}")
        return
    with open(where, "rb", buffering=0) as source, open(to, "wb") as target:
        while page := source.read(PAGE):
            target.write(page)
            if rng.random() < 0.1:
                time.sleep(rng.random() * 0.002)


def one_line(error):
    """Whether a refusal is one line that says what is accepted."""
    return "\n" not in str(error) and "; accepted: " in str(error)


WAYS = ("at once", "slowly", "then the journal", "the journal first")


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("grows", "most"), [(0, 0.05), (50, 0.2)])
def test_a_copy_of_a_store_shows_no_less_than_was_spent(grows, most, tmp_path):
    """Few copies are refused, as rows are overwritten in place. BUDGET_COPIES=5000 for more.

    Where chance or a slow machine tears more of the first ones, further copies show the share.
    """
    rng, refused, spent, counted = random.Random(grows), dict.fromkeys(WAYS, 0), np.zeros(RECORDS, np.int64), 0
    names = [f"record {i}" for i in range(RECORDS)]
    with writing(store_child, tmp_path / "store", grows, tmp_path / "ack") as done:
        number = 0
        while number < COPIES or counted <= COPIES or sum(refused.values()) > most * number:
            assert number < 20 * COPIES, refused
            before, how, number = done.get(), WAYS[number % 4], number + 1
            copied(tmp_path / "store", tmp_path / "copy", how, rng)
            while counted < before:
                spent[charged(counted)] += 1
                counted += 1
            try:
                with open_store(tmp_path / "copy") as store:
                    assert (store.spent(store.positions(names)) >= spent).all()
            except StoreError as error:
                refused[how] += one_line(error)
    print(f"{number} copies while {counted} commits went on, refused: {refused}")


@pytest.mark.audit
def test_a_copy_of_a_journal_shows_no_less_than_was_spent(tmp_path):
    rng, refused, most = random.Random(1), dict.fromkeys(WAYS, 0), 0
    with writing(journal_child, tmp_path / "journal", 0, tmp_path / "ack") as done:
        number = 0
        while number < COPIES or most <= COPIES or sum(refused.values()) == number:
            assert number < 20 * COPIES, refused
            before, how, number = done.get(), WAYS[number % 4], number + 1
            copied(tmp_path / "journal", tmp_path / "copy", how, rng)
            try:
                with Journal(tmp_path / "copy") as journal:
                    part = journal.part({"a": 1})
                assert {(query, "vote") for query in range(before)} <= part.charges
                assert set(part.answers) <= part.charged_queries
            except JournalError as error:
                refused[how] += one_line(error)
            most = before
    print(f"{number} copies while {most} charges went on, refused: {refused}")


def test_torn_copies_keep_charges_and_give_up_answers(tmp_path):
    """A copy with pages of two moments: totals are the larger ones, and answers are dropped."""
    with open_store(tmp_path / "store") as store:
        positions = store.positions(["a", "b"])
        store.begin("run", {}, 3)
        store.charge(positions, [1, 2], 10)
        old = (tmp_path / "store").read_bytes()
        with store.batch():
            store.charge(positions, [3, 0], 10)
            store.answer("run", 0, np.array([7]), np.array([1.0]))
        new = (tmp_path / "store").read_bytes()
    pages = [at for at in range(0, len(new), PAGE) if old[at : at + PAGE] != new[at : at + PAGE]]
    assert len(old) == len(new)
    assert len(pages) >= 4, "header, head, totals, answers"
    for chosen in range(1, 2 ** len(pages) - 1):
        torn = bytearray(old)
        for i, at in enumerate(pages):
            if chosen >> i & 1:
                torn[at : at + PAGE] = new[at : at + PAGE]
        (tmp_path / "torn.generation").unlink(missing_ok=True)
        (tmp_path / "torn").write_bytes(torn)
        with open_store(tmp_path / "torn") as store:
            assert store.spent([0, 1]).tolist() in ([1, 2], [4, 2])
            try:
                labels, _ = store.answers("run", 0, 3)
            except StoreError:
                continue
            assert labels.tolist() == ([7, -1, -1] if store.spent([0]) == 4 else [-1, -1, -1])


def test_what_is_gone_from_a_copy_is_refused(tmp_path):
    """Any rows that the head counts."""
    import sqlite3

    with open_store(tmp_path / "store") as store:
        store.settle({"a": 1})
        store.charge(store.positions([f"{i}" for i in range(1200)]), np.ones(1200, np.int64), 10)
    for sql in (
        "DELETE FROM knn_head",
        "DELETE FROM knn_names",
        "DELETE FROM knn_settings",
        "DELETE FROM knn_totals WHERE block = 0",
        "DELETE FROM knn_totals WHERE block = 2",
        "UPDATE knn_totals SET totals = zeroblob(4000) WHERE block = 1",
        "UPDATE knn_names SET names = '[]'",
    ):
        shutil.copyfile(tmp_path / "store", tmp_path / "copy")
        database = sqlite3.connect(tmp_path / "copy")
        with database:
            database.execute(sql)
        database.close()
        with pytest.raises(StoreError, match="damaged") as caught:
            open_store(tmp_path / "copy")
        assert one_line(caught.value)
