"""CONTRIBUTING.md: its examples run as they stand, and the files and commands that it names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"^## Add an? (\w+)\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


def test_there_is_an_example_of_each():
    assert set(EXAMPLES) == {"event", "law", "mechanism", "benchmark"}


@pytest.fixture
def registry():
    """Forget the event of the example after the test."""
    from accountant.events import registry

    before = set(registry.event_kinds())
    yield
    for name in set(registry.event_kinds()) - before:
        registry.forget(name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, registry):
    pytest.importorskip("sklearn")
    exec(compile(EXAMPLES[name], f"CONTRIBUTING.md, {name}", "exec"), {"__name__": f"contributing_{name}"})


def test_the_example_of_an_event_works_in_a_plan(registry):
    from accountant.plan import Plan

    namespace = {"__name__": "contributing_plan"}
    exec(EXAMPLES["event"], namespace)
    tables = {"delta": 1e-5, "release": [{"event": "twice-concentrated", "rho": 0.05, "count": 10, "name": "own"}]}
    assert Plan.from_tables("own", tables).composition == 10 * namespace["TwiceConcentrated"](0.05)


def test_files_that_are_named_exist():
    named = re.findall(r"`((?:accountant|mechanisms|tests|benchmarks|notebooks|\.ci)/[\w./]+)`", PAGE)
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), path


def test_commands_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"`make ([\w-]+)`", PAGE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
