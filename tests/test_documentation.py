"""The reference names everything public, and the pages name only what exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGES = Path(__file__).parent.parent / "notebooks"


def named(page):
    """What a page of the reference documents, as (kind, dotted name)."""
    module, found = "", []
    for kind, name in re.findall(r"^\.\. (\w+):: (\S+)$", (PAGES / page).read_text("utf-8"), re.MULTILINE):
        if kind in ("currentmodule", "automodule"):
            module = name
        if kind != "currentmodule":
            found.append((kind, name if kind == "automodule" else f"{module}.{name}"))
    return found


@pytest.mark.parametrize("package", ["accountant", "mechanisms"])
def test_reference_is_complete(package):
    if package == "mechanisms":
        pytest.importorskip("sklearn")
    names = [name for _, name in named(f"reference/{package}.rst")]
    assert len(names) == len(set(names)), "named twice"
    public = {f"{package}.{name}" for name in import_module(package).__all__}
    assert public - set(names) == set()


@pytest.mark.parametrize(
    ("kind", "name"), [pair for page in ("accountant", "mechanisms") for pair in named(f"reference/{page}.rst")]
)
def test_what_the_reference_names_is_documented(kind, name):
    if name.startswith("mechanisms"):
        pytest.importorskip("sklearn")
    if kind == "automodule":
        thing = import_module(name)
        assert thing.__all__
    else:
        module, _, last = name.rpartition(".")
        thing = getattr(import_module(module), last)
    if kind != "autodata":  # aliases of types
        assert thing.__doc__


def test_contents_hold_every_page():
    listed = set(re.findall(r"^(\w+(?:/\w+)?)$", (PAGES / "index.md").read_text("utf-8"), re.MULTILINE))
    pages = [path for ending in ("md", "py", "rst") for path in PAGES.rglob(f"*.{ending}")]
    written = {path.relative_to(PAGES).with_suffix("").as_posix() for path in pages}
    assert listed == written - {"conf", "index", "README"}


def test_links_between_pages_lead_somewhere():
    for path in [*PAGES.rglob("*.md"), *PAGES.rglob("*.py")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
