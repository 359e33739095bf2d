"""Reports that compare plans: each plan's own prices, what differs, and a verdict that the certified ends bear out."""

from __future__ import annotations

import re

import pytest

import accountant as ac
from accountant.cli import main
from accountant.guarantee import format_up
from accountant.plots.findings import price_in_words

PLAN = 'delta = 1e-5\n[[release]]\nname = "<b>means</b>"\nevent = "gaussian"\nsigma = {}\ncount = 10\n'


@pytest.fixture
def compare(tmp_path):
    """The page of plans with these noises, by the command."""

    def made(*sigmas: float, replace: tuple[str, str] = ("", "")) -> str:
        names = []
        for number, sigma in enumerate(sigmas):
            names.append(tmp_path / f"plan{number}.toml")
            names[-1].write_text(PLAN.format(sigma).replace(*replace) if number else PLAN.format(sigma))
        target = tmp_path / "report.html"
        assert main(["report", *map(str, names), "-o", str(target)]) == 0
        page = target.read_text("utf-8")
        assert str(tmp_path) not in page
        assert "default-src 'none'" in page
        return page

    return made


def test_says_every_plans_price_and_which_is_less(compare):
    page = compare(20, 30)
    for sigma in (20, 30):
        run = 10 * ac.Gaussian(sigma)
        assert f">{format_up(ac.epsilon(run, 1e-5).epsilon)}<" in page
        assert price_in_words(ac.epsilon(run, 1e-5, method="tight")) in page
    assert "plan1 has the lowest epsilon" in page
    assert "It is certified to cost less" in page
    assert re.search(r"&lt;b&gt;means&lt;/b&gt;: sigma</th><td[^>]*>20</td><td[^>]*>30<", page)
    assert "<b>means" not in page
    assert page.count("<svg ") == 2


def test_plans_that_protect_different_things_are_not_ranked(compare):
    page = compare(20, 30, replace=("[[release]]", 'adjacency = "replace"\n[[release]]'))
    assert "Their adjacency differs" in page
    assert "<svg" not in page


def test_private_costs_and_too_many_plans_are_refused(tmp_path, capsys):
    target = tmp_path / "report.html"
    assert main(["report", "dp-sgd", "figure5-data-dependent-screening", "-o", str(target)]) == 2
    assert "depends on private data" in capsys.readouterr().err
    assert main(["report", *["gnmax-celeba-1"] * 8, "-o", str(target)]) == 2
    assert "accepted: 2 to 7" in capsys.readouterr().err
    assert not target.exists()


def labels(page):
    return [re.search(r'aria-label="([^"]*)"', svg)[1] for svg in re.findall(r"<svg [^>]*>", page)]


@pytest.mark.audit
def test_plots_take_the_route_of_the_verdict(compare):
    curves, misses = labels(compare(20, 30))
    assert "epsilon" not in curves, "the certified price is smaller than the Rényi curve's"
    assert "; tight; " in misses
    page = compare(20, 30, replace=('event = "gaussian"\nsigma = 30', 'event = "zero-concentrated-dp"\nrho = 0.002'))
    curves, misses = labels(page)
    assert "improved conversion" in curves
    assert "Rényi, improved conversion" in misses


@pytest.mark.audit
@pytest.mark.parametrize("conversion", ["classic", "optimal"])
def test_plots_take_the_conversion(compare, tmp_path, conversion):
    compare(20, 30, replace=('event = "gaussian"\nsigma = 30', 'event = "zero-concentrated-dp"\nrho = 0.002'))
    plans = [str(tmp_path / f"plan{number}.toml") for number in range(2)]
    assert main(["report", *plans, "-o", str(tmp_path / "report.html"), "--conversion", conversion]) == 0
    curves, misses = labels((tmp_path / "report.html").read_text("utf-8"))
    assert f"{conversion} conversion" in curves
    assert f"{conversion} conversion" in misses
