"""Compiled functions stand in the user's cache directory, and nothing that goes wrong there costs a price."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest

from accountant.errors import ParameterError
from accountant.numerics import cache
from accountant.numerics.cache import ENVIRONMENT, cache_root, clear_cache, compile_function, find_folder, list_cache
from tests.disks import run_as_nobody

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
    assert list(root.parent.iterdir()) == []  # who named it may have made it
    assert list_cache() == []


def test_what_somebody_else_put_there_is_neither_counted_nor_removed(root):
    theirs = [root / "mysrc", root / "0.1.0-notes-2026", root / f"1-{'A' * 12}-{'b' * 12}", root / "old"]
    ours = [root / f"{version}-{'a' * 12}-{'b' * 12}" for version in ("0.1.0", "0.2.0.dev1+local")]
    for folder in (*theirs, *ours):
        folder.mkdir(parents=True)
        (folder / "a.c").write_text("x")
    link = root / f"0.3.0-{'a' * 12}-{'b' * 12}"
    link.symlink_to(root / "old")
    assert [path for path, _ in list_cache()] == [folder / "a.c" for folder in ours]
    clear_cache()
    assert sorted(root.iterdir()) == sorted([*theirs, link])
    assert all((folder / "a.c").read_text() == "x" for folder in theirs)


def test_the_folders_that_this_package_makes_are_known_to_be_its_own(root):
    assert cache.OURS.fullmatch(find_folder(root).name)


def test_the_usual_folder_goes_with_the_cache(monkeypatch, tmp_path):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    find_folder(cache_root()).mkdir(parents=True)
    clear_cache()
    assert list((tmp_path / "numba").iterdir()) == []


def test_a_link_to_a_folder_is_kept_and_what_it_names_is_cleared(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    root.parent.mkdir()
    root.symlink_to(tmp_path / "elsewhere")
    assert cache.why_nothing_is_kept() is None
    find_folder(root).mkdir()
    (find_folder(root) / "kernel.nbi").write_bytes(b"x")
    assert len(list_cache()) == 1
    clear_cache()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert root.is_symlink()


def test_what_can_be_written_is_found_out_without_a_trace(root):
    assert cache.why_nothing_is_kept() is None
    assert not root.parent.exists()
    find_folder(root).mkdir(parents=True)
    assert cache.why_nothing_is_kept() is None
    assert list(find_folder(root).iterdir()) == []


@pytest.mark.parametrize("goal", ["nowhere", "kernels"])
def test_a_link_that_leads_nowhere_cannot_be_written(root, goal):
    root.parent.mkdir()
    root.symlink_to(root.parent / goal)
    assert cache.why_nothing_is_kept()
    assert compile_function(twice)(4) == 8
    assert list_cache() == []
    assert [path.name for path in root.parent.iterdir()] == ["kernels"]


def test_a_parent_that_cannot_be_read_costs_only_time(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o700)
    imports = f"""
from accountant.numerics import cache
cache._names()
cache.os.environ[cache.ENVIRONMENT] = {str(tmp_path / "theirs" / "mine")!r}
"""
    code = """
print(cache.why_nothing_is_kept(), cache.list_cache(), cache._find_place())
try:
    cache.clear_cache()
except PermissionError:
    print("refused")
"""
    done = run_as_nobody(imports, code, PACKAGE.parent)
    assert done.stdout.splitlines() == ["Permission denied [] None", "refused"], done.stderr


def test_a_folder_that_may_be_written_and_not_read_is_used(tmp_path):
    imports = f"""
from accountant.numerics import cache
cache._names()
cache.os.environ[cache.ENVIRONMENT] = {str(tmp_path / "mine")!r}
"""
    (tmp_path / "mine" / "kernels").mkdir(parents=True)
    (tmp_path / "mine" / "kernels").chmod(0o733)
    tmp_path.chmod(0o711)
    code = "print(cache._find_place() == cache.find_folder(cache.cache_root()), cache.list_cache())"
    done = run_as_nobody(imports, code, PACKAGE.parent)
    assert done.stdout == "True []\n", done.stderr


@pytest.mark.parametrize("own", ["~nosuchuser/x", "~/x", None])
def test_a_home_that_is_not_known_costs_only_time(own, monkeypatch, tmp_path):
    import pwd

    def know_nobody(_):
        raise KeyError

    monkeypatch.chdir(tmp_path)
    for name in (ENVIRONMENT, "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if own is not None:
        monkeypatch.setenv(ENVIRONMENT, own)
    monkeypatch.setattr(pwd, "getpwuid", know_nobody)
    assert compile_function(twice)(3) == 6
    assert list_cache() == []
    assert list(tmp_path.iterdir()) == []
    reason = cache.why_nothing_is_kept()
    assert f"{ENVIRONMENT} = {own or ''!r}, and no home directory is known" in reason
    with pytest.raises(ParameterError, match="; accepted: "):
        clear_cache()


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
