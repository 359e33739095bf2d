"""Durable budgets: after kills, faults and with other processes, a record is charged at least what was granted."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import accountant as ac
from mechanisms.budgets import backends
from mechanisms.budgets.snapshot import Snapshot
from mechanisms.budgets.store import StoreError, open_store
from mechanisms.budgets.store_format import COLUMNS, TOTALS_PER_ROW
from mechanisms.cli.store_option import open_existing
from tests.mechanisms.children import KILLS, listen, start
from tests.places import memory_folder

IDS = [f"record {i}" for i in range(40)]
SETTINGS = {"unit": 1e-9, "cap": 30, "kernel": "cosine"}
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture(scope="session")
def server():
    """A temporary PostgreSQL server on a socket in its directory: (address, function that crashes it)."""
    if not BINARIES:
        pytest.skip("no PostgreSQL in /usr/lib/postgresql")
    for package in ("sqlalchemy", "psycopg"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    # PostgreSQL's user cannot enter pytest's directories, and their names are too long for a socket
    place, tools = Path(tempfile.mkdtemp(prefix="postgres", dir=memory_folder())), BINARIES[-1].parent
    user, ids = "budgets", {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        ids = {"user": 65534, "group": 65534, "extra_groups": []}
        os.chown(place, 65534, 65534)

    def run(*command):
        subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL, **ids)

    def control(*command):
        run(tools / "pg_ctl", "-D", place / "data", "-w", *command)

    run(tools / "initdb", "-D", place / "data", "-U", user, "-A", "trust", "--no-sync")
    # fsync=off: it crashes alone, without the machine, so that nothing depends on the disk
    start = ("start", "-l", place / "log", "-o", f"-c listen_addresses='' -c fsync=off -k {place}")
    control(*start)

    def crash():
        control("stop", "-m", "immediate")
        for _ in range(20):  # server processes of killed clients may hold the memory for a moment
            with suppress(subprocess.CalledProcessError):
                return control(*start)
            time.sleep(0.5)
        raise AssertionError((place / "log").read_text()[-2000:])

    yield f"postgresql://{user}@/{{}}?host={place}", crash
    control("stop", "-m", "immediate")
    shutil.rmtree(place)


@pytest.fixture(params=["sqlite", "postgresql"])
def new(request, tmp_path):
    """Makes addresses of new stores."""
    made = 0

    def address():
        nonlocal made
        made += 1
        if request.param == "sqlite":
            return str(tmp_path / f"store {made}")
        url, _ = request.getfixturevalue("server")
        name = f"d{time.time_ns()}"
        with closing(administrator(url)) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return url.format(name)

    return address


def administrator(url):
    return pytest.importorskip("psycopg").connect(url.format("postgres"), autocommit=True)


def spent(store, ids=IDS):
    return store.spent(store.positions(ids)).tolist()


def charge(store, ids, units, cap):
    return store.charge(store.positions(ids), units, cap).tolist()


def spent_at(where, ids=IDS):
    with open_store(where) as store:
        return spent(store, ids)


# --- one process ---------------------------------------------------------------------------------------


@pytest.mark.each_run(1)
def test_charges_up_to_the_cap(new):
    where = new()
    with open_store(where) as store:
        assert spent(store, ["a", "b"]) == [0, 0]
        assert charge(store, ["a", "b", "c"], [6, 10, 11], 10) == [True, True, False]
        assert charge(store, ["a", "b", "c"], [5, 0, 10], 10) == [False, True, True]
        assert charge(store, ["c", "a"], [1, 4], 10) == [False, True]
        assert charge(store, [], [], 10) == []
        assert charge(store, ["a"], [1], 5) == [False]
        assert spent(store, ["c", "b", "a", "d"]) == [10, 10, 10, 0]
    assert spent_at(where, ["a", "d"]) == [10, 0]


@pytest.mark.audit
def test_any_text_and_any_size(new):
    names = ["", "a'b\"", "\x00", "é", "\ud800", "x" * 5000, ":seq", "1"]
    where = new()
    with open_store(where) as store:
        assert charge(store, np.array(names, dtype=object), np.arange(8), 100) == [True] * 8
        assert charge(store, names, [2**62 - 7] * 8, 2**62) == [True] * 8
        assert charge(store, names, [2**62] * 8, 2**62) == [False] * 8
    assert spent_at(where, names) == [2**62 - 7 + i for i in range(8)]


def test_positions_are_for_good(new):
    """Operations in any order, by any process, and after failures."""
    where = new()
    with open_store(where) as store, open_store(where) as other:
        assert store.positions(["a", "b", "a"]).tolist() == [0, 1, 0]
        assert other.positions(["c", "b"]).tolist() == [2, 1]
        assert store.positions(["d", "c", "a"]).tolist() == [3, 2, 0]
        with store.batch():
            assert "positions inside a batch" in refusal(lambda: store.positions(["a"]))
        assert other.positions(list("abcd")).tolist() == [0, 1, 2, 3]
    with open_store(where) as store:
        assert store.positions(list("dcba")).tolist() == [3, 2, 1, 0]


@pytest.mark.each_run(1)
def test_as_a_plain_dictionary(new):
    """Random charges, some in a batch, some after opening the store again."""
    rng, where, plain = np.random.default_rng(2), new(), {}
    store = open_store(where)
    first = store.positions(IDS[:1])
    for step in range(120):
        ids = rng.permutation(IDS)[: rng.integers(0, 12)].tolist()
        units = rng.integers(0, 9, len(ids)).tolist()
        if step % 3:
            granted = charge(store, ids, units, 300)
        else:
            positions = store.positions(ids)
            with store.batch():
                granted = store.charge(positions, units, 300).tolist()
                assert store.spent(first) >= plain.get(IDS[0], 0)
                granted_more = store.charge(first, [1], 300)
        expected = [plain.get(each, 0) + more <= 300 for each, more in zip(ids, units, strict=True)]
        assert granted == expected
        for each, more, grant in zip(ids, units, granted, strict=True):
            plain[each] = plain.get(each, 0) + more * grant
        if not step % 3:
            plain[IDS[0]] = plain.get(IDS[0], 0) + int(granted_more[0])
        if not step % 20:
            store.close()
            store = open_store(where)
        assert spent(store) == [plain.get(each, 0) for each in IDS]
    with store.batch():
        ((rows, size),) = store._run("SELECT count(*), sum(length(totals)) FROM knn_totals")
    assert (rows, size) == (1, 8 * TOTALS_PER_ROW), "overwritten in place"
    store.close()


def test_a_batch_is_all_or_nothing(new):
    where = new()
    with open_store(where) as store, open_store(where) as other:
        a, b = store.positions(["a", "b"])

        def fail():
            with store.batch():
                assert store.charge([a, b], [1, 1], 5).all()
                with store.batch():
                    assert store.charge([a], [4], 5).all()
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert store.spent([a, b]).tolist() == other.spent([a, b]).tolist() == [0, 0]
        with store.batch():
            assert store.charge([a], [3], 5).all()
            assert not store.charge([a], [3], 5).any()
            assert store.spent([a]) == [3]
        assert not other.charge([a], [3], 5).any()
        assert other.charge([a], [2], 5).all()
        assert store.spent([a]) == [5]


# --- many processes ------------------------------------------------------------------------------------


def greedy_child(where, seed, pipe):
    """Charges random records until none can pay any more; sends what was granted."""
    rng, granted, refused = np.random.default_rng(seed), dict.fromkeys(IDS, 0), 0
    with open_store(where) as store:
        while refused < 12:
            ids = rng.permutation(IDS)[:20].tolist()
            answers = charge(store, ids, [1] * 20, 30)
            refused = 0 if any(answers) else refused + 1
            for each, answer in zip(ids, answers, strict=True):
                granted[each] += answer
    pipe.send(granted)


@pytest.mark.audit
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_exactly_the_cap(processes, new):
    """They also race to create the store."""
    where = new()
    children = [start(greedy_child, where, seed) for seed in range(processes)]
    granted = [reader.recv() for _, reader in children]
    for process, reader in children:
        process.join()
        reader.close()
    assert spent_at(where) == [30] * 40
    assert [sum(each[name] for each in granted) for name in IDS] == [30] * 40


def opening_child(where, pipe):
    """Tells how opening went."""
    try:
        with open_store(where) as store:
            store.settle(SETTINGS)
            pipe.send(charge(store, ["a"], [1], 3))
    except ac.AccountantError as error:
        pipe.send(str(error))


@pytest.mark.audit
def test_a_race_to_make_a_store(new):
    for _ in range(4):
        where = new()
        children = [start(opening_child, where) for _ in range(4)]
        answers = [reader.recv() for _, reader in children]
        for process, reader in children:
            process.join()
            reader.close()
        assert sorted(map(str, answers)) == ["[False]"] + ["[True]"] * 3


# --- killed --------------------------------------------------------------------------------------------


def killed_child(where, seed, pipe):
    """Charges until it is killed; sends what it will ask for, and then what was granted."""
    rng = np.random.default_rng(seed)
    with open_store(where) as store:
        positions = store.positions(IDS)
        pipe.send("open")
        while True:
            calls = [rng.permutation(40)[:20].tolist() for _ in range(rng.integers(1, 3))]
            pipe.send(calls)
            with store.batch():
                answers = [store.charge(positions[call], [1] * 20, 10**9).all() for call in calls]
            pipe.send(answers)


def told_units(told, sure, perhaps):
    """Count units that were granted, and those of the last request if it was not answered."""
    told = told[1:]
    for calls, _ in zip(told[::2], told[1::2], strict=False):
        for call in calls:
            sure[call] += 1
    for call in told[-1] if len(told) % 2 else []:
        perhaps[call] += 1


@pytest.mark.each_run(1)
def test_killed_at_any_moment(new):
    """SIGKILL at random moments, with two child processes at a time on one store. BUDGET_KILLS=10000 for more."""
    rng, where = np.random.default_rng(1), new()
    sure, low = np.zeros(40, int), np.zeros(40, int)
    kill, unanswered, moment = 0, 0, 0.05
    with open_store(where) as store:
        # on a slow machine there are later and more kills, until enough of them hit
        while kill < KILLS or low.sum() <= 10 * KILLS or unanswered <= KILLS // 8:
            assert kill < 20 * KILLS, (low.sum(), unanswered)
            children = [start(killed_child, where, [kill, i]) for i in range(2)]
            told = [[], []]
            for (_, reader), messages in zip(children, told, strict=True):
                messages.append(reader.recv())
            for process, _ in children:
                until = time.perf_counter() + rng.uniform(0, moment)
                while time.perf_counter() < until:  # read all the time, so that no child waits for its pipe
                    for (_, reader), messages in zip(children, told, strict=True):
                        listen(reader, messages)
                os.kill(process.pid, signal.SIGKILL)
                process.join()
                assert process.exitcode == -signal.SIGKILL
            perhaps = np.zeros(40, int)
            for (_, reader), messages in zip(children, told, strict=True):
                listen(reader, messages)
                reader.close()
                told_units(messages, sure, perhaps)
            found = np.array(spent(store))
            assert (found >= low + sure).all(), "granted, and not charged"
            assert (found <= low + sure + perhaps).all(), "charged, and not asked for"
            unanswered += bool(perhaps.any())
            moment *= 1 if sure.any() else 2
            kill, low, sure = kill + 2, found, np.zeros(40, int)
    assert spent_at(where) == low.tolist()


def test_a_crash_of_the_server(server, tmp_path):
    """The client gets an error, goes on, and finds every charge that was granted."""
    url, crash = server
    with closing(administrator(url)) as connection:
        connection.execute("CREATE DATABASE crashed")
    with open_store(url.format("crashed")) as store:
        positions = store.positions(IDS)
        for i in range(12):
            assert store.charge(positions, [1] * 40, 100).all()
            if i % 7 == 0:
                crash()
                refusal(lambda: store.charge(positions, [1] * 40, 100))
        assert spent(store) == [12] * 40


# --- faults --------------------------------------------------------------------------------------------


class Fault(Exception):
    """The injected fault."""


class Tripwire:
    """Wraps a store's database and raises at a given moment: before or after a statement or the commit."""

    def __init__(self, base, moment):
        self.base, self.name, self.close, self.has = base, base.name, base.close, base.has
        self.moment, self.passed = moment, 0

    def step(self):
        self.passed += 1
        if self.passed == self.moment:
            raise Fault

    @contextmanager
    def transaction(self):
        self.step()
        with self.base.transaction() as run:

            def wired(sql, **values):
                self.step()
                rows = list(run(sql, **values)) if sql.startswith("SELECT") else run(sql, **values)
                self.step()
                return rows

            yield wired
            self.step()
        self.step()


def use(store, granted):
    """Settles, charges singly and in batches; records what was granted."""
    store.settle(SETTINGS)
    places = store.positions(IDS[:5])
    for i in range(8):
        ids = [IDS[i % 3], IDS[3], IDS[4]]
        positions = places[[i % 3, 3, 4]]
        with store.batch():
            answers = [*store.charge(positions, [1, 2, 3], 20), *store.charge(positions, [1, 0, 0], 20)]
        for each, units, answer in zip(ids * 2, [1, 2, 3, 1, 0, 0], answers, strict=True):
            granted[each] += units * answer


def check_after_fault(where, store, granted, pending):
    """Totals cover what was granted, and the store that failed can be used like a new one."""
    found = spent_at(where)
    for each, total in zip(IDS, found, strict=True):
        assert granted[each] <= total <= min(20, granted[each] + pending)
    assert spent(store) == found
    assert charge(store, IDS[:5], [1] * 5, 20) == [total < 20 for total in found[:5]]
    assert spent_at(where) == spent(store)
    store.settle(SETTINGS)


@pytest.mark.audit
@pytest.mark.parametrize("stride", [5, pytest.param(3, marks=pytest.mark.audit)])
def test_a_fault_at_every_statement_and_commit(new, stride):
    where, moment, gone_off = new(), 0, True
    while gone_off:
        moment += stride if "://" in where else 1  # what differs there is the transaction
        where = where if "://" in where else new()
        granted = dict.fromkeys(IDS, 0)
        with open_store(where) as store:
            if "://" in where:
                with store.batch():
                    for table in COLUMNS:
                        store._run(f"DELETE FROM {table}")
                store._snapshot = Snapshot(store._backend)
            base = store._backend
            store._backend = Tripwire(base, moment)
            store._snapshot = Snapshot(store._backend)
            try:
                use(store, granted)
                gone_off = False
            except Fault:
                store._backend = base
                store._snapshot._backend = base
                check_after_fault(where, store, granted, 3)
    assert moment > 80


@pytest.mark.audit
@pytest.mark.parametrize("stride", [7, pytest.param(3, marks=pytest.mark.audit)])
def test_an_interrupt_at_every_step_of_sqlite(tmp_path, stride):
    """Also within statements: SQLite's virtual machine stops after any number of instructions."""
    moment, gone_off = 0, True
    while gone_off:
        moment += stride
        granted, passed = dict.fromkeys(IDS, 0), 0
        where = tmp_path / str(moment)

        def stop():
            nonlocal passed
            passed += 1
            return passed == moment  # noqa: B023

        with open_store(where) as store:
            store._backend._database._connection.set_progress_handler(stop, 1)
            try:
                use(store, granted)
                gone_off = False
            except StoreError:
                check_after_fault(where, store, granted, 3)
    assert moment > 300


def test_a_full_disk(tmp_path):
    with open_store(tmp_path / "store") as store:
        granted = 0
        ((pages,),) = store._backend._database._connection.execute("PRAGMA page_count")
        store._backend._database._connection.execute(f"PRAGMA max_page_count = {pages + 2}")

        def fill():
            nonlocal granted
            while True:
                granted += len(charge(store, [f"{granted} {'x' * 500}"], [1], 1))

        assert "full" in refusal(fill)
        assert granted > 3
        names = [f"{i} {'x' * 500}" for i in range(granted)]
        assert spent(store, names) == [1] * granted
    assert spent_at(tmp_path / "store", names) == [1] * granted


# --- settings, keys, runs, copies ------------------------------------------------------------------------


def test_a_key_and_settings_are_for_good(new):
    where = new()
    with open_store(where) as store, open_store(where) as other:
        assert store.settings() is None
        store.settle(SETTINGS)
        assert other.settings() == store.settings() == SETTINGS
        assert len(store.key()) == 32
        assert store.key() == other.key()
        key = store.key()
        charge(other, ["a"], [1], 1)
    with open_store(where) as store, open_store(new()) as other:
        assert store.key() == key != other.key()


def test_answers_are_kept_with_what_they_cost(new):
    """Answers across rows, in batches that fail, and beside other runs."""
    where = new()
    with open_store(where) as store, open_store(where) as other:
        positions = store.positions(["a"])
        for name in ("one", "two"):
            store.begin(name, {"queries": "abc"}, 700)
            store.begin(name, {"queries": "abc"}, 700)
        assert (store.answers("one", 0, 700)[0] == -1).all()

        def fail():
            with store.batch():
                store.charge(positions, [1], 9)
                store.answer("one", 240, np.arange(300), np.arange(300.0))
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert (other.answers("one", 0, 700)[0] == -1).all()
        assert store.spent(positions) == 0
        with store.batch():
            store.charge(positions, [1], 9)
            store.answer("one", 240, np.arange(300), np.arange(300.0))
        labels, counts = other.answers("one", 0, 700)
        assert labels[240:540].tolist() == list(range(300))
        assert counts[240:540].tolist() == list(range(300))
        assert (labels[:240] == -1).all()
        assert np.isnan(counts[540:]).all()
        assert other.answers("one", 249, 251)[0].tolist() == [9, 10]
        assert (other.answers("two", 0, 700)[0] == -1).all()
        assert "run 'one' was begun with other queries, size" in refusal(lambda: store.begin("one", {"queries": 1}, 7))
        assert "queries 0 to 701 of run 'one'" in refusal(lambda: store.answers("one", 0, 701))
        assert "run 'three'" in refusal(lambda: store.answers("three", 0, 1))
    with open_store(where) as store:
        assert store.answers("one", 0, 700)[0].tolist() == labels.tolist()


def test_copy_to(new, tmp_path):
    where, path = new(), tmp_path / "copied"
    with open_store(where) as store:
        store.settle(SETTINGS)
        names = [f"{i}" for i in range(1100)]
        for some in np.split(np.arange(1100), 50):  # more rows than are copied at a time
            charge(store, [f"{i}" for i in some], some, 2000)
        store.begin("run", {}, 300)
        store.answer("run", 0, np.arange(300), np.ones(300))
        store.copy_to(path)
        charge(store, ["5"], [1], 2000)
        with open_store(path) as copied:
            assert spent(copied, names) == list(range(1100))
            assert copied.settings() == SETTINGS
            assert copied.key() == store.key()
            assert copied.answers("run", 0, 300)[0].tolist() == list(range(300))
            charge(copied, ["new"], [1], 2000)
        assert "holds a store; accepted: a new file" in refusal(lambda: store.copy_to(path))
        with store.batch():
            assert "copied inside a batch" in refusal(lambda: store.copy_to(tmp_path / "other"))
    assert spent_at(where, ["5"]) == [6]


def test_an_older_file_is_noticed(tmp_path):
    """An older copy, also under an open store; without the generation file nothing can be noticed."""
    path = tmp_path / "store"
    with open_store(path) as store:
        charge(store, ["a"], [1], 9)
        shutil.copyfile(path, tmp_path / "old")
        charge(store, ["a"], [1], 9)
        new = path.read_bytes()
        shutil.copyfile(tmp_path / "old", path)
        assert "replaced by an older copy" in refusal(lambda: spent(store, ["a"]))
    assert "replaced by an older copy" in refusal(lambda: open_store(path))
    path.write_bytes(new)
    assert spent_at(path, ["a"]) == [2]
    shutil.copyfile(tmp_path / "old", path)
    (tmp_path / "store.generation").unlink()
    assert spent_at(path, ["a"]) == [1]


def test_an_older_state_is_noticed_where_the_database_keeps_no_generation(tmp_path, monkeypatch):
    """As a PostgreSQL database that was restored under an open store."""
    path = tmp_path / "store"
    with open_store(path) as store:
        charge(store, ["a"], [1], 9)
        shutil.copyfile(path, tmp_path / "old")
        charge(store, ["a"], [1], 9)
        shutil.copyfile(tmp_path / "old", path)
        monkeypatch.setattr(ac.database.Database, "_check_generation", lambda self, run: None)
        assert "older than when it was last read" in refusal(lambda: spent(store, ["a"]))


OLD_TABLES = (
    "CREATE TABLE knn_settings (settings TEXT NOT NULL)",
    "CREATE TABLE knn_records (seq INTEGER PRIMARY KEY, names TEXT NOT NULL)",
    "CREATE TABLE knn_charges (seq INTEGER PRIMARY KEY, size INTEGER NOT NULL, positions BLOB NOT NULL, "
    "totals BLOB NOT NULL)",
)


def old_rows():
    """Tables of the first version: names in the order of their arrival, and a log of totals."""
    yield "INSERT INTO knn_settings VALUES (:a)", {"a": json.dumps(SETTINGS)}
    for seq, names in enumerate((IDS[:30], IDS[30:]), 1):
        yield "INSERT INTO knn_records VALUES (:a, :b)", {"a": seq, "b": json.dumps(names)}
    for seq, positions in enumerate(([0, 5, 39], [5, 7], list(range(3))), 7):
        totals = [100 * seq + each for each in positions]
        blobs = [np.array(each, "<i8").tobytes() for each in (positions, totals)]
        yield "INSERT INTO knn_charges VALUES (:a, 9, :b, :c)", {"a": seq, "b": blobs[0], "c": blobs[1]}


def old_sqlite(path):
    """A store with a write-ahead log, some of which is not yet in the file."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA application_id = 1802399331")
    for table in OLD_TABLES:
        database.execute(table)
    for sql, values in old_rows():
        database.execute(sql, values)
    for ending in ("", "-wal"):
        shutil.copyfile(f"{path}{ending}", f"{path} killed{ending}")
    database.close()
    return f"{path} killed"


def test_stores_of_the_first_version_are_converted(new, tmp_path):
    where = new()
    if "://" in where:
        sqlalchemy = pytest.importorskip("sqlalchemy")
        engine = sqlalchemy.create_engine(where.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            for table in OLD_TABLES:
                connection.execute(sqlalchemy.text(table.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA")))
            for sql, values in old_rows():
                connection.execute(sqlalchemy.text(sql), values)
        engine.dispose()
    else:
        where = old_sqlite(where)
        assert Path(f"{where}-wal").exists()
    expected = dict.fromkeys(IDS, 0) | {IDS[5]: 805, IDS[7]: 807, IDS[39]: 739}
    expected |= {IDS[i]: 900 + i for i in range(3)}
    for _ in range(2):
        with open_store(where) as store:
            assert store.positions(IDS).tolist() == list(range(40))
            assert spent(store) == list(expected.values())
            assert store.settings() == {**SETTINGS, "identifiers": "given"}
    with open_store(where) as store:
        assert charge(store, [IDS[0]], [1], 901) == [True]
        assert charge(store, [IDS[0]], [1], 901) == [False]


def test_threads_take_turns(new):
    """Also in batches of several charges: each of them is counted once."""
    with open_store(new()) as store:
        positions = store.positions(["a"])
        granted = []

        def charge_often():
            for _ in range(20):
                with store.batch():
                    granted.append(bool(store.charge(positions, [1], 150).all()))
                    granted.append(bool(store.charge(positions, [1], 150).all()))

        threads = [Thread(target=charge_often) for _ in range(5)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sum(granted) == 150
        assert store.spent(positions) == 150


# --- refused -------------------------------------------------------------------------------------------


def refusal(use, kind=StoreError):
    """The message of a refusal, which must be one line."""
    with pytest.raises(kind) as caught:
        use()
    text = str(caught.value)
    assert "\n" not in text
    assert "; accepted: " in text
    return text


def test_settings_are_fixed(new):
    where = new()
    for settings in (SETTINGS, dict(reversed(SETTINGS.items())), {**SETTINGS, "cap": 30.0}):
        with open_store(where) as store:
            store.settle(settings)
    with open_store(where) as store:
        for other, words in {
            "with cap = 30;": {**SETTINGS, "cap": 31},
            "with cap = 30, kernel = 'cosine';": {**SETTINGS, "cap": None, "kernel": "rbf"},
            "with unit = 1e-09;": {"cap": 30, "kernel": "cosine"},
            "with no tau;": {**SETTINGS, "tau": None},
        }.items():
            assert other in refusal(lambda words=words: store.settle(words))
        store.settle(SETTINGS)
    with open_store(new()) as store:
        for bad in ({"unit": float("nan")}, {"unit": {1}}):
            assert "settings = {'unit'" in refusal(lambda bad=bad: store.settle(bad), ac.ParameterError)
        store.settle({})
        assert "with no unit;" in refusal(lambda: store.settle({"unit": 1}))


@pytest.mark.parametrize(
    ("positions", "units", "cap", "words"),
    [
        ([0, 1], [1, -2], 10, "units = [1, -2]"),
        ([0, 1], [1, 2**62 + 1], 10, "units = "),
        ([0, 1], [1, 1], 2**62 + 1, "cap = "),
        ([0, 1, 0], [1, 1, 1], 10, "each record once"),
        ([0, 1], [1], 10, "2 positions with 1 units"),
        ([0, 1], [1, 0.5], 10, "integers"),
        ([0, 2], [1, 1], 10, "accepted: a list of integers in [0, 1]"),
        ([0, -1], [1, 1], 10, "positions = [0, -1]"),
        ([0.0, 1.0], [1, 1], 10, "a list of integers"),
    ],
)
def test_charges_that_make_no_sense(positions, units, cap, words, tmp_path):
    with open_store(tmp_path / "store") as store:
        assert store.positions(["a", "b"]).tolist() == [0, 1]
        assert words in refusal(lambda: store.charge(positions, units, cap), ac.ParameterError)
        assert store.spent([0, 1]).tolist() == [0, 0]
        assert "ids hold 1; accepted: text" in refusal(lambda: store.positions(["c", 1]), ac.ParameterError)


def test_what_is_not_a_store(tmp_path):
    (tmp_path / "text").write_text("not a database" * 100)
    with closing(sqlite3.connect(tmp_path / "other")) as database:
        database.execute("CREATE TABLE knn_charges (part TEXT PRIMARY KEY, header TEXT NOT NULL)")
    for name, words in {"text": "not a database", "other": "a database of something else"}.items():
        before = (tmp_path / name).read_bytes()
        assert words in refusal(lambda path=tmp_path / name: open_store(path))
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("name", [".", "missing/store"])
def test_what_cannot_be_opened(name, tmp_path):
    assert "unable to open" in refusal(lambda: open_store(tmp_path / name))


@pytest.mark.parametrize("where", ["mysql://host/base", "sqlite://", "sqlite://store", "://store"])
def test_other_addresses(where):
    assert "a store at " in refusal(lambda: open_store(where))


def test_addresses_of_one_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///store") as store:
        charge(store, ["a"], [1], 1)
    for where in ("store", Path("store"), f"sqlite:///{tmp_path}/store"):
        assert spent_at(where, ["a"]) == [1]
    open_store(":memory:").close()
    assert (tmp_path / ":memory:").exists()


@pytest.mark.audit
def test_no_process_waits_for_ever(new, monkeypatch):
    monkeypatch.setattr(backends, "STORE_WAIT", 1)
    where = new()
    with open_store(where) as store, open_store(where) as other:
        with store.batch():
            assert "held it for 1 seconds" in refusal(lambda: charge(other, ["a"], [1], 1))
            assert "held it for 1 seconds" in refusal(lambda: open_store(where))
        assert charge(other, ["a"], [1], 1) == [True]


def test_to_look_for_a_store_creates_none(new):
    """A dry run plans without one where there is none yet: on a server, too, it then makes no tables."""
    where = new()
    for _ in range(2):
        assert not backends.has_store(where)
        with open_existing(where) as found:
            assert found is None
    open_store(where).close()
    assert backends.has_store(where)
    assert "accepted: a path" in refusal(lambda: backends.has_store("mysql://here/base"))


def test_a_closed_store_and_one_of_another_process(new):
    store = open_store(new())
    code = os.fork()
    if code == 0:
        try:
            store.positions(["a"])
        except StoreError:
            store.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(code, 0)[1]) == 7
    assert charge(store, ["a"], [1], 1) == [True]
    store.close()
    store.close()
    assert "closed, or opened by another process" in refusal(lambda: store.spent([0]))


def test_postgresql_that_is_not_there(server):
    url, _ = server
    assert 'database "missing" does not exist' in refusal(lambda: open_store(url.format("missing")))
    text = refusal(lambda: open_store("postgresql://me:secret@127.0.0.1:1/base"))
    assert "refused" in text
    assert "secret" not in text
    assert "secret" not in refusal(lambda: open_store("postgresql://me:secret@host:port/base"))


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "UTF8"])
def test_postgresql_in_other_encodings(server, encoding):
    """An initdb without a locale makes databases in SQL_ASCII."""
    url, _ = server
    name = f"in_{encoding.lower()}"
    with closing(administrator(url)) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    where = url.format(name)
    names = ["Ægir", "\u6f22", "a'b\\", "\ud800"]
    with open_store(where) as store:
        assert charge(store, names, [1, 2, 3, 4], 9) == [True] * 4
        store.begin("läuft", {"é": "ü"}, 3)
    assert spent_at(where, names) == [1, 2, 3, 4]


def test_postgresql_tables_of_a_later_version_are_refused(server):
    url, _ = server
    with closing(administrator(url)) as connection:
        connection.execute("CREATE DATABASE later")
    where = url.format("later")
    open_store(where).close()
    with closing(pytest.importorskip("psycopg").connect(where, autocommit=True)) as connection:
        connection.execute("DROP TABLE knn_version")  # as before there were versions
        open_store(where).close()
        connection.execute("UPDATE knn_version SET version = 2")
        before = connection.execute("SELECT head FROM knn_head").fetchall()
        text = refusal(lambda: open_store(where))
        assert "a store of version 2, of a later program; accepted: version 1, or this database by that program" in text
        assert connection.execute("SELECT head FROM knn_head").fetchall() == before


def test_postgresql_without_its_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ac.MissingExtra, match=r"knn-accountant\[postgres\]"):
        open_store("postgresql://host/base")


def test_passwords_in_the_query_of_an_address_are_not_shown():
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as error:
        open_store("postgresql://127.0.0.1:1/db?user=u&password=secret")
    assert "secret" not in str(error.value)
