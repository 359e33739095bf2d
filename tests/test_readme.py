"""README's figures are those that the library computes, and its pictures those that the commands draw."""

import importlib.util
import re
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


@pytest.mark.parametrize("found", list(readme.BLOCK.finditer(TEXT)), ids=lambda found: found["name"])
def test_block_is_current(found):
    assert readme.filled(found[0]) == found[0], "run `make readme`"


def test_blocks_are_closed():
    """An unclosed block would never be checked."""
    assert len(re.findall("<!-- (?:begin|end) ", TEXT)) == 2 * len(readme.BLOCK.findall(TEXT))


def test_filling(monkeypatch, tmp_path):
    figures = tmp_path / "accepted.json"
    figures.write_text('{"times": {"results": [{"workload": "all pass", "contender": "ours", "ms": 1.44}]}}', "utf-8")
    monkeypatch.setattr(readme, "ACCEPTED", figures)
    monkeypatch.setitem(readme.TABLES, "two", lambda: "| a |\n| --- |")
    place = "bench: times / results / all pass ours / ms | .1f"
    text = f"takes <!-- begin {place} -->?<!-- end bench --> ms.\n<!-- begin two -->\nold\n<!-- end two -->\n"
    once = readme.filled(text)
    block = "<!-- begin two -->\n\n| a |\n| --- |\n\n<!-- end two -->"
    assert once == f"takes <!-- begin {place} -->1.4<!-- end bench --> ms.\n{block}\n"
    assert readme.filled(once) == once


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
        readme.filled(text)


def test_plan_price_is_that_of_the_plan_shown():
    import accountant as ac

    plan = 18_000 * ac.PoissonSubsampled(ac.NoisyScreening(85, 210, 300), 0.2)
    plan += 3877 * ac.PoissonSubsampled(ac.GNMax(20), 0.2)
    assert readme.plan_price().strip() == str(ac.epsilon(plan, 1e-5))


# --- pictures ------------------------------------------------------------------------------------------

PICTURES = ROOT / "notebooks" / "pictures"


NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


def numbers(text):
    return [float(number) for number in re.findall(NUMBER, text)]


def shown(path):
    """What a picture says, the version of matplotlib that drew it, and its lines."""
    text = path.read_text("utf-8")
    drawn = [element.get("d", "") for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}path")]
    return " / ".join(re.findall(r"<!-- (.*?) -->", text)), re.findall(r"Matplotlib v[\d.]+", text), drawn


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
    assert sorted(pictures.PLOTS) == sorted(path.stem for path in PICTURES.glob("*.svg"))
    for path in PICTURES.glob("*.svg"):
        assert path.stat().st_size < 150_000
