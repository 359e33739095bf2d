"""The house keeps its walls: import direction, lightness, small files, nothing that does not belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import accountant as ac

ROOT = Path(__file__).parent.parent
PACKAGES = ("accountant", "mechanisms")
SOURCES = [(package, path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

FLOORS = {
    "accountant": [
        {"numerics", "errors", "adjacency", "files", "plans"},
        {"events", "guarantee"},
        {"renyi", "tight", "calibration"},
        {"price"},
        {"sweep", "filters", "shuffling", "plan", "summary", "testing", "terminal"},
        {"plots"},
        {"report"},
        {"cli", "__main__"},
    ],
    "mechanisms": [
        {"arrays", "estimator", "exclusive", "validation"},
        {"audit", "datasets", "features", "labelling_plan", "noise", "students"},
        {"local_reports", "neighbours", "voting"},
        {"budgets", "queries"},
        {"federation", "labelling"},
        {"private_knn", "individual_knn", "reverse_knn", "pate", "noisy_sgd"},
        {"rounds"},
        {"experiment"},
        {"cli", "__main__"},
        {"flower"},
    ],
}
"""Rooms, files and folders, from left to right: one imports from its own floor or from those before it."""


def floor(package: str, room: str) -> int:
    (index,) = [i for i, names in enumerate(FLOORS[package]) if room in names]
    return index


def imported_modules(package: str, path: Path) -> set[str]:
    """Modules of the package that a file imports to run, anywhere in it, without the package's name."""
    modules = set()
    tree = ast.parse(path.read_text())
    tree.body = [
        each for each in tree.body if not (isinstance(each, ast.If) and "TYPE_CHECKING" in ast.dump(each.test))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            _, *parts = node.module.split(".")
            modules |= {".".join(parts)} if parts else {alias.name for alias in node.names}
    return modules - {"__version__"}


def name_of(source: tuple[str, Path]) -> str:
    return str(source[1].relative_to(ROOT))


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_imports_go_left_to_right(source):
    package, path = source
    room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    for imported in imported_modules(package, path):
        assert floor(package, imported.split(".")[0]) <= floor(package, room), f"{path.name} imports {imported}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_but_event_and_composition(package):
    """An event is multiplied into a composition, which is made of events."""
    graph = {}
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        graph[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = imported_modules(package, path)
    if package == "accountant":
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
    for path in (ROOT / "accountant").rglob("*.py"):
        assert "import mechanisms" not in path.read_text()
        assert "from mechanisms" not in path.read_text()


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_files_and_functions_stay_small(source):
    """At most 400 lines a file; at most 50 a function, beside its docstring, unless it is compiled."""
    text = source[1].read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and not any("Kernel" in ast.dump(each) for each in node.decorator_list):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            assert not body or body[-1].end_lineno - body[0].lineno < 50, node.name


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
