"""What all tests share."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path(tmp_path_factory):
    """An empty directory, in memory where there is one: journals and stores wait for the disk at every commit.

    After kills and faults it is as good as a disk.
    """
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < 2**30:
        yield tmp_path_factory.mktemp("test")
        return
    place = Path(tempfile.mkdtemp(dir=MEMORY, prefix="test-"))
    yield place
    shutil.rmtree(place, ignore_errors=True)
