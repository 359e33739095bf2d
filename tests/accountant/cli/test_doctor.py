"""`accountant doctor`: what is installed and where kernels are kept."""

import json
from importlib import metadata

import pytest

import accountant as ac
from accountant.cli import doctor, main
from accountant.numerics import cache


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
    folder = root / f"0.1.0-{12 * '0'}-{12 * '1'}"
    folder.mkdir(parents=True)
    (folder / "kernel.nbi").write_bytes(b"123")
    (root.parent / "mine.txt").write_text("kept")
    assert main(["doctor", "--clear-cache", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["removed files"], found["removed bytes"]) == (1, 3)
    assert [path.name for path in root.parent.iterdir()] == ["mine.txt"]
    assert main(["doctor", "--clear-cache"]) == 0


def test_what_others_keep_beside_kernels_is_left(root, capsys):
    """All that stood in a folder of that name was removed, and the directory that the user had named."""
    made, others = root / f"0.1.0-{12 * 'a'}-{12 * '1'}", root / "thesis"
    for folder in (made, others):
        folder.mkdir(parents=True)
        (folder / "chapter.txt").write_text("mine")
    (root / f"0.2.0-{12 * 'b'}-{12 * '2'}").symlink_to(others)
    assert main(["doctor", "--clear-cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed files"] == 1
    assert not made.exists()
    assert (others / "chapter.txt").read_text() == "mine"


def test_a_cache_behind_a_link_is_cleared(root, capsys, tmp_path):
    behind = tmp_path / "elsewhere"
    (behind / f"0.1.0-{12 * 'a'}-{12 * '1'}").mkdir(parents=True)
    root.parent.mkdir()
    root.symlink_to(behind)
    assert main(["doctor", "--clear-cache"]) == 0
    assert root.is_symlink()
    assert list(behind.iterdir()) == []


@pytest.mark.parametrize("broken", ["nowhere", "kernels"])
def test_a_cache_behind_a_broken_link_is_not_writable(root, broken):
    root.parent.mkdir()
    root.symlink_to(root.parent / broken)
    cache._make_folder.cache_clear()
    assert not doctor._cache()["writable"]


def test_a_cache_of_nobody_is_one_line(capsys, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT, "~nobody-of-that-name/x")
    for arguments in (["doctor"], ["doctor", "--clear-cache"]):
        assert main(arguments) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert "ACCOUNTANT_CACHE_DIR = '~nobody-of-that-name/x'; accepted: " in message


def test_a_cache_that_cannot_be_cleared_is_one_line(root, capsys, monkeypatch):
    def fail():
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "clear_cache", fail)
    assert main(["doctor", "--clear-cache"]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "Permission denied; accepted: " in message
