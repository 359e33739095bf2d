"""Batches of charges by workers: once for each part, given back by a cancelled batch, kept as the store keeps all."""

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mechanisms.budgets import StoreError, open_store
from mechanisms.budgets.ledger import Ledger, LedgerAddress, close_ledgers, reach_ledger
from mechanisms.budgets.store_format import TOTALS_PER_ROW
from tests.mechanisms.budgets.test_budgets import new, server  # noqa: F401
from tests.mechanisms.shards.kills import new_database

IDS = [f"record {i}" for i in range(3 * TOTALS_PER_ROW)]
PLACES = np.array([5, 3, 2 * TOTALS_PER_ROW + 1, TOTALS_PER_ROW - 1])
NONE = np.empty(0, np.int64), np.empty(0)


@pytest.fixture
def store(new):  # noqa: F811
    with open_store(new()) as opened:
        opened.positions(IDS)
        yield opened
        close_ledgers()


def double(spent):
    """Charges 1, 2, ... units and what was spent before."""
    return spent + np.arange(1, 1 + len(spent)), b"answer"


def spent(store):
    return store.spent(PLACES).tolist()


@pytest.mark.each_run(1)
def test_a_part_pays_once_for_a_batch(store):
    ledger = reach_ledger(store.ledger())
    first, second = ledger.begin_batch(""), ledger.begin_batch("")
    for _ in range(3):
        assert ledger.pay(first, 0, PLACES, double) == b"answer"
    assert spent(store) == ledger.spent(PLACES).tolist() == [1, 2, 3, 4]
    assert ledger.pay(first, 1, PLACES[:1], lambda before: (before, b"other")) == b"other"
    ledger.pay(second, 0, PLACES, double)
    assert spent(store) == [5, 6, 9, 12]


def test_a_batch_that_is_cancelled_costs_nothing_and_can_no_longer_charge(store):
    ledger = reach_ledger(store.ledger())
    kept, gone = ledger.begin_batch(""), ledger.begin_batch("")
    ledger.pay(kept, 0, PLACES, double)
    ledger.pay(gone, 0, PLACES[::-1], double)
    ledger.pay(gone, 7, PLACES[1:2], double)
    ledger.cancel_batch(gone)
    assert ledger.pay(gone, 0, PLACES, double) is None
    with pytest.raises(StoreError, match="another process goes on with this run"):
        ledger.end_batch(gone, "", 0, *NONE)
    assert spent(store) == [1, 2, 3, 4]
    ledger.end_batch(kept, "", 0, *NONE)
    ledger.cancel_batch(kept)
    assert ledger.pay(kept, 0, PLACES, double) is None, "a task that was given up comes too late"
    assert spent(store) == [1, 2, 3, 4]


def test_whoever_goes_on_with_a_run_takes_its_open_batch(store):
    ledger = reach_ledger(store.ledger())
    ledger.begin("run", {}, 3)
    batch = ledger.begin_batch("run")
    ledger.pay(batch, 0, PLACES, double)
    other = ledger.begin_batch("run")
    assert spent(store) == [0] * 4
    assert ledger.pay(batch, 0, PLACES, double) is None
    ledger.pay(other, 0, PLACES, double)
    labels = np.array([1, -1, -1])
    with pytest.raises(StoreError, match="another process goes on with this run"):
        ledger.end_batch(batch, "run", 0, labels, labels.astype(float))
    assert store.answers("run", 0, 3)[0].tolist() == [-1] * 3
    ledger.end_batch(other, "run", 0, labels, labels.astype(float))
    assert store.answers("run", 0, 3)[0].tolist() == ledger.answers("run", 0, 3)[0].tolist() == [1, -1, -1]
    assert spent(store) == [1, 2, 3, 4]


def test_the_store_is_whole_with_a_batch_open_cancelled_or_ended(store, tmp_path):
    """An answer is dropped if any row is not what the checksum says."""
    ledger = reach_ledger(store.ledger())
    ledger.begin("run", {}, 1)
    ledger.end_batch(ledger.begin_batch("run"), "run", 0, np.array([1]), np.array([2.0]))
    for number, end in enumerate((ledger.cancel_batch, lambda batch: ledger.end_batch(batch, "", 0, *NONE))):
        batch = ledger.begin_batch("")
        ledger.pay(batch, 0, PLACES, double)
        for when in ("open", "done"):
            store.copy_to(tmp_path / f"{when} {number}")
            with open_store(tmp_path / f"{when} {number}") as copy:
                assert copy.answers("run", 0, 1)[0].tolist() == [1]
                assert spent(copy) == spent(store)
                copied = reach_ledger(copy.ledger())
                assert (copied.pay(batch, 0, PLACES, double) is None) == (when == "done")
            if when == "open":
                end(batch)


def test_a_batch_whose_row_was_changed_is_dropped_and_its_charges_stay(store, tmp_path):
    ledger = reach_ledger(store.ledger())
    batch = ledger.begin_batch("run")
    ledger.pay(batch, 0, PLACES, double)
    store.copy_to(tmp_path / "copy")
    with open_store(tmp_path / "copy") as copy, copy._backend.transaction() as run:
        run("UPDATE knn_paid SET charges = :more", more=np.array([5, 10**6], "<i8").tobytes())
    with open_store(tmp_path / "copy") as copy:
        reach_ledger(copy.ledger()).begin_batch("run")
        assert spent(copy) == [1, 2, 3, 4], "nothing is given back by a row that is not what was written"


@pytest.fixture
def many(server):  # noqa: F811
    """A store in PostgreSQL."""
    with open_store(new_database(server[0])) as opened:
        opened.positions(IDS)
        yield opened
        close_ledgers()


def at_once(*works):
    """Results of functions that run in threads at the same time."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [each.result(timeout=300) for each in [pool.submit(work) for work in works]]


def test_partitions_pay_at_once_in_postgresql(many):
    """Each of them computes its charges while the other does, as neither has a row of the other's."""
    ledgers = [Ledger(many.ledger()) for _ in range(2)]
    batch, both = ledgers[0].begin_batch(""), threading.Barrier(2, timeout=120)

    def wait(before):
        both.wait()
        return np.ones_like(before), b"paid"

    places = np.arange(TOTALS_PER_ROW), np.arange(TOTALS_PER_ROW, 3 * TOTALS_PER_ROW)
    works = [lambda i=i: ledgers[i].pay(batch, i, places[i], wait) for i in range(2)]
    assert at_once(*works) == [b"paid"] * 2
    assert many.spent(np.arange(len(IDS))).tolist() == [1] * len(IDS)
    ledgers[0].end_batch(batch, "", 0, *NONE)
    for each in ledgers:
        each.close()
    with open_store(many._backend.address) as again:  # every row as the checksum says
        assert again.spent(PLACES).tolist() == [1] * 4


def test_what_pays_at_once_for_one_place_or_from_one_row_pays_one_after_another(many, tmp_path):
    """A task that is repeated while its first try still runs, and partitions whose records share rows of totals."""
    ledgers = [Ledger(many.ledger()) for _ in range(4)]
    batch, calls = ledgers[0].begin_batch("run"), []
    ledgers[0].begin("run", {}, 1)

    def slowly(before):
        calls.append(before)
        time.sleep(0.05)
        return np.ones_like(before), b"%d" % len(calls)

    found = at_once(*[lambda each=each: each.pay(batch, 7, PLACES, slowly) for each in ledgers])
    assert found == [b"1"] * 4
    orders = [np.random.default_rng(i).permutation(len(IDS))[:900] for i in range(4)]
    at_once(*[lambda i=i: ledgers[i].pay(batch, i, orders[i], slowly) for i in range(4)])
    expected = np.bincount(np.concatenate([PLACES, *orders]), minlength=len(IDS))
    assert many.spent(np.arange(len(IDS))).tolist() == expected.tolist()
    many.copy_to(tmp_path / "copy")
    with open_store(tmp_path / "copy") as copy:  # an open batch is kept if all checksums agree
        reach_ledger(copy.ledger()).begin_batch("run")
        assert copy.spent(np.arange(len(IDS))).max() == 0
    for each in ledgers:
        each.close()


def test_a_store_that_is_read_meanwhile_finds_every_charge(many):
    """Payments that run at once give one stamp to their rows; who reads what changed since waits for them."""
    ledgers = [Ledger(many.ledger()) for _ in range(3)]
    batch, over = ledgers[0].begin_batch(""), threading.Event()

    def work(part):
        for number in range(15):
            ledgers[part].pay(batch, 100 * part + number, np.arange(part, len(IDS), 2), charge_one)
        return part

    def watch():
        before = np.zeros(len(IDS), np.int64)
        while not over.is_set():
            now = many.spent(np.arange(len(IDS)))
            assert (now >= before).all()
            before = now
        return -1

    with ThreadPoolExecutor(4) as pool:
        watching = pool.submit(watch)
        assert [each.result() for each in [pool.submit(work, part) for part in range(3)]] == [0, 1, 2]
        over.set()
        watching.result()
    assert many.spent(np.arange(4)).tolist() == [15, 15, 30, 15]
    for each in ledgers:
        each.close()


def charge_one(before):
    return np.ones_like(before), b""


def test_workers_charge_one_after_another(store):
    address, batch = store.ledger(), reach_ledger(store.ledger()).begin_batch("")

    def work(part):
        ledger = Ledger(address)
        for number in range(4):
            ledger.pay(batch, 100 * part + number, PLACES, lambda before: (np.ones_like(before), b""))
        ledger.close()

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert spent(store) == [16] * 4


def test_a_worker_that_does_not_reach_the_store_says_so(tmp_path):
    with open_store(tmp_path / "store") as store:
        address = store.ledger()
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"not there for a worker; accepted: .* a file on one machine, or PostgreSQL"):
        Ledger(address)
    assert not (tmp_path / "store").exists()
    (tmp_path / "store.generation").unlink()
    open_store(tmp_path / "store").close()
    other = Ledger(address)
    with pytest.raises(StoreError, match="not the store of this run"):
        other.spent(PLACES)
    other.close()


def test_an_address_does_not_show_its_password():
    """Dask logs what a task was given when it fails."""
    address = LedgerAddress("postgresql://user:secret@host/budgets", "name")
    assert "secret" not in repr(address)
    assert pickle.loads(pickle.dumps(address)) == address
    assert address != LedgerAddress("postgresql://other:secret@host/budgets", "name")
