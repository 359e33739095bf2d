"""The page of the papers' tables and figures: it lists every item, and its prices are those of this version."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from mechanisms.papers import Request, list_items, load_item, reproduce
from mechanisms.papers.writing import list_lines

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "notebooks" / "papers" / "reproduced.md").read_text("utf-8")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("reproduced", ROOT / "benchmarks" / "reproduced.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_every_item(script):
    assert script.list_of_items() in PAGE


def test_the_page_holds_every_printed_number():
    """Of rows that are run small; figures' points that print nothing are left out."""
    for item in list_items():
        for row in item.choose_rows(small=True):
            for quantity, printed in row.printed.items():
                assert f"| {row.name} | {quantity.replace('_', ' ')} | {printed} |" in PAGE, f"{item.paper} {item.name}"


@pytest.mark.parametrize(
    ("paper", "name"), [("private-knn", "figure-9"), ("ind-knn", "table-5"), ("ind-knn", "table-6")]
)
def test_prices_are_those_of_this_version(paper, name):
    for line in list_lines(reproduce(load_item(paper, name), Request())):
        if line.printed and line.ours is not None:
            assert f"| {' | '.join(line.cells)} |" in PAGE


def test_nothing_is_left_unexplained():
    assert "not explained" not in PAGE
