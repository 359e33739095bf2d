"""Compiled functions stand in the user's cache directory, and nothing that goes wrong there costs a price."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest

from accountant.numerics import cache
from accountant.numerics.cache import ENVIRONMENT, cache_root, clear_cache, compile_function, find_folder, list_cache

PACKAGE = Path(cache.__file__).parent.parent
EVERYWHERE = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="numba is told not to compile")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "mine"))
    cache._make_folder.cache_clear()
    yield tmp_path / "mine" / "kernels"
    cache._make_folder.cache_clear()


def twice(x):
    return 2 * x


def beside(folder):
    return sorted(path for path in folder.rglob("*.nb[ic]"))


@EVERYWHERE
def test_what_is_compiled_is_kept_in_the_users_directory_alone(root):
    before = beside(PACKAGE), beside(Path(__file__).parent), numba.config.CACHE_DIR
    assert compile_function(twice)(3) == 6
    assert (beside(PACKAGE), beside(Path(__file__).parent), numba.config.CACHE_DIR) == before
    assert {path.suffix for path, _ in list_cache()} == {".nbi", ".nbc"}
    assert all(path.is_relative_to(find_folder(root)) and size for path, size in list_cache())
    assert root.stat().st_mode & 0o077 == 0 or find_folder(root).stat().st_mode & 0o077 == 0
    again = compile_function(twice)
    assert again(3) == 6
    assert sum(again.stats.cache_hits.values()) == 1
    clear_cache()
    assert not root.exists()
    assert root.parent.is_dir()  # it is the user's
    assert list_cache() == []


def test_the_directory_may_be_chosen(monkeypatch, tmp_path):
    for name in (ENVIRONMENT, "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert "knn-accountant" in cache_root().parts
    assert cache_root() != PACKAGE
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert cache_root() == tmp_path / "numba" / "knn-accountant" / "kernels"
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "mine"))
    assert cache_root() == tmp_path / "mine" / "kernels"


@EVERYWHERE
def test_a_directory_that_cannot_be_written_costs_only_time(root):
    root.parent.write_text("a file stands here")
    before = beside(PACKAGE), beside(Path(__file__).parent)
    assert compile_function(twice)(4) == 8
    assert (beside(PACKAGE), beside(Path(__file__).parent)) == before
    assert root.parent.read_text() == "a file stands here"


@EVERYWHERE
def test_a_full_disk_costs_only_time(root, monkeypatch):
    from numba.core.caching import IndexDataCacheFile

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", fail)
    assert compile_function(twice)(5) == 10


def test_other_states_of_this_installation_are_removed_and_other_installations_kept(root):
    version, place, state = find_folder(root).name.split("-")
    stale, other = root / f"0.0.0-{place}-000000000000", root / f"{version}-000000000000-{state}"
    for folder in (stale, other):
        folder.mkdir(parents=True)
        (folder / "kernel.nbi").write_bytes(b"x")
    compile_function(twice)
    assert not stale.exists()
    assert other.exists()


@pytest.mark.audit
@EVERYWHERE
def test_several_processes_share_the_directory(root):
    code = "from accountant.numerics.special import exp_excess as f; print(f(-1.0))"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}

    def start(_):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)

    with ThreadPoolExecutor() as pool:
        assert len({done.stdout for done in pool.map(start, range(2))}) == 1
    assert list_cache()


def test_where_nothing_is_compiled_there_is_no_kernel():
    for folder in cache.WITHOUT_KERNELS:
        assert not [path for path in PACKAGE.glob(f"**/{folder}/*.py") if "import Kernel" in path.read_text("utf-8")]


@EVERYWHERE
def test_kernels_are_compiled_without_a_cache_where_its_user_is_unknown(monkeypatch):
    """That was a traceback of every price."""
    monkeypatch.setenv(ENVIRONMENT, "~nobody-of-that-name/x")
    assert compile_function(twice)(3) == 6
