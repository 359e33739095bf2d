"""Where tests keep their files."""

import os
import shutil
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def memory_folder() -> Path | None:
    """A folder in memory, if there is one with a gigabyte of room: journals and stores need not wait for a disk.

    After kills and faults it is as good as a disk.
    """
    if not os.access(SHARED_MEMORY, os.W_OK) or shutil.disk_usage(SHARED_MEMORY).free < 2**30:
        return None
    return SHARED_MEMORY
