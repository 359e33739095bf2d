"""The table of what is proved, tested and audited is current, and the page has all broken mechanisms."""

import pytest

pytest.importorskip("sklearn")

from tests import evidence
from tests.mechanisms.audit.broken import NINE
from tests.mechanisms.audit.broken_more import MORE


def test_the_table_is_current():
    page = evidence.PAGE.read_text("utf-8")
    assert evidence.between(page, "evidence").strip().splitlines() == evidence.rows(), "python -m tests.evidence"


def test_every_event_and_mechanism_has_a_row():
    table = evidence.between(evidence.PAGE.read_text("utf-8"), "evidence")
    for name in [*evidence.event_names(), *evidence.mechanism_names()]:
        assert f"| `{name}` |" in table
    assert {"PrivateKNN", "GNMax", "LNMax", "LinearNoisySGD", "IndividualKNN", "ReverseKNN", "Client", "Server"} <= set(
        evidence.mechanism_names()
    )


def test_every_broken_mechanism_has_a_row_that_says_what_the_tests_say():
    table = evidence.between(evidence.PAGE.read_text("utf-8"), "broken mechanisms").strip().splitlines()[2:]
    assert len(table) == len(NINE) + len(MORE)
    for case, line in zip([*NINE, *MORE], table, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[:2] == [f"`{case.mechanism}`", case.name]
        assert cells[-1] == ("yes" if case.caught else f"no: {case.why}")
        assert (float(cells[3]) > float(cells[2])) is case.caught
        intact, kept = map(float, cells[4].split(" of "))
        assert intact <= kept
        assert float(cells[5]) < 60
