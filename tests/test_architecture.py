"""The house keeps its walls: import direction, lightness, small files, nothing that does not belong."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import accountant as ac

ROOT = Path(__file__).parent.parent
PACKAGES = ("accountant", "mechanisms")
SOURCES = [(package, path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

FLOORS = {
    "accountant": [
        "numerics plans",
        "events",
        "renyi tight",
        "samplers",
        "*",
        "filters interop plots testing",
        "report",
        "cli",
    ],
    "mechanisms": [
        "audit datasets neighbours noise students",
        "local_reports shards",
        "budgets",
        "federation",
        "*",
        "experiment forecast",
        "papers",
        "cli",
        "flower",
    ],
}
"""Folders from the lowest floor up: a file imports from its own floor or from those below.

The star is the floor of files that stand in no folder. A folder below it may import such a file only if all that this
file imports stands no higher than the folder.
"""


def floor(package: str, folder: str) -> int:
    (index,) = [i for i, names in enumerate(FLOORS[package]) if folder in names.split()]
    return index


def folder_of(package: str, module: str) -> str:
    """Folder in which a module stands, or a star."""
    first = module.split(".")[0]
    return first if (ROOT / package / first).is_dir() else "*"


@cache
def height(package: str, module: str) -> int:
    """Floor of a module in a folder; of another, the highest floor of what it imports, directly or not."""
    if (folder := folder_of(package, module)) != "*":
        return floor(package, folder)
    imported = imported_modules(package, ROOT / package / f"{module}.py")
    return max((height(package, each) for each in imported), default=0)


@cache
def imported_modules(package: str, path: Path) -> set[str]:
    """Modules of the package that a file imports to run, anywhere in it, without the package's name."""
    modules = set()
    body = [
        each for each in tree_of(path).body if not (isinstance(each, ast.If) and "TYPE_CHECKING" in ast.dump(each.test))
    ]
    for node in (node for each in body for node in ast.walk(each)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            _, *parts = node.module.split(".")
            modules |= {".".join(parts)} if parts else {alias.name for alias in node.names}
    return modules - {"__version__"}


@cache
def tree_of(path: Path) -> ast.Module:
    """A file as it is parsed; not to be changed."""
    return ast.parse(path.read_text())


def of_package(package: str) -> list[Path]:
    return [path for each, path in SOURCES if each == package]


def name_of(source: tuple[str, Path]) -> str:
    return str(source[1].relative_to(ROOT))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_down(package):
    for path in of_package(package):
        module = path.relative_to(ROOT / package).with_suffix("").parts
        if module in (("__init__",), ("__main__",)):
            continue
        own = floor(package, folder_of(package, module[0]))
        for imported in imported_modules(package, path):
            assert height(package, imported) <= own, f"{path} imports {imported}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_has_a_floor(package):
    folders = {path.parent.relative_to(ROOT / package).parts[0] for path in (ROOT / package).glob("*/__init__.py")}
    assert sorted(folders | {"*"}) == sorted(" ".join(FLOORS[package]).split())


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_but_event_and_composition(package):
    """An event is multiplied into a composition, which is made of events."""
    graph = {}
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        graph[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = imported_modules(package, path)
    if package == "accountant":
        graph["events.event"] = graph["events.event"] - {"events.composition"}
    done: set[str] = set()
    while left := set(graph) - done:
        free = {name for name in left if not (graph[name] - {name}) & left}
        assert free, f"a circle among {sorted(left)}"
        done |= free


def test_mechanisms_import_only_public_names():
    for path in of_package("mechanisms"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith("accountant."), f"{path}: {node.module}"


def test_one_file_opens_sqlite():
    found = [
        name_of(source) for source in SOURCES if re.search("^ *(import|from) sqlite3", source[1].read_text(), re.M)
    ]
    assert found == ["accountant/database.py"]


def test_accountant_never_imports_mechanisms():
    for path in (ROOT / "accountant").rglob("*.py"):
        assert "import mechanisms" not in path.read_text()
        assert "from mechanisms" not in path.read_text()


@pytest.mark.each_run(1)
@pytest.mark.parametrize("package", PACKAGES)
def test_files_and_functions_stay_small(package):
    """At most 400 lines a file; at most 50 a function, beside its docstring, unless it is compiled."""
    for path in of_package(package):
        assert len(path.read_text().splitlines()) <= 400, path
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and not is_kernel(node):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                assert not body or body[-1].end_lineno - body[0].lineno < 50, f"{path}: {node.name}"


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("Kernel" in ast.dump(each) for each in node.decorator_list)


def functions(path: Path) -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of a file, with the module-level name that it is, or that it stands in, and with its own."""
    for top in tree_of(path).body:
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield getattr(top, "name", ""), node.name, node


PUBLIC = ("accountant", "accountant.plots", "accountant.testing", "mechanisms", "mechanisms.students.convolutional")
"""What a user imports; its functions and constructors may have many keywords."""


@pytest.mark.each_run(1)
@pytest.mark.parametrize("package", PACKAGES)
def test_functions_have_at_most_six_arguments(package):
    """Besides self, and except compiled kernels and what is public."""
    if package == "mechanisms":
        pytest.importorskip("sklearn")
    public = {name for module in PUBLIC for name in importlib.import_module(module).__all__}
    for path in of_package(package):
        for top, name, node in functions(path):
            if top in public or is_kernel(node):
                continue
            given = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            assert len(set(given) - {"self", "cls"}) <= 6, f"{path}: {top}.{name}"


PARTICIPLE = re.compile(r"_*([a-z]+[^e]ed|drawn|known|shown|written|taken|given|made|held|kept)")


@pytest.mark.each_run(1)
@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_verbs(package):
    """No module-level function has a participle for a name, such as `drawn` for what draws."""
    for path in of_package(package):
        for top, name, _ in functions(path):
            if top == name:
                assert not PARTICIPLE.fullmatch(name), f"{path}: {name}"


def test_public_names_are_documented():
    for name in set(ac.__all__) - {"Conversion", "FilterConversion"}:  # type aliases
        assert getattr(ac, name).__doc__, name


def test_import_is_light():
    """What costs time to import is loaded only when used."""
    heavy = ["numba", "scipy.optimize", "scipy.stats", "scipy.integrate", "hypothesis", "rich", "mpmath", "matplotlib"]
    heavy += ["sqlite3", "scipy.special"]
    code = f"import sys, accountant; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_gaussian_prices_without_compiling_anything():
    code = "import sys, accountant as ac; ac.Gaussian(2.0).renyi([2, 3]); print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "False"
