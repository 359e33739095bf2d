"""Output files are written whole or not at all."""

import json
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import accountant as ac


def test_a_file_is_replaced_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with ac.files.open_whole(path) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_after_an_exception_nothing_has_changed(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail():
        with ac.files.open_whole(path) as stream:
            stream.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_content_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda opened: (calls.append("fsync"), sync(opened)))
    monkeypatch.setattr("os.replace", lambda *names: (calls.append("replace"), replace(*names)))
    ac.files.write_text(tmp_path / "out.txt", "µ")
    assert calls == ["fsync", "replace", "fsync"]  # the last one of the directory
    assert (tmp_path / "out.txt").read_bytes() == "µ".encode()


def test_a_private_file_is_the_owners_alone(tmp_path):
    old = os.umask(0o022)
    try:
        ac.files.write_text(tmp_path / "open", "x")
        ac.files.write_text(tmp_path / "private", "x", private=True)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_a_link_goes_on_naming_the_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    ac.files.write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"


def test_what_a_killed_process_left_is_no_obstacle(tmp_path):
    (tmp_path / f".out.{os.getpid()}.partial").write_text("half")
    ac.files.write_text(tmp_path / "out", "x")
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_not_released_yet_is_the_owners_alone_and_goes_with_its_process(tmp_path):
    """A process that dies at the move leaves the content, which nobody else could read, and the next one removes it."""
    path, old = tmp_path / "out.txt", os.umask(0o022)
    code = "import os, accountant as ac; os.replace = lambda *_: os.kill(os.getpid(), 9); "
    code += f"ac.files.write_text({str(path)!r}, 'drawn')"
    try:
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
        (left,) = tmp_path.iterdir()
        assert (left.read_text(), stat.S_IMODE(left.stat().st_mode)) == ("drawn", 0o600)
        assert ac.files.check_output(path) == path
        assert os.listdir(tmp_path) == []
        left.write_text("half")
        ac.files.write_text(path, "x")
    finally:
        os.umask(old)
    assert os.listdir(tmp_path) == ["out.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "out.txt"
    code = f"import sys, accountant as ac\nwith ac.files.open_whole({str(path)!r}) as stream:\n"
    code += "    stream.write(b'its'); print(flush=True); sys.stdin.readline()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        ac.files.check_output(path)
        ac.files.write_text(path, "mine")
        assert len(os.listdir(tmp_path)) == 2
        other.communicate(b"\n", 60)
    assert (os.listdir(tmp_path), path.read_text()) == (["out.txt"], "its")


def test_a_file_made_under_the_name_of_one_that_was_left_is_not_removed(tmp_path, monkeypatch):
    """Between the look at the name and the lock another process may have begun to write there: its file was removed."""
    pytest.importorskip("fcntl")
    left, lock = tmp_path / ".out.txt.123.partial", ac.files.fcntl.flock
    left.write_text("half")

    def late(opened, how):
        if left.exists() and left.read_text() == "half":
            left.unlink()
            left.write_text("its")
        lock(opened, how)

    monkeypatch.setattr(ac.files.fcntl, "flock", late)
    ac.files.check_output(tmp_path / "out.txt")
    assert left.read_text() == "its"


def test_no_file_that_others_may_remove_is_without_a_lock(tmp_path, monkeypatch):
    """The file that shows the mode of new ones had the name of the content: who removed one removed the other."""
    made, opens = [], os.open

    def watch(name, flags, mode=0o777, **named):
        if flags & os.O_CREAT:
            made.append((Path(name).name, mode))
        return opens(name, flags, mode, **named)

    monkeypatch.setattr("os.open", watch)
    for _ in range(2):
        ac.files.write_text(tmp_path / "out.txt", "x")
    assert sorted(mode for _, mode in made) == [0o600, 0o600, 0o666, 0o666]
    assert len({name for name, _ in made}) == 4
    assert all(name.endswith(".partial") is (mode == 0o600) for name, mode in made)
    assert os.listdir(tmp_path) == ["out.txt"]
    for name, _ in made:
        (tmp_path / name).write_text("")  # as if killed
    ac.files.check_output(tmp_path / "out.txt")
    assert os.listdir(tmp_path) == ["out.txt"]


def test_of_threads_that_write_the_same_file_each_writes_it_whole(tmp_path):
    path, both_inside = tmp_path / "out", threading.Barrier(2)

    def write(letter):
        with ac.files.open_whole(path) as stream:
            stream.write(letter)
            stream.flush()
            both_inside.wait(120)
            stream.write(letter * 99)
        return path.read_bytes()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(write, [b"a", b"b"]))
    assert {len(content) for content in found} == {100}
    assert {len(set(content)) for content in found} == {1}
    assert os.listdir(tmp_path) == ["out"]


def test_json_is_read_back_and_has_no_nan(tmp_path):
    path = tmp_path / "out.json"
    ac.files.write_json(path, {"a": [1, 2.5]})
    assert json.loads(path.read_text()) == {"a": [1, 2.5]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        ac.files.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": [1, 2.5]}


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_is_made_meanwhile_is_replaced_only_where_that_is_wanted(links, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr("os.link", refuse)
    path, old = tmp_path / "out", os.umask(0o022)

    def write(theirs=None, **options):
        with ac.files.open_whole(path, **options) as stream:
            stream.write(b"mine")
            if theirs:
                path.write_text(theirs)

    try:
        write(replace=False)
        assert (os.listdir(tmp_path), path.read_text()) == (["out"], "mine")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        with pytest.raises(LookupError, match=r"^output '.*out': was made meanwhile; accepted: a file that is not the"):
            write("theirs", replace=False, refuse=LookupError)
        assert (os.listdir(tmp_path), path.read_text()) == (["out"], "theirs")
        write("theirs")
        assert (os.listdir(tmp_path), path.read_text()) == (["out"], "mine")
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("path", "accepted"),
    [
        ("x.txt", "accepted: a file ending in .csv, .npz"),
        ("absent/x.csv", "accepted: a file in an existing directory that can be written"),
        ("folder.csv", "accepted: a file in an existing directory that can be written"),
        ("link.csv", "accepted: a file in an existing directory that can be written"),
    ],
)
def test_paths_are_refused_before_the_work(path, accepted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "absent" / "x.csv")
    with pytest.raises(ac.ParameterError, match=f"^--out '{path}'; {accepted}$"):
        ac.files.check_output(path, (".csv", ".npz"), name="--out")
    assert ac.files.check_output("x.csv", (".csv", ".npz")) == ac.files.check_output("x.csv")


def test_where_no_file_can_be_made_is_found_out_by_trying_and_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "old.csv"
    path.write_text("old")
    assert ac.files.check_output(path) == path
    assert (os.listdir(tmp_path), path.read_text()) == (["old.csv"], "old")
    with pytest.raises(ac.ParameterError, match="File name too long; accepted: a file that can be written"):
        ac.files.check_output(tmp_path / ("x" * 300))

    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(ac.ParameterError, match=r"old\.csv': Read-only file system; accepted: a file that can be"):
        ac.files.check_output(path)


def test_failures_of_the_disk_are_one_line(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    path = tmp_path / "out"
    with pytest.raises(LookupError, match="No space left on device; accepted: a file that can be written"):
        ac.files.write_text(path, "x", refuse=LookupError)
    assert os.listdir(tmp_path) == []


# --- one file by two names ------------------------------------------------------------------------------


def test_names_of_one_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("new")
    for first, second in (("new", tmp_path / "new"), ("sub/../new", "new"), ("link", "new"), ("./link", "link")):
        assert ac.files.same_file(first, second)
    for first, second in (("new", "newer"), ("sub/new", "new"), ("lost/new", "new"), ("lost/new", "lost/newer")):
        assert not ac.files.same_file(first, second)
    Path("old").write_text("")
    os.link("old", "second")
    assert ac.files.same_file("old", "second")
    assert sorted(os.listdir()) == ["link", "old", "second", "sub"]


def test_names_are_told_apart_as_the_file_system_does(tmp_path, monkeypatch):
    (tmp_path / "probe").write_text("")
    takes_case = not (tmp_path / "PROBE").exists()
    names = tmp_path / "o.csv", tmp_path / "O.CSV"
    assert ac.files.same_file(*names) != takes_case
    assert os.listdir(tmp_path) == ["probe"]
    create = ac.files._create

    def create_in_any_case(path):
        path.with_name(path.name.replace("o.csv", "O.CSV")).touch()
        return create(path)

    if takes_case:
        monkeypatch.setattr(ac.files, "_create", create_in_any_case)
        assert ac.files.same_file(*names)
        assert not ac.files.same_file(tmp_path / "o.csv", tmp_path / "o.csw")


def test_what_is_read_is_kept(tmp_path):
    plan = tmp_path / "plan.svg"
    plan.write_text("")
    (tmp_path / "link.svg").symlink_to(plan)
    for out in (plan, tmp_path / "link.svg"):
        with pytest.raises(ac.ParameterError, match=r"would replace '.*plan\.svg', which is read; accepted: another"):
            ac.files.check_output(out, keep=[str(plan)])
    assert ac.files.check_output(tmp_path / "other.svg", keep=[str(plan), "digits"])
