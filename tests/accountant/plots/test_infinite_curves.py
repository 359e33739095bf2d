"""Runs whose Rényi curve is infinite at every order: what has a tight price is drawn and reported with it."""

import json
import math
import re

import numpy as np
import pytest

import accountant as ac
from accountant import plots
from accountant.cli import main
from accountant.guarantee import format_up

ROUGH, FINE = ac.ApproximateDP(1.0, 1e-6), ac.Gaussian(3.0)
PLAN = 'delta = 1e-5\n[[release]]\nname = "rough"\nevent = "approximate-dp"\nepsilon = 1\ndelta = 1e-6\ncount = 2\n'
MIXED = PLAN + '[[release]]\nname = "fine"\nevent = "gaussian"\nsigma = 3\ncount = 4\n'


@pytest.fixture(params=[PLAN, MIXED], ids=["alone", "beside others"])
def plan(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(request.param)
    return ac.load_plan("plan.toml")


def test_a_page_says_which_routes_have_no_bound(plan, tmp_path):
    assert main(["report", "plan.toml", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    for rule in ("classic", "improved", "optimal"):
        assert re.search(rf'id="{rule}">no finite bound<', page)
    assert f"({format_up(ac.epsilon(plan.run, 1e-5).epsilon)}, 1e-05)-DP" in page
    assert "Not drawn: the Rényi curve is infinite at every order." in page
    assert "'auto'" not in page
    assert "&#x27;auto&#x27;" not in page
    data = json.loads(re.search(r'<script type="application/json" id="plan">(.*?)</script>', page)[1])
    assert data["epsilons"] == dict.fromkeys(("classic", "improved", "optimal"), "inf")


@pytest.mark.parametrize(
    "kind",
    [
        ["releases"],
        ["trade-off"],
        ["shares"],
        ["parameter", "--vary", "rough.epsilon", "--values", "0.5:1:2"],
    ],
    ids=lambda kind: kind[0],
)
def test_every_kind_that_has_a_price_is_drawn(plan, kind, tmp_path, capsys):
    assert main(["plot", "plan.toml", "-o", "plot.svg", "--kind", *kind]) == 0
    error = capsys.readouterr().err
    assert error in ("", "accountant: without the Rényi bounds: the Rényi curve is infinite at every order\n")
    assert bool(error) == (kind[0] in ("releases", "parameter"))
    assert (tmp_path / "plot.svg").stat().st_size > 0


def test_curves_that_are_finite_are_drawn_beside_those_that_are_not():
    ax = plots.curve_against_order({"whole": 2 * ROUGH + FINE, "fine": 1 * FINE}, delta=1e-5)
    assert ax.get_title(loc="left").replace("\n", " ") == "The Rényi curve of whole gives no finite epsilon"
    whole, fine = (line for line in ax.get_lines() if not line.get_label().startswith("_"))
    assert whole.get_label() == "whole: no finite bound"
    assert np.isnan(whole.get_ydata()).all()
    assert np.isfinite(fine.get_ydata()).all()
    with pytest.raises(ac.NoGuarantee, match="every Rényi curve is infinite at all orders; accepted: a run that has a"):
        plots.curve_against_order(ROUGH, delta=1e-5)


@pytest.mark.parametrize("delta", [1e-6, 1e-2, 0.2])
def test_the_trade_off_of_infinite_losses_is_the_exact_one(delta):
    """Of two releases: any of both tells all with probability delta, and e^epsilon each otherwise."""
    run, whole = 2 * ac.ApproximateDP(1.0, delta), (1 - delta) ** 2
    errors = plots.trade_off(run).get_lines()[1].get_xydata()
    rest, share = math.exp(-1.0), 1 / (1 + math.exp(-1.0))
    p, q = np.array([1.0, 2 * rest, rest**2]) * share**2, np.array([rest**2, 2 * rest, 1.0]) * share**2
    first, second = np.append(0.0, np.cumsum(whole * q)), np.append(whole, whole - np.cumsum(whole * p))
    exact = np.interp(errors[:, 0], first, second, right=0.0)
    assert (errors[:, 1] <= exact + 1e-9).all()
    assert (errors[:, 1] >= exact - 0.02).all()
