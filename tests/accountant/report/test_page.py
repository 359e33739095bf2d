"""Reports: pages that are complete in themselves, say what the library says, and price other values in a browser."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

import accountant as ac
from accountant.cli import main
from accountant.guarantee import format_down, format_up
from accountant.plan import EVENTS, Plan, builtin_plans, load_plan
from accountant.plots.findings import price_in_words
from accountant.plots.style import LINES, STYLE, darken
from accountant.renyi.conversion import CONVERSIONS
from accountant.report import tables
from accountant.report.figures import _color_variables
from accountant.report.html import report, write_page
from accountant.report.sources import REFERENCES, describe, references, sources
from accountant.summary import assumptions, shares

SECRET = "figure5-data-dependent-screening"
NASTY = "<script>alert(1)</script>"
PLAN = f"""
description = "</script><script>alert('x')</script> & \\"quotes\\" <b>bold</b> Ünïcödé 漢字 $alpha ${{delta}}"
delta = 1e-5

[[release]]
name = "{NASTY}"
event = "noisy-screening"
sigma = 20
threshold = 50
max_votes = 80
sampling_rate = 0.1
count = 30

[[release]]
name = "'quoted' & $x$ 日本"
event = "gnmax"
sigma = 10
sampling_rate = 0.1
count = 20
"""
TABLE = """
delta = 1e-5
[[release]]
name = "counts"
event = "discrete-laplace"
scale = 20
count = 30
"""


class Elements(HTMLParser):
    """All start tags with their attributes, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.get_starttag_text().startswith("<script"):
            self.scripts.append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def written(text: str, folder: Path, *options: str, name: str = "plan.toml") -> Path:
    """The page of a plan, by the command."""
    source, target = folder / name, folder / "report.html"
    source.write_text(text, "utf-8")
    assert main(["report", str(source), "-o", str(target), "--tolerance", "0.1", *options]) == 0
    return target


@pytest.fixture(scope="module", autouse=True)
def _small_tables():
    """Sliders of tables stop less often than by default, and at the same ends; what was priced is not priced again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "NOISE_STOPS", 9)
        patch.setattr(tables, "RATE_STOPS", 5)
        patch.setattr(ac, "epsilon", cache(ac.epsilon))
        yield


@pytest.fixture(scope="module")
def nasty(tmp_path_factory) -> Path:
    return written(PLAN, tmp_path_factory.mktemp("nasty"))


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return written(TABLE, tmp_path_factory.mktemp("table"), "--method", "tight")


@pytest.fixture
def plan(nasty) -> Plan:
    return load_plan(nasty.parent / "plan.toml")


# --- what the page says ----------------------------------------------------------------------------------


def test_says_what_the_library_says(nasty, plan):
    text = Elements(nasty.read_text("utf-8")).text
    price = ac.epsilon(plan.composition, plan.delta, tolerance=0.1)
    assert f"{price}." in text
    for line in assumptions(plan):
        assert line in text
    for rule in CONVERSIONS:
        assert format_up(ac.epsilon(plan.composition, plan.delta, conversion=rule).epsilon) in text
    tight = ac.epsilon(plan.composition, plan.delta, method="tight", tolerance=0.1)
    assert f"{format_down(tight.lower)} to {format_up(tight.epsilon)}" in text
    for release, share in zip(plan.releases, shares(plan, price), strict=True):
        assert release.name in text
        assert f"{share:.1%}" in text
    assert plan.description in text


@pytest.mark.audit
def test_the_first_screen_says_it_in_words_and_what_an_attacker_can_do(nasty, plan):
    text = Elements(nasty.read_text("utf-8")).text
    price = ac.epsilon(plan.composition, plan.delta, tolerance=0.1)
    assert f"at most {format_up(math.exp(price.epsilon), 4)} times as likely" in text
    tight = ac.epsilon(plan.composition, plan.delta, method="tight", tolerance=0.1)
    assert f"epsilon is {price_in_words(tight)}" in text
    rate = ac.true_positive_rate(plan.composition, 0.01, tolerance=0.1).upper
    shown = re.search(r"([\d.]+) % at 1 % false alarms", text)
    assert float(rate) <= float(shown[1]) / 100 <= float(rate) + 0.0011


def test_numbers_of_plots_are_those_of_the_page(nasty, plan):
    labels = [each["aria-label"] for tag, each in Elements(nasty.read_text("utf-8")).tags if tag == "svg"]
    bound = format_up(ac.epsilon(plan.composition, plan.delta, method="renyi").epsilon)
    tight = price_in_words(ac.epsilon(plan.composition, plan.delta, method="tight", tolerance=0.1))
    assert f"epsilon = {bound} " in labels[0]
    assert f"gives epsilon {bound} at" in labels[1]
    assert labels[2].startswith(f"Certified: epsilon {tight}; Rényi bound: {bound}.")


def test_tight_price_at_the_top(table):
    price = ac.epsilon(load_plan(table.parent / "plan.toml").composition, 1e-5, method="tight", tolerance=0.1)
    assert f"<strong>{format_up(price.epsilon)}</strong>" in table.read_text("utf-8")


def test_other_delta_and_conversion(tmp_path):
    one = 'delta = 1e-5\n[[release]]\nevent = "gaussian"\nsigma = 3\n'
    page = written(one, tmp_path, "--delta", "1e-7", "--conversion", "classic").read_text("utf-8")
    price = ac.epsilon(ac.Gaussian(3), 1e-7, conversion="classic")
    assert f"<strong>{format_up(price.epsilon)}</strong>" in page
    assert "at δ&#8239;=&#8239;1e-07" in page
    assert "from a plan of 1 release." in page


def test_nothing_is_released(tmp_path):
    page = written('delta = 0\n[[release]]\nevent = "gaussian"\nsigma = 3\ncount = 0\n', tmp_path).read_text("utf-8")
    assert "<strong>0</strong>" in page
    assert "<figure>" not in page


def test_pure_plan_at_delta_0(tmp_path):
    found = Elements(written('delta = 0\n[[release]]\nevent = "pure-dp"\nepsilon = 0.5\n', tmp_path).read_text("utf-8"))
    assert "(0.5, 0)-DP under add-remove adjacency" in found.text
    assert len([tag for tag, _ in found.tags if tag == "svg"]) == 3


def test_what_cannot_be_drawn_is_said(tmp_path):
    many = 'delta = 1e-5\n[[release]]\nevent = "gaussian"\nsigma = 1e9\ncount = 2000000000000000\n'
    text = Elements(written(many, tmp_path).read_text("utf-8")).text
    assert "Not drawn: releases = 2000000000000000 is out of range" in text


def test_plots_have_words_for_those_who_do_not_see_them(nasty, plan):
    page = Elements(nasty.read_text("utf-8"))
    plots = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(plots) == 5
    titles = [
        plan.releases[1].name,
        "The Rényi curve",
        "Certified: epsilon",
        "Noisy screening costs most",
        "At 5% false alarms",
    ]
    for attributes, title in zip(plots, titles, strict=True):
        assert attributes["role"] == "img"
        assert attributes["aria-label"].startswith(title)
        assert "add-remove adjacency" in attributes["aria-label"]


def test_ids_are_unique_and_references_resolve(nasty):
    tags = Elements(nasty.read_text("utf-8")).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = [attributes[key] for _, attributes in tags for key in ("aria-labelledby", "for") if key in attributes]
    used += re.findall(r"(?:url\(|href=\")#([^)\"]+)", nasty.read_text("utf-8"))
    assert len(used) > 20
    assert set(used) <= set(ids)


def test_colours_of_plots_are_the_pages():
    names = _color_variables()
    style = (Path(ac.__file__).parent / "report" / "page" / "report.css").read_text("utf-8")
    for color, _, _ in LINES:
        assert color.lower() in names
    assert len({tuple(darken(color)) for color, _, _ in LINES}) == len(LINES)
    for variable in {value for value in names.values() if value.startswith("var")}:
        # once for light, once for dark; lines for paper, too
        assert style.count(variable[4:-1] + ":") >= 2
    assert STYLE["grid.color"] in names


@pytest.mark.parametrize("name", [name for name in builtin_plans() if name != SECRET])
def test_sources_cite_works_that_are_listed(name):
    plan = load_plan(name)
    told = sources(plan, ac.epsilon(ac.Gaussian(1), 1e-5, method="tight"))
    assert ".md" not in told
    assert "Mironov 2017" in told
    assert references(told).count("<li>") >= 3
    for release in plan.releases:
        assert release.name in told


@pytest.mark.parametrize("name", [name for name in EVENTS if "data-dependent" not in name] + ["sampled"])
def test_events_cite_works_that_are_listed(name):
    told = describe(EVENTS.get(name, ac.PoissonSubsampled))
    assert ".md" not in told
    assert "``" not in told
    for short in REFERENCES:
        told = told.replace(short.replace("&", "&amp;"), "")
    assert not re.findall(r"[A-Z][a-z]+ (?:19|20)\d\d", told)


# --- safety ----------------------------------------------------------------------------------------------


def test_text_of_the_plan_stays_text(nasty, plan):
    page = nasty.read_text("utf-8")
    found = Elements(page)
    scripts = [attributes for tag, attributes in found.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "plan"}, {}]
    assert not [tag for tag, _ in found.tags if tag == "b"]
    assert NASTY not in page
    data = json.loads(found.scripts[0])
    assert [release["name"] for release in data["releases"]] == [release.name for release in plan.releases]
    assert "</" not in found.scripts[0]


def test_page_asks_for_nothing(nasty, table):
    for path in (nasty, table):
        page = path.read_text("utf-8")
        assert "default-src 'none'" in page
        for _, attributes in Elements(page).tags:
            for key in ("src", "href", "action", "data", "poster", "srcset"):
                value = attributes.get(key, "#")
                assert value.startswith("#") or value == "data:,", (key, value)
        assert not re.findall(r"url\((?!#)|@import|https?:", page)
        assert str(path.parent) not in page


def test_every_build_is_the_same(table):
    plan = load_plan(table.parent / "plan.toml")
    assert report(plan, 1e-5, method="tight", tolerance=0.1) == table.read_text("utf-8")


# --- what is refused -------------------------------------------------------------------------------------


@pytest.fixture
def complaint(capsys):
    """The single line that a command which fails prints."""

    def command(*arguments: str) -> str:
        capsys.readouterr()
        status = main(["report", *arguments])
        captured = capsys.readouterr()
        assert (status, captured.out) == (2, "")
        assert captured.err.count("\n") == 1
        return captured.err

    return command


@pytest.mark.audit
def test_data_dependent_costs_are_not_exported(complaint, tmp_path):
    assert "depends on private data" in complaint(SECRET, "-o", str(tmp_path / "report.html"))
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_priced(complaint, tmp_path, monkeypatch):
    monkeypatch.setattr("accountant.report.html.report", lambda *_, **__: pytest.fail("priced"))
    long = str(tmp_path / f"{'x' * 300}.html")
    assert "File name too long; accepted: a file that can be written" in complaint("dp-sgd", "-o", long)
    assert not list(tmp_path.iterdir())


def test_wrong_outputs(complaint, tmp_path):
    assert "accepted: a file ending in .html" in complaint("dp-sgd", "-o", str(tmp_path / "report.pdf"))
    assert "accepted: a file in an existing directory" in complaint(
        "dp-sgd", "-o", str(tmp_path / "no" / "report.html")
    )
    (tmp_path / "folder.html").mkdir()
    assert "accepted: a file in an existing directory" in complaint("dp-sgd", "-o", str(tmp_path / "folder.html"))


def test_bytes_of_a_file_name_that_are_no_text_are_escaped(tmp_path):
    """They were an error of the encoding, after all prices."""
    source = tmp_path / os.fsdecode(b"caf\xe9.toml")
    try:
        source.write_text('delta = 0\n[[release]]\nevent = "pure-dp"\nepsilon = 1\n')
    except OSError:
        pytest.skip("names of files are text here")
    for others in ([], ["dp-sgd", "--delta", "1e-5", "--tolerance", "0.1"]):
        target = tmp_path / "report.html"
        assert main(["report", str(source), *others, "-o", str(target)]) == 0
        assert "<title>caf\\udce9" in target.read_text("utf-8")
    for command in (["registry", str(source), "-o", str(tmp_path / "record.yaml")], ["epsilon", str(source), "--csv"]):
        assert main(command) == 0


def test_wrong_plans_and_options(complaint, tmp_path):
    target = tmp_path / "report.html"
    assert "no built-in plan of that name" in complaint("nonsense", "-o", str(target))
    assert "delta" in complaint("dp-sgd", "-o", str(target), "--delta", "2")
    assert "delta = 0" in complaint("dp-sgd", "-o", str(target), "--delta", "0")
    assert "conversion" in complaint("dp-sgd", "-o", str(target), "--conversion", "loose")
    assert not target.exists()


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    write_page("first", target)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ac.ParameterError, match="No space left"):
        write_page("second", target)
    assert target.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# --- in a browser ----------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver is installed")


def audit_in_browser(test):
    """Continuous integration installs a browser only when it has time for the audits."""
    return pytest.mark.audit(needs_browser(test))


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield started
    started.quit()


@pytest.fixture
def show(driver):
    """Open a page; afterwards nothing may have been logged and nothing but the page asked for."""
    asked = []

    def opened(path: Path, scheme: str = "light", width: int = 1200):
        asked.append(path.as_uri())
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get("about:blank")
        driver.get_log("performance")
        driver.get(asked[-1])
        return driver

    yield opened
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requested = [
        event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
    ]
    assert requested
    assert set(requested) <= {asked[-1], "data:,"}


def now(page) -> tuple[str, float]:
    """Epsilon as it is shown, and exactly."""
    # a price is shown with the next frame
    page.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
    )
    found = page.find_element("id", "epsilon")
    return found.text, float(found.get_attribute("data-value").replace("Infinity", "inf") or "nan")


def values(page) -> dict[str, float]:
    fields = page.find_elements("css selector", "input[type=number]")
    return {field.get_attribute("id").removesuffix("-number"): float(field.get_attribute("value")) for field in fields}


@audit_in_browser
def test_sliders_move_by_keyboard_and_price_as_the_library(show, nasty, plan):
    from selenium.webdriver.common.keys import Keys

    page = show(nasty)
    price = ac.epsilon(plan.composition, plan.delta, method="renyi")
    assert now(page) == (format_up(price.epsilon), price.epsilon)
    assert "the plan as written" in page.find_element("id", "route").text
    assert not page.find_element("id", "reset").is_enabled()
    start = values(page)
    assert start["release-0-count"] == 30
    assert start["plan-wide-delta"] == 1e-5
    moves = {
        "release-0-count": Keys.ARROW_RIGHT * 7,
        "release-0-sigma": Keys.ARROW_LEFT * 30,
        "release-0-sampling_rate": Keys.ARROW_RIGHT * 25,
        "release-1-count": Keys.END,
        "release-1-sigma": Keys.ARROW_RIGHT * 60,
        "release-1-sampling_rate": Keys.END,
        "plan-wide-delta": Keys.PAGE_DOWN,
    }
    for control, keys in moves.items():
        page.find_element("id", control).send_keys(keys)
        at = values(page)
        assert at[control] != start[control]
        moved = plan
        for name, number in zip((release.name for release in plan.releases), "01", strict=True):
            for key in ("count", "sigma", "sampling_rate"):
                moved = moved.with_value(f"{name}.{key}", at[f"release-{number}-{key}"])
        expected = ac.epsilon(moved.composition, at["plan-wide-delta"], method="renyi")
        text, epsilon = now(page)
        assert expected.epsilon * (1 - 1e-9) <= epsilon <= expected.epsilon * 1.01
        assert float(text) >= epsilon
        assert float(text) == pytest.approx(epsilon, rel=1e-5)
        for rule in CONVERSIONS:
            other = ac.epsilon(moved.composition, at["plan-wide-delta"], conversion=rule)
            shown = float(page.find_element("id", f"live-{rule}").text)
            assert other.epsilon * (1 - 1e-9) <= shown <= other.epsilon * 1.01
    assert "Rényi, improved conversion" in page.find_element("id", "route").text
    assert page.find_element("id", "live-tight").text == "not computed in the page"
    page.find_element("id", "reset").send_keys(Keys.ENTER)
    assert now(page) == (format_up(price.epsilon), price.epsilon)
    assert values(page) == start


@audit_in_browser
def test_numbers_are_typed_and_wrong_ones_refused(show, nasty, plan):
    page = show(nasty)
    field = page.find_element("id", "release-1-sigma-number")
    for text, accepted in (("17.25", True), ("-3", False), ("", False), ("1e60", False), ("1e2", True)):
        field.clear()
        field.send_keys(text)
        shown, epsilon = now(page)
        error = page.find_element("id", "release-1-sigma-error")
        if accepted:
            moved = plan.with_value(f"{plan.releases[1].name}.sigma", float(text))
            expected = ac.epsilon(moved.composition, 1e-5, method="renyi").epsilon
            assert expected * (1 - 1e-9) <= epsilon <= expected * 1.002
            assert not error.is_displayed()
        else:
            assert shown == "\u2013"
            assert math.isnan(epsilon)
            assert "sigma = " in error.text
            assert "accepted: [1e-50, 1e+50]" in error.text
            assert field.get_attribute("aria-invalid") == "true"


@audit_in_browser
def test_numbers_of_a_table_are_those_at_which_its_slider_stops(show, nasty, plan):
    page = show(nasty)
    field = page.find_element("id", "release-0-sigma-number")
    for text, accepted in (("17", False), ("", False), ("2", True), ("200", True)):
        field.clear()
        field.send_keys(text)
        shown, epsilon = now(page)
        if accepted:
            moved = plan.with_value(f"{plan.releases[0].name}.sigma", float(text))
            expected = ac.epsilon(moved.composition, 1e-5, method="renyi").epsilon
            assert expected * (1 - 1e-9) <= epsilon <= expected * 1.01
        else:
            assert shown == "\u2013"
            assert "where the slider stops" in page.find_element("id", "release-0-sigma-error").text


@pytest.mark.audit
@audit_in_browser
def test_a_table_bounds_from_above(show, table):
    from selenium.webdriver.common.keys import Keys

    page = show(table)
    plan = load_plan(table.parent / "plan.toml")
    assert now(page)[1] == ac.epsilon(plan.composition, 1e-5, method="renyi").epsilon
    assert "Its curves come from the library's tables" in page.find_element("id", "controls").text
    page.find_element("id", "release-0-count").send_keys(Keys.ARROW_RIGHT * 20)
    count = values(page)["release-0-count"]
    assert count > 30
    expected = ac.epsilon(plan.with_value("count", count).composition, 1e-5, method="renyi").epsilon
    assert expected * (1 - 1e-9) <= now(page)[1] <= expected * 1.001


@audit_in_browser
def test_everything_is_reached_by_keyboard_and_named(show, nasty):
    from selenium.webdriver.common.keys import Keys

    page = show(nasty)
    inputs = {field.get_attribute("id") for field in page.find_elements("css selector", "form input")}
    assert len(inputs) == 14
    reached = set()
    for _ in range(40):
        page.switch_to.active_element.send_keys(Keys.TAB)
        focus = page.switch_to.active_element
        reached.add(focus.get_attribute("id"))
        if focus.tag_name == "input":
            assert focus.value_of_css_property("outline-style") == "solid"
            assert focus.accessible_name
    assert inputs <= reached


CONTRAST = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
  .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const found = rgb(getComputedStyle(node).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found;
  }
};
const worst = [99, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || node.closest("script, style") || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  const [a, b] = [light(rgb(node.closest("svg") ? style.fill : style.color)), light(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst[0]) worst.splice(0, 2, ratio, walker.currentNode.data);
}
return [...worst, rgb(getComputedStyle(document.body).backgroundColor)];
"""


@pytest.mark.each_run(1)
@audit_in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(show, nasty, scheme):
    ratio, text, background = show(nasty, scheme).execute_script(CONTRAST)
    assert (sum(background) > 600) == (scheme == "light")
    assert ratio >= 4.5, text


WIDER = """
const wide = (node) => node.getBoundingClientRect().right > window.innerWidth + 1;
const scrolls = (node) => node.closest(".wide");
return [...document.querySelectorAll("main *")].filter((node) => wide(node) && !scrolls(node))
  .map((node) => node.outerHTML.slice(0, 80));
"""


@pytest.mark.each_run(1)
@audit_in_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_and_plots_fill_their_boxes(show, nasty, width):
    page = show(nasty, width=width)
    assert page.execute_script(WIDER) == []
    plots = page.find_elements("css selector", "svg.plot")
    assert len(plots) == 5
    for plot in plots:
        box = plot.find_element("xpath", "ancestor::figure").size["width"]
        assert min(350, box) <= plot.size["width"] <= box + 1


@audit_in_browser
def test_plots_follow_the_sliders_and_say_the_number_that_is_shown(show, nasty):
    from selenium.webdriver.common.keys import Keys

    page = show(nasty, width=390)
    assert page.find_elements("css selector", ".live-plot") == []
    page.find_element("id", "release-1-sigma").send_keys(Keys.ARROW_LEFT * 20)
    text, _ = now(page)
    page.execute_async_script("setTimeout(arguments[0], 400);")
    live = page.find_elements("css selector", ".live-plot")
    assert len(live) == 4  # the worst counts are the library's alone
    assert sum(f"epsilon {text}" in plot.get_attribute("aria-label").lower() for plot in live) == 3
    assert "by the Rényi bound" in live[3].get_attribute("aria-label")
    assert all("not tight" in plot.get_attribute("aria-label") for plot in live[2:])
    assert f"Rényi bound: epsilon {text}; the plan as written" in live[2].get_attribute("aria-label")
    assert len(page.find_elements("css selector", "figure.stale")) == 1
    assert page.execute_script(WIDER) == []
    bad = "return [...document.querySelectorAll('.live-plot path')].filter((p) => /NaN|Inf/.test(p.outerHTML)).length"
    assert page.execute_script(bad) == 0
    page.find_element("id", "reset").send_keys(Keys.ENTER)
    now(page)
    assert page.find_elements("css selector", ".live-plot, .stale, .replaced") == []


@pytest.mark.each_run(1)
@audit_in_browser
@pytest.mark.parametrize("width", [320, 390, 1200])
def test_page_is_no_wider_than_the_window(show, nasty, width):
    page = show(nasty, width=width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


@audit_in_browser
def test_a_browser_that_computes_otherwise_shows_the_librarys_numbers_alone(show, nasty, tmp_path):
    import base64
    import hashlib

    text = nasty.read_text("utf-8")
    code = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    broken = code.replace("const own = 0.5 * mu * mu * (1 + b);", "const own = 0;")
    assert broken != code
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (code, broken)]
    other = tmp_path / "other.html"
    other.write_text(text.replace(code, broken).replace(*digests), "utf-8")
    page = show(other)
    assert "does not compute as the library does" in page.find_element("id", "broken").text
    assert page.find_elements("id", "controls") == []
    assert not page.find_elements("css selector", ".live")
