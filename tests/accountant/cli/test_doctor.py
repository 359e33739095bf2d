"""`accountant doctor`: what is installed and where kernels are kept."""

import json
from importlib import metadata
from pathlib import Path

import pytest

import accountant as ac
from accountant.cli import doctor, main
from accountant.numerics import cache
from tests.disks import run_as_nobody


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "mine"))
    return tmp_path / "mine" / "kernels"


def test_it_finds_versions_extras_cache_times_and_threads(root, capsys, monkeypatch):
    def quick_price(*_, method):  # most take long to compile into an empty cache
        return ac.epsilon(ac.PoissonSubsampled(ac.Laplace(2.0), 0.1), 1e-5, method=method)

    monkeypatch.setattr(doctor, "epsilon", quick_price)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["knn-accountant"] == ac.__version__
    assert found["versions"]["numba"] == metadata.version("numba")
    assert found["extras"]["testing"] == "there"
    assert found["cache"]["folder"] == str(root)
    assert found["cache"]["writable"]
    assert found["compilation"]["first price in seconds"] >= 0
    assert found["threads"]["processors"] >= 1
    assert main(["doctor"]) == 0
    assert str(root) in "".join(capsys.readouterr().out.split()).replace("│", "")


def test_an_extra_that_lacks_something_says_how_to_get_it(monkeypatch):
    lines = ["numpy>=1.26", 'knn-accountant[plots]; extra == "notebooks"', 'no-such-thing>=2; extra == "wishes"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert doctor._extras() == {"wishes": "lacks no-such-thing: pip install 'knn-accountant[wishes]'"}


def test_the_cache_is_cleared_and_nothing_else(root, capsys):
    folder = root / f"0.1.0-{'a' * 12}-{'b' * 12}"
    folder.mkdir(parents=True)
    (folder / "kernel.nbi").write_bytes(b"123")
    (root.parent / "mine.txt").write_text("kept")
    assert main(["doctor", "--clear-cache", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["removed files"], found["removed bytes"]) == (1, 3)
    assert [path.name for path in root.parent.iterdir()] == ["mine.txt"]
    assert main(["doctor", "--clear-cache"]) == 0


def test_a_cache_that_cannot_be_cleared_is_one_line(root, capsys, monkeypatch):
    def fail():
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "clear_cache", fail)
    assert main(["doctor", "--clear-cache"]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "Permission denied; accepted: " in message


@pytest.fixture
def found(root, capsys, monkeypatch):
    """What the command prints, by group; its price compiles nothing."""
    monkeypatch.setattr(doctor, "epsilon", lambda *_, **__: None)

    def run(*form):
        assert main(["doctor", *form]) == 0
        return capsys.readouterr().out

    return run


def test_a_cache_that_leads_nowhere_is_said_to_be_so(root, found):
    root.parent.mkdir()
    root.symlink_to(root.parent / "nowhere")
    assert f'cache,writable,"no: no folder, and no link to one: {root}"' in found("--csv")
    held = json.loads(found("--json"))["cache"]
    assert held["writable"] is False
    assert str(root) in held["reason"]


def test_a_home_that_is_not_known_is_named_and_nothing_else_is_lost(found, monkeypatch, capsys):
    monkeypatch.setenv(cache.ENVIRONMENT, "~nosuchuser/x")
    lines = found("--csv").splitlines()
    assert "cache,folder,none" in lines
    (line,) = [line for line in lines if line.startswith("cache,writable,")]
    assert "no: ACCOUNTANT_CACHE_DIR = '~nosuchuser/x'" in line
    assert any(line.startswith("versions,") for line in lines)
    assert main(["doctor", "--clear-cache"]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "ACCOUNTANT_CACHE_DIR = '~nosuchuser/x'" in message


def test_a_parent_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o700)
    imports = f"""
from accountant.cli import doctor, main
from accountant.numerics import cache
import rich.console, sys
cache._names(), doctor._versions(), doctor._extras()
doctor.epsilon = lambda *_, **__: None
cache.os.environ[cache.ENVIRONMENT] = {str(tmp_path / "theirs" / "mine")!r}
"""
    code = 'main(["doctor", "--csv"]); sys.exit(main(["doctor", "--clear-cache"]))'
    done = run_as_nobody(imports, code, Path(doctor.__file__).parents[2])
    assert "cache,writable,no: Permission denied" in done.stdout, done.stderr
    assert "versions,python," in done.stdout
    assert done.returncode == 2
    assert cache.ENVIRONMENT in done.stderr
    assert done.stderr.count("\n") == 1
