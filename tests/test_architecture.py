"""The house keeps its walls: import direction, lightness, small files, nothing that does not belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import accountant as ac

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "accountant").rglob("*.py"))

FLOORS = [
    {"numerics", "errors", "adjacency"},
    {"events", "guarantee"},
    {"renyi", "tight", "calibration"},
    {"price"},
    {"sweep", "filters", "shuffling", "plan", "summary", "testing", "terminal"},
    {"plots"},
    {"report"},
    {"cli", "__main__"},
]
"""Rooms of `accountant`, files and folders, from left to right: one imports from its own floor or those before."""


def floor(room: str) -> int:
    (index,) = [i for i, names in enumerate(FLOORS) if room in names]
    return index


def imported_modules(path: Path) -> set[str]:
    """Modules of `accountant` that a file imports to run, anywhere in it, without the package's name."""
    modules = set()
    tree = ast.parse(path.read_text())
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "accountant":
            _, *parts = node.module.split(".")
            modules |= {".".join(parts)} if parts else {alias.name for alias in node.names}
    return modules - {"__version__"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_left_to_right(path):
    room = path.relative_to(ROOT / "accountant").parts[0].removesuffix(".py")
    if room in ("__init__", "plans"):
        return
    for imported in imported_modules(path):
        assert floor(imported.split(".")[0]) <= floor(room), f"{path.name} imports {imported}"


def test_no_circle_but_event_and_composition():
    """An event is multiplied into a composition, which is made of events."""
    graph = {}
    for path in SOURCES:
        parts = path.relative_to(ROOT / "accountant").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = imported_modules(path)
    graph["events.event"].discard("events.composition")
    done: set[str] = set()
    while left := set(graph) - done:
        free = {name for name in left if not (graph[name] - {name}) & left}
        assert free, f"a circle among {sorted(left)}"
        done |= free


def test_mechanisms_import_only_public_names():
    for path in (ROOT / "mechanisms").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith("accountant."), f"{path}: {node.module}"


def test_accountant_never_imports_mechanisms():
    for path in SOURCES:
        assert "import mechanisms" not in path.read_text()
        assert "from mechanisms" not in path.read_text()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            assert not body or body[-1].end_lineno - body[0].lineno <= 60, node.name


def test_public_names_are_documented():
    for name in set(ac.__all__) - {"Conversion", "FilterConversion"}:  # type aliases
        assert getattr(ac, name).__doc__, name


def test_import_is_light():
    """What costs time to import is loaded only when used."""
    heavy = ["numba", "scipy.optimize", "scipy.stats", "scipy.integrate", "hypothesis", "rich", "mpmath", "matplotlib"]
    code = f"import sys, accountant; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_gaussian_prices_without_compiling_anything():
    code = "import sys, accountant as ac; ac.Gaussian(2.0).renyi([2, 3]); print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "False"
