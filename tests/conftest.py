"""What all tests share."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.places import memory_folder


@pytest.fixture
def tmp_path(tmp_path_factory):
    """An empty directory, in memory where there is one."""
    memory = memory_folder()
    if memory is None:
        yield tmp_path_factory.mktemp("test")
        return
    place = Path(tempfile.mkdtemp(dir=memory, prefix="test-"))
    yield place
    shutil.rmtree(place, ignore_errors=True)
