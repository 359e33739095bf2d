"""Where tests keep their files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def memory_folder() -> Path | None:
    """A folder in memory, if there is one with a gigabyte of room: journals and stores need not wait for a disk.

    After kills and faults it is as good as a disk.
    """
    if not os.access(SHARED_MEMORY, os.W_OK) or shutil.disk_usage(SHARED_MEMORY).free < 2**30:
        return None
    return SHARED_MEMORY


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A new folder, in memory where there is one, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="test-", dir=memory_folder(), ignore_cleanup_errors=True) as place:
        yield Path(place)
