"""The mark `each_run`: which cases of a test are tried in every run."""

import pytest

from tests.conftest import pytest_collection_modifyitems


class Case:
    """What the mark needs of a collected case of a test."""

    def __init__(self, nodeid, *marks):
        self.nodeid, self.marks = nodeid, {mark.name: mark for mark in marks}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, name):
        self.marks[name] = getattr(pytest.mark, name).mark


def kept(cases):
    pytest_collection_modifyitems(cases)
    return [place for place, case in enumerate(cases) if case.get_closest_marker("audit") is None]


@pytest.mark.parametrize(("count", "expected"), [(1, [0]), (2, [0, 5]), (3, [0, 3, 6]), (10, [*range(10)]), (0, [])])
def test_cases_are_spread_evenly(count, expected):
    assert kept([Case(f"a.py::test[{i}]", pytest.mark.each_run(count).mark) for i in range(10)]) == expected


def test_more_than_there_are_is_all_of_them():
    assert kept([Case(f"a.py::test[{i}]", pytest.mark.each_run(7).mark) for i in range(3)]) == [0, 1, 2]


def test_other_tests_and_audits_stay_what_they_are():
    few, audit = pytest.mark.each_run(1).mark, pytest.mark.audit.mark
    cases = [Case("a.py::test[x]", few, audit), Case("a.py::test[y]", few), Case("a.py::test[z]", few)]
    assert kept([*cases, Case("a.py::other[x]"), Case("a.py::other[y]"), Case("b.py::test[x]", few)]) == [1, 3, 4, 5]
