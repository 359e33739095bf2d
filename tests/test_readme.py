"""README and the pages show what the library computes and what was measured; README is short and its code runs."""

import contextlib
import importlib.util
import io
import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def script(name):
    """A benchmark's script as a module; other distributions install a package `benchmarks` of their own."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


readme, pictures = script("readme"), script("pictures")
TEXT = readme.README.read_text("utf-8")
BLOCKS = [
    (path.relative_to(ROOT), found) for path in readme.pages() for found in readme.BLOCK.finditer(path.read_text())
]


@pytest.mark.each_run(85)
@pytest.mark.parametrize(("page", "found"), BLOCKS, ids=[f"{page.stem}: {found['name']}" for page, found in BLOCKS])
def test_block_is_current(page, found):
    assert readme.fill(found[0]) == found[0], "run `make readme`"


@pytest.mark.parametrize("page", readme.pages(), ids=lambda page: page.stem)
def test_blocks_are_closed(page):
    """An unclosed block would never be checked."""
    text = page.read_text("utf-8")
    assert len(re.findall("<!-- (?:begin|end) ", text)) == 2 * len(readme.BLOCK.findall(text))


def test_every_table_stands_on_some_page():
    written = {found["name"] for _, found in BLOCKS}
    assert set(readme.TABLES) <= written


def test_readme_is_short_and_begins_with_what_a_newcomer_needs():
    lines = TEXT.splitlines()
    assert len(lines) <= 150
    first = "\n".join(lines[:30])
    assert "pip install" in first
    assert first.index("pip install") < first.index("make demo") < first.index("make test")


def commands(text):
    """Calls of the two commands in the shell blocks of a page, comments and continuations resolved."""
    for block in re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(re.split(r" [<>|] ", line)[0], comments=True)
            if words[:1] in (["accountant"], ["mechanisms"]):
                yield words


PAGES = [readme.README, *sorted((ROOT / "notebooks").rglob("*.md"))]
UNKNOWN_CLASSES = (".npz", ".csv", ".parquet")
"""Formats of private records that do not fix the number of classes."""
CALLS = [(path.stem, words) for path in PAGES for words in commands(path.read_text("utf-8"))]


@pytest.mark.parametrize(("page", "words"), CALLS, ids=[f"{page}: {' '.join(words)}" for page, words in CALLS])
def test_command_is_accepted(page, words):
    """The parsers know every command and option that a page shows."""
    if words[0] == "mechanisms":
        pytest.importorskip("sklearn")
    parser = importlib.import_module(f"{words[0]}.cli").make_parser()
    options = parser.parse_args(words[1:])
    if Path(getattr(options, "private", None) or "").suffix in UNKNOWN_CLASSES and hasattr(options, "classes"):
        assert options.classes or options.learn_classes, "the format does not fix the number of classes"


def test_tutorial_and_its_command_cut_the_data_alike():
    text = (ROOT / "notebooks/tutorials/private_knn.md").read_text("utf-8")
    (cut,) = re.findall(r"private_public_test_split\(digits\(\), \((.*?)\)", text)
    (words,) = [words for page, words in CALLS if page == "private_knn" and "--split" in words]
    assert words[words.index("--split") + 1] == cut.replace(" ", "")


def test_shown_commands_are_found():
    assert {words[1] for page, words in CALLS if page == "README"} >= {"epsilon", "calibrate", "report", "label"}


def test_readme_code_runs():
    """Each of its Python blocks on its own; they print, and the first one the guarantee shown above it."""
    pytest.importorskip("sklearn")
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    said = []
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block, "README.md", "exec"), {})
        said.append(out.getvalue())
    assert len(said) == 2
    assert said[0].startswith(readme.plan_price().strip())
    assert "(2, 0.0001)-DP" in said[1]


def test_filling(monkeypatch, tmp_path):
    figures = tmp_path / "accepted.json"
    figures.write_text('{"times": {"results": [{"workload": "all pass", "contender": "ours", "ms": 1.44}]}}', "utf-8")
    monkeypatch.setattr(readme, "ACCEPTED", figures)
    monkeypatch.setitem(readme.TABLES, "two", lambda: "| a |\n| --- |")
    place = "bench: times / results / all pass ours / ms | .1f"
    text = f"takes <!-- begin {place} -->?<!-- end bench --> ms.\n<!-- begin two -->\nold\n<!-- end two -->\n"
    once = readme.fill(text)
    block = "<!-- begin two -->\n\n| a |\n| --- |\n\n<!-- end two -->"
    assert once == f"takes <!-- begin {place} -->1.4<!-- end bench --> ms.\n{block}\n"
    assert readme.fill(once) == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin nothing --><!-- end nothing -->", "accepted: plan-price"),
        ("<!-- begin plan-price --><!-- end tight-table -->", "is ended by"),
        ("<!-- begin plan-price -->", "without the other"),
        ("<!-- begin bench: no / such | .1f --><!-- end bench -->", "no accepted figure at 'no / such'"),
        ("<!-- begin bench: no / such --><!-- end bench -->", "PATH | FORMAT"),
    ],
)
def test_a_wrong_marker_is_named(text, message):
    with pytest.raises(readme.Unknown, match=re.escape(message)):
        readme.fill(text)


# --- pictures ------------------------------------------------------------------------------------------

PICTURES = ROOT / "notebooks" / "pictures"


NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


def numbers(text):
    return [float(number) for number in re.findall(NUMBER, text)]


def shown(path):
    """What a picture says, the version of matplotlib that drew it, and its lines."""
    text = path.read_text("utf-8")
    root, space = ElementTree.fromstring(text), "{http://www.w3.org/2000/svg}"
    drawn = [element.get("d", "") for element in root.iter(f"{space}path")]
    said = ["".join(element.itertext()).strip() for element in root.iter(f"{space}text")]
    assert said
    return " / ".join(said), re.findall(r"Matplotlib v[\d.]+", text), drawn


@pytest.mark.each_run(1)
@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_picture_is_current(path, tmp_path):
    pytest.importorskip("matplotlib")
    words, version, lines = shown(path)
    words_now, version_now, lines_now = shown(pictures.draw(path.stem, tmp_path))
    assert re.sub(NUMBER, "#", words_now) == re.sub(NUMBER, "#", words), "run `make pictures` and look at them"
    assert numbers(words_now) == pytest.approx(numbers(words), rel=1e-3), "run `make pictures` and look at them"
    if version_now == version:  # another one draws other lines
        for now, before in zip(lines_now, lines, strict=True):
            assert numbers(now) == pytest.approx(numbers(before), abs=0.5), "run `make pictures` and look at them"


def test_every_picture_is_there():
    assert sorted({**pictures.PLOTS, **pictures.DRAWN}) == sorted(path.stem for path in PICTURES.glob("*.svg"))
    for path in PICTURES.glob("*.svg"):
        assert path.stat().st_size < 150_000
