"""Compiled kernels on disk: none is used after a source of another folder has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.audit
def test_older_kernels_of_every_folder_are_dropped(tmp_path):
    """numba checks only the file that a kernel stands in, not those of the kernels that it calls."""
    package = tmp_path / "accountant"
    shutil.copytree(ROOT / "accountant", package, ignore=shutil.ignore_patterns("__pycache__"))
    stale = [package / folder / "__pycache__" / "kernel.nbi" for folder in ("events", "numerics", "renyi", "tight")]
    for index in stale:
        index.parent.mkdir()
        index.touch()
        os.utime(index, (0, 0))
    code = "import accountant; from accountant.numerics.special import logaddexp; assert logaddexp(0.0, 0.0) > 0.69"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": ""})
    assert not any(index.exists() for index in stale)
