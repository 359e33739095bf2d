"""Ledgers: every answer is recorded once, on disk before it is drawn, and totals can be priced again."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import accountant as ac
from mechanisms.federation.ledger import Ledger, LedgerError, MemoryLedger
from mechanisms.federation.messages import DuplicateMessage, LateMessage, MessageError, UnsuitableMessage
from mechanisms.federation.targets import Charge, Target
from tests.mechanisms.children import CONTEXT

REPLACE = ac.Adjacency.REPLACE


def bits(epsilon):
    """Randomized response at that price."""
    return Charge("randomized-response", (epsilon,), 5, 3, 1, 1)


@pytest.fixture(params=[Ledger, MemoryLedger], ids=["file", "memory"])
def ledger(request, tmp_path):
    return request.param(*([tmp_path / "l"] if request.param is Ledger else []))


def test_a_cap_is_exact(ledger):
    target = Target(1.375)
    for number in range(1, 11):
        ledger.charge(b"s" * 16, number, bits(0.125), target)
    ledger.charge(b"t" * 16, 1, bits(0.125), target)
    with pytest.raises(UnsuitableMessage, match=r"epsilon to 1\.375"):
        ledger.charge(b"t" * 16, 2, bits(1e-9), target)
    ledger.charge(b"t" * 16, 2, None, target)
    assert ledger.spent() == 11 * ac.RandomizedResponse(0.0625, bits=2, adjacency=REPLACE)


def test_rounds_are_answered_once_and_in_order(ledger):
    ledger.charge(b"s" * 16, 3, None, None)
    with pytest.raises(DuplicateMessage):
        ledger.charge(b"s" * 16, 3, bits(1.0), None)
    with pytest.raises(LateMessage):
        ledger.charge(b"s" * 16, 2, bits(1.0), None)
    ledger.charge(b"t" * 16, 1, bits(1.0), None)
    assert ledger.spent().releases == 1


CHARGES = [
    bits(0.3),
    Charge("collision", (1.5, 9.0), 4, 3, 2, 1),
    Charge("collision", (1.5, 9.0), 4, 3, 2, 1, 1000),
    Charge("separation", (0.1,), 4, 3, 1, 1),
    Charge("separation", (0.1,), 4, 3, 1, 1, 500),
    Charge("shares", (2.2, 450.0, 7.329808495260884, 0.9447640439423088), 10, 5, 1, 1, 450),
]


def test_what_is_read_from_a_file_is_what_was_written(tmp_path):
    whole = ac.Composition()
    for number, charge in enumerate(CHARGES + CHARGES[:2], 1):
        assert Charge.of_text(charge.text()) == charge
        Ledger(tmp_path / "l").charge(b"s" * 16, number, charge, None)
        whole = whole + charge.event
        assert Ledger(tmp_path / "l").spent() == whole


def test_ledgers_of_earlier_versions_keep_what_they_hold(tmp_path):
    """Ledgers of earlier versions hold the pure-DP price of every answer, and nothing else."""
    with closing(sqlite3.connect(tmp_path / "l", isolation_level=None)) as old:
        old.execute(f"PRAGMA application_id = {0x526B4E4C}")
        old.execute("CREATE TABLE answers (session BLOB, round INTEGER, epsilon REAL, PRIMARY KEY (session, round))")
        for number, epsilon in enumerate((1.0, 0.5, 0.5, 0.0), 1):
            old.execute("INSERT INTO answers VALUES (?, ?, ?)", (b"s" * 16, number, epsilon))
    ledger = Ledger(tmp_path / "l")
    assert ledger.spent() == 1 * ac.PureDP(1.0, REPLACE) + 2 * ac.PureDP(0.5, REPLACE)
    with pytest.raises(DuplicateMessage):
        ledger.charge(b"s" * 16, 4, bits(0.5), Target(9.0))
    with pytest.raises(UnsuitableMessage, match=r"epsilon to 2\.5"):
        ledger.charge(b"t" * 16, 1, bits(0.5), Target(2.25))
    ledger.charge(b"t" * 16, 1, bits(0.25), Target(2.25))


def test_of_many_at_once_no_more_pass_than_may(tmp_path):
    def tries(session, number):
        try:
            Ledger(tmp_path / "l").charge(session, number, bits(1.0), Target(3.0))
        except MessageError as error:
            return type(error)
        return None

    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: tries(b"s" * 16, 1), range(8)))
        others = list(pool.map(lambda i: tries(bytes([i]) * 16, 1), range(8)))
    assert same.count(None) == 1
    assert same.count(DuplicateMessage) == 7
    assert others.count(None) == 2
    assert others.count(UnsuitableMessage) == 6


def charge_alone(path, number):
    """In a process of its own."""
    try:
        Ledger(path).charge(number.to_bytes(16, "little"), 1, bits(1.0), Target(3.0))
    except UnsuitableMessage:
        return 0
    return 1


def test_of_many_processes_no_more_pass_than_may(tmp_path):
    with CONTEXT.Pool(3) as pool:
        passed = pool.starmap(charge_alone, [(tmp_path / "l", number) for number in range(9)])
    assert sum(passed) == 3
    assert Ledger(tmp_path / "l").spent().releases == 3


def test_an_older_copy_put_back_is_noticed(tmp_path):
    path = tmp_path / "l"
    Ledger(path).charge(b"s" * 16, 1, bits(1.0), None)
    copy = path.read_bytes()
    Ledger(path).charge(b"s" * 16, 2, bits(1.0), None)
    path.write_bytes(copy)
    with pytest.raises(LedgerError, match="replaced by an older copy"):
        Ledger(path).charge(b"s" * 16, 3, bits(1.0), None)
    assert not list(tmp_path.glob("l-*"))
    path.unlink()
    with pytest.raises(LedgerError, match="in another file of this name"):
        Ledger(path).charge(b"s" * 16, 3, bits(1.0), None)


def test_a_charge_that_cannot_be_read_is_not_forgotten(tmp_path):
    Ledger(tmp_path / "l").charge(b"s" * 16, 1, bits(1.0), None)
    with closing(sqlite3.connect(tmp_path / "l", isolation_level=None)) as database:
        database.execute("UPDATE charges SET charge = '{}'")
    with pytest.raises(LedgerError, match="a charge that cannot be read"):
        Ledger(tmp_path / "l").charge(b"s" * 16, 2, bits(1.0), Target(5.0))


def test_a_ledger_leaves_other_files_alone(tmp_path):
    other, text = tmp_path / "other", tmp_path / "text"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE answers (x)")
    text.write_text("not a database " * 100)
    for path in (other, text, tmp_path, tmp_path / "no" / "such"):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(LedgerError, match="accepted: a ledger"):
            Ledger(path).charge(b"s" * 16, 1, bits(1.0), None)
        assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("back", [False, True], ids=["removed", "put back"])
def test_a_ledger_that_is_exchanged_while_it_is_in_use_is_noticed(tmp_path, back):
    """With the generation file as well: the object that charged the ledger remembers it."""
    path, copies = tmp_path / "ledger", {}
    ledger = Ledger(path)
    assert ledger.spent() == ac.Composition()
    for number in (1, 2, 3):
        ledger.charge(b"s" * 16, number, bits(1.0), None)
        if number == 2:
            copies = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    for each in tmp_path.iterdir():
        each.unlink()
    for name, content in copies.items() if back else ():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LedgerError, match="removed or replaced by an older copy while it was in use"):
        ledger.spent()
    with pytest.raises(LedgerError, match="removed or replaced"):
        ledger.charge(b"s" * 16, 4, bits(1.0), None)
    assert Ledger(path).spent() == (2 if back else 0) * bits(1.0).event
