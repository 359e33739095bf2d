"""The reference names everything public, and the pages name only what exists."""

import argparse
import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "notebooks"


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


# --- pages ---------------------------------------------------------------------------------------------


def test_contents_hold_every_page():
    listed = set(re.findall(r"^(\w+(?:/\w+)?)$", (PAGES / "index.md").read_text("utf-8"), re.MULTILINE))
    pages = [path for ending in ("md", "py", "rst") for path in PAGES.rglob(f"*.{ending}")]
    written = {path.relative_to(PAGES).with_suffix("").as_posix() for path in pages}
    assert listed == written - {"conf", "index", "README"}


def anchors(path):
    """What a page's headings are called in links."""
    headings = re.findall(r"^(?:# )?#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    (path.relative_to(ROOT).as_posix(), target)
    for path in [ROOT / "README.md", *PAGES.rglob("*.md"), *PAGES.rglob("*.py")]
    for target in re.findall(r"\]\((?!http)([^)\s]+)\)", path.read_text("utf-8"))
]


@pytest.mark.each_run(169)
@pytest.mark.parametrize(("page", "target"), LINKS)
def test_link_leads_somewhere(page, target):
    name, _, anchor = target.partition("#")
    found = (ROOT / page).parent / name if name else ROOT / page
    assert found.exists()
    assert not anchor or anchor in anchors(found)


WRITTEN = [path for path in sorted(PAGES.rglob("*.md")) if path.stem != "changelog"]  # which includes another file


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_page_begins_with_words(path):
    """Not with code: a heading, then a sentence, then the rest."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text("utf-8"), flags=re.DOTALL).strip()
    assert text.startswith("# ")
    after = text.partition("\n")[2].strip()
    assert not after.startswith("```")


# --- the reference of commands -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("documentation_conf", PAGES / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("package", ["accountant", "mechanisms"])
def test_reference_of_commands_is_complete(conf, package):
    """Every command has a section that explains each of its options."""
    if package == "mechanisms":
        pytest.importorskip("sklearn")
    every = list(conf.all_commands(import_module(f"{package}.cli").make_parser()))
    assert len({parser.prog for parser in every}) == len(every) > 5
    for parser in every:
        text = conf.section_of(parser)
        assert parser.description
        assert parser.prog in text
        for action in conf.arguments(parser):
            assert action.help, f"{parser.prog} {action.dest}: no help"
            assert conf.written(action) in text
            for name in action.option_strings:
                assert name in text


def test_reference_of_commands_names_required_options_and_choices(conf):
    parser = argparse.ArgumentParser(prog="tool", description="What it does.")
    parser.add_argument("plan", metavar="PLAN", help="a file")
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="where to write")
    parser.add_argument("--kind", choices=("a", "b"), help="what to draw")
    text = conf.section_of(parser)
    assert "tool PLAN -o, --out FILE [OPTIONS]" in text
    assert "Where to write. Required." in text
    assert "What to draw. Accepted: `a`, `b`." in text


def test_dollars_in_words_of_commands_begin_no_formula(conf):
    parser = argparse.ArgumentParser(prog="tool", description='Put "$(tool a)" or "$(tool b)" there.')
    parser.add_argument("--price", help="in $")
    text = conf.section_of(parser)
    assert text.count(r"\$") == text.count("$") == 3
