"""What all tests share."""

import pytest

from tests.places import empty_folder


@pytest.fixture
def tmp_path():
    """An empty directory, in memory where there is one."""
    with empty_folder() as place:
        yield place
