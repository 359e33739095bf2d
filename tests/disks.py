"""Places where nothing can be written: a small disk that is full, and a directory of somebody else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@contextmanager
def full_disk(place: Path, size: str = "1m", free: int = 0) -> Iterator[Path]:
    """A disk at `place` with `free` bytes left; the test is skipped where disks cannot be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount")
    if done.returncode:
        pytest.skip("disks cannot be mounted")
    try:
        with open(place / "filling", "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
            file.truncate(max(file.tell() - free, 0))
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def run_as_nobody(imports: str, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code as an ordinary user, once it has imported what that user may not be able to read.

    The test is skipped where users cannot be changed.
    """
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    become = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"
    whole = [sys.executable, "-c", f"{imports}\n{become}\n{code}"]
    return subprocess.run(whole, cwd=cwd, capture_output=True, text=True, check=False)
