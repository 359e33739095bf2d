"""SQLite files: each is complete after every commit, and an older copy is noticed."""

import contextlib
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from accountant.database import Database, FileKind, remove_database
from tests.disks import full_disk, run_as_nobody

TABLES = ("CREATE TABLE IF NOT EXISTS charges (query INTEGER)",)


class Refused(Exception):
    pass


def opened(path, refuse_older=True, **options):
    return Database(path, FileKind("a test", 7, TABLES, Refused, refuse_older), **options)


def charge(database, query):
    with database.transaction() as run:
        run("INSERT INTO charges VALUES (:query)", {"query": query})


def charges(database):
    with database.transaction() as run:
        return [query for (query,) in run("SELECT query FROM charges")]


@pytest.mark.parametrize("alone", [False, True])
def test_the_file_by_itself_holds_every_commit(tmp_path, alone):
    database = opened(tmp_path / "a.db", alone=alone)
    for query in range(300):
        charge(database, query)
        if query % 50 == 0:
            shutil.copyfile(tmp_path / "a.db", tmp_path / f"copy{query}.db")
            copy = opened(tmp_path / f"copy{query}.db")
            assert charges(copy) == list(range(query + 1))
            copy.close()
    database.close()
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith("a.db")) == [
        "a.db",
        "a.db.generation",
    ]


def test_an_older_copy_is_noticed(tmp_path):
    path = tmp_path / "a.db"
    database = opened(path)
    charge(database, 1)
    shutil.copyfile(path, tmp_path / "old")
    charge(database, 2)
    database.close()
    shutil.copyfile(tmp_path / "old", path)
    with pytest.raises(Refused, match="older copy"):
        opened(path)
    os.remove(tmp_path / "a.db.generation")
    assert charges(opened(path)) == [1]


def test_older_copies_may_be_accepted(tmp_path):
    """Then the file is alone, and one that was removed may be made anew."""
    path = tmp_path / "a.db"
    database = opened(path, refuse_older=False)
    charge(database, 1)
    database.close()
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]
    copy = path.read_bytes()
    database = opened(path, refuse_older=False)
    charge(database, 2)
    database.close()
    path.write_bytes(copy)
    assert charges(opened(path, refuse_older=False)) == [1]
    path.unlink()
    assert charges(opened(path, refuse_older=False)) == []


def test_a_new_file_where_another_was_is_noticed(tmp_path):
    path = tmp_path / "a.db"
    database = opened(path)
    charge(database, 1)
    database.close()
    os.remove(path)
    with pytest.raises(Refused, match="another file"):
        opened(path)
    remove_database(path)
    assert charges(opened(path)) == []


def test_a_commit_that_the_number_missed_is_accepted(tmp_path):
    path = tmp_path / "a.db"
    database = opened(path)
    charge(database, 1)
    beside = (tmp_path / "a.db.generation").read_bytes()
    charge(database, 2)
    database.close()
    (tmp_path / "a.db.generation").write_bytes(beside)
    assert charges(opened(path)) == [1, 2]


def test_a_late_number_does_not_replace_a_later_one(tmp_path, monkeypatch):
    """Preempted between commit and number, while another process commits and writes the next one."""
    path = tmp_path / "a.db"
    late, other = opened(path), opened(path)
    write = late._write_generation

    def wait(identity, number):
        shutil.copyfile(path, tmp_path / "old")
        charge(other, 2)
        write(identity, number)

    monkeypatch.setattr(late, "_write_generation", wait)
    charge(late, 1)
    assert charges(late) == [1, 2]
    for each in (late, other):
        each.close()
    shutil.copyfile(tmp_path / "old", path)
    with pytest.raises(Refused, match="older copy"):
        opened(path)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.accountant import test_database

database = test_database.opened(Path(sys.argv[1]))
os.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
test_database.charge(database, 1)
"""


def test_a_process_killed_over_the_number_holds_nobody_up(tmp_path):
    path = tmp_path / "a.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, path], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    database = opened(path)
    assert charges(database) == [1]
    charge(database, 2)
    shutil.copyfile(path, tmp_path / "old")
    charge(database, 3)
    database.close()
    shutil.copyfile(tmp_path / "old", path)
    with pytest.raises(Refused, match="older copy"):
        opened(path)


def test_a_child_that_was_forked_over_the_number_holds_nobody_up(tmp_path, monkeypatch):
    """It has the open file of its parent, and would have its lock for as long as it lives."""
    fcntl, path, inherited = pytest.importorskip("fcntl"), tmp_path / "a.db", []
    read = os.read

    def fork_and_read(file, size):
        inherited.append(os.dup(file))
        return read(file, size)

    database = opened(path)
    monkeypatch.setattr(os, "read", fork_and_read)
    charge(database, 1)
    monkeypatch.undo()
    assert inherited
    other = os.open(tmp_path / "a.db.generation", os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for file in (*inherited, other):
            os.close(file)


def test_the_number_of_another_file_is_left_alone(tmp_path, monkeypatch):
    """Removed and made anew between commit and number."""
    path = tmp_path / "a.db"
    late = opened(path)
    write = late._write_generation

    def wait(identity, number):
        remove_database(path)
        opened(path).close()
        write(identity, number)

    monkeypatch.setattr(late, "_write_generation", wait)
    charge(late, 1)
    assert charges(opened(path)) == []


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_of_the_write_ahead_log_is_converted(tmp_path, alone):
    path = tmp_path / "a.db"
    database = opened(path)
    charge(database, 1)
    database.close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("INSERT INTO charges VALUES (2)")
    raw.commit()
    raw.close()
    database = opened(path, alone=alone)
    charge(database, 3)
    assert not (tmp_path / "a.db-wal").exists()
    assert charges(database) == [1, 2, 3]


def test_others_are_left_alone_and_damage_is_refused(tmp_path):
    path = tmp_path / "a.db"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE other (x)")
    raw.commit()
    raw.close()
    with pytest.raises(Refused, match="something else"):
        opened(path)
    database = opened(tmp_path / "b.db")
    for query in range(200):
        charge(database, query)
    database.close()
    data = bytearray((tmp_path / "b.db").read_bytes())
    (tmp_path / "c.db").write_bytes(data[: len(data) // 2])
    with pytest.raises(Refused):
        opened(tmp_path / "c.db")


@pytest.mark.each_run(1)
@pytest.mark.parametrize("alone", [False, True])
def test_a_fork_that_ends_leaves_the_transaction_alone(tmp_path, alone):
    """If a forked child closed the connection, SQLite would roll back the parent's transaction."""
    database = opened(tmp_path / "a.db", alone=alone)
    with database.transaction() as run:
        run("PRAGMA cache_size = 1")
        run("CREATE TABLE big (text BLOB)")
        for _ in range(50):
            run("INSERT INTO big VALUES (zeroblob(4000))")  # large enough to reach the file before the commit
        run("INSERT INTO charges VALUES (1)")
        assert (tmp_path / "a.db-journal").exists()
        child = os.fork()
        if child == 0:
            database.__dict__.clear()
            del database, run
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (tmp_path / "a.db-journal").exists(), "the child has rolled back"
        run("INSERT INTO charges VALUES (2)")
    database.close()
    assert charges(opened(tmp_path / "a.db")) == [1, 2]


@pytest.mark.each_run(1)
def test_a_fork_between_transactions_of_other_threads_can_write(tmp_path):
    """SQLite would take the lock of a thread that the child lacks for its own, and refuse the child for ever."""
    database, ended = opened(tmp_path / "a.db", wait=30.0), threading.Event()

    def go_on():
        while not ended.is_set():
            charge(database, 0)

    threads = [threading.Thread(target=go_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for number in range(1, 6):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(Exception):
                charge(opened(tmp_path / "a.db", wait=10.0), number)
                os._exit(0)
            os._exit(1)
        children.append(child)
    ended.set()
    for thread in threads:
        thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
    assert sorted(set(charges(database))) == list(range(6))


def test_a_fork_waits_no_longer_than_it_must(tmp_path, monkeypatch):
    """A thread that stays within a transaction ends no program that forks; its child is refused, as before."""
    monkeypatch.setattr("accountant.database.FORK_WAIT", 0.2)
    database, begun, ended = opened(tmp_path / "a.db"), threading.Event(), threading.Event()

    def stay():
        with database.transaction() as run:
            run("INSERT INTO charges VALUES (1)")
            begun.set()
            ended.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Refused):
            charge(opened(tmp_path / "a.db"), 2)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    ended.set()
    thread.join()
    charge(database, 3)
    assert charges(database) == [1, 3]


def test_one_process_at_a_time(tmp_path):
    database = opened(tmp_path / "a.db", alone=True)
    with pytest.raises(Refused, match="another process"):
        opened(tmp_path / "a.db")
    database.close()
    opened(tmp_path / "a.db", alone=True)


def test_the_message_tells_where_a_file_can_be(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "a.db"):
        with pytest.raises(Refused, match="accepted: a test in a directory that can be written, with room"):
            opened(path)


def test_only_its_owner_can_read_what_is_made(tmp_path):
    old = os.umask(0)
    try:
        database = opened(tmp_path / "a.db")
        charge(database, 1)
        database.close()
    finally:
        os.umask(old)
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}


def test_a_second_connection_leaves_the_locks_of_the_first(tmp_path):
    """POSIX drops all locks of a process when any of its descriptors of the file is closed."""
    first = opened(tmp_path / "a.db")
    with first.transaction() as run:
        run("INSERT INTO charges VALUES (:query)", {"query": 1})
        with pytest.raises(Refused, match="another process"):
            opened(tmp_path / "a.db")
        child = os.fork()
        if child == 0:
            with contextlib.suppress(Exception):
                raw = sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)
                raw.execute("BEGIN IMMEDIATE")
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the lock was gone"


def test_what_is_left_of_a_removal_refuses_no_new_file(tmp_path, monkeypatch):
    database = opened(tmp_path / "a.db")
    charge(database, 1)
    database.close()
    removed = []
    monkeypatch.setattr("accountant.database.os.remove", lambda path: removed.append(path.name))
    remove_database(tmp_path / "a.db")
    assert removed[0] == "a.db.generation"


def test_an_older_copy_is_noticed_under_a_second_name(tmp_path):
    path, link = tmp_path / "a.db", tmp_path / "link.db"
    link.symlink_to(path)
    database = opened(path)
    charge(database, 1)
    shutil.copyfile(path, tmp_path / "older")
    charge(database, 2)
    database.close()
    shutil.copyfile(tmp_path / "older", path)
    with pytest.raises(Refused, match="replaced by an older copy"):
        opened(link)


def test_a_file_of_two_names_is_refused(tmp_path):
    opened(tmp_path / "a.db").close()
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    for name in ("a.db", "b.db"):
        with pytest.raises(Refused, match="2 names"):
            opened(tmp_path / name)
    (tmp_path / "b.db").unlink()
    opened(tmp_path / "a.db").close()


def test_a_file_of_a_later_version_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "a.db"
    later = Database(path, FileKind("a test", 7, TABLES, Refused, version=3))
    charge(later, 1)
    later.close()
    before = path.read_bytes()
    with pytest.raises(Refused, match="a test of version 3, of a later program; accepted: version 1, or") as error:
        opened(path)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == before
    earlier = tmp_path / "b.db"
    opened(earlier).close()
    Database(earlier, FileKind("a test", 7, TABLES, Refused, version=3)).close()  # converting is the caller's part


@pytest.mark.parametrize("free", [0, 8192])
@pytest.mark.parametrize("alone", [False, True])
def test_a_full_disk_leaves_no_empty_file(tmp_path, free, alone):
    with full_disk(tmp_path / "disk", free=free) as disk:
        with pytest.raises(Refused, match=r"disk is full; accepted: a test in a directory .* with room"):
            opened(disk / "a.db", alone=alone)
        assert [each.name for each in disk.iterdir()] == ["filling"]
        (disk / "filling").unlink()
        opened(disk / "a.db", alone=alone).close()


def test_a_file_that_another_process_removes_meanwhile_is_refused(tmp_path, monkeypatch):
    """It had opened the file, too, and found no room: what is committed to a file without a name would be lost."""
    path = tmp_path / "a.db"
    check = Database._check_pages
    monkeypatch.setattr(Database, "_check_pages", lambda self, run: (path.unlink(), check(self, run))[1])
    with pytest.raises(Refused, match="removed or replaced while it was open; accepted: "):
        opened(path)


def test_a_file_with_content_gets_its_name_back(tmp_path):
    database = opened(tmp_path / "a.db")
    charge(database, 1)
    database._remove_empty()
    assert charges(database) == [1]
    database.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.db", "a.db.generation"]


READ_ONLY = """
try:
    Database(Path("a.db"), FileKind("a test", 7, (), ValueError))
except ValueError as error:
    print(error)
"""


def test_a_directory_that_an_ordinary_user_cannot_write(tmp_path):
    for each in (tmp_path, *list(tmp_path.parents)[:2]):
        os.chmod(each, 0o755)
    imports = "from pathlib import Path\nfrom accountant.database import Database, FileKind"
    done = run_as_nobody(imports, READ_ONLY, tmp_path)
    accepted = "accepted: a test in a directory that can be written, with room"
    assert done.stdout == f"a.db: unable to open database file; {accepted}\n", done
    assert not list(tmp_path.iterdir())
