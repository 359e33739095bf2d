"""`accountant plot`: a file, or one line that says why not and nothing written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accountant.cli import main
from accountant.cli.plot import OPTIONS

PLAN = """delta = 1e-5

[[release]]
name = "screening"
event = "noisy-screening"
sigma = 10
threshold = 20
max_votes = 30
sampling_rate = 0.25
count = 20

[[release]]
name = "votes $2$"
event = "gnmax"
sigma = 20
count = 5
"""
SECRET = 'delta = 1e-5\n[[release]]\nevent = "data-dependent-gnmax"\nsigma = 20\nvotes = [30, 2]\n'
NO_DELTA = PLAN.replace("delta = 1e-5", "")
CURVE_ONLY = 'delta = 1e-5\n[[release]]\nevent = "zero-concentrated-dp"\nrho = 0.1\ncount = 3\n'
FREE = 'delta = 1e-5\n[[release]]\nevent = "gaussian"\nsigma = 20\nsampling_rate = 0\ncount = 3\n'
NOTHING = 'delta = 1e-5\n[[release]]\nevent = "gaussian"\nsigma = 20\ncount = 0\n'

MORE = {"parameter": ["--vary", "votes $2$.sigma", "--values", "5:40:3"], "releases": ["--releases", "9"]}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {
        "plan": PLAN,
        "secret": SECRET,
        "no_delta": NO_DELTA,
        "curve": CURVE_ONLY,
        "free": FREE,
        "nothing": NOTHING,
    }
    for name, text in texts.items():
        Path(f"{name}.toml").write_text(text, "utf-8")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(["plot", *arguments])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("kind", "ending"), [*((kind, "svg") for kind in OPTIONS), ("order", "png"), ("order", "pdf")])
def test_every_kind_and_every_format(kind, ending, folder, capsys):
    file = f"out/x.{ending}"
    status, out, err = run(capsys, "plan.toml", "--kind", kind, "-o", file, *MORE.get(kind, []))
    assert (status, out, err) == (0, f"wrote {file}\n", "")
    begin = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    assert (folder / f"x.{ending}").read_bytes().startswith(begin)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan.toml", "--kind", "order", "-o", "out/x.gif"], ".svg, .png, .pdf"),
        (["plan.toml", "--kind", "order", "-o", "absent/x.svg"], "existing directory"),
        (["plan.toml", "--kind", "order", "-o", "out"], ".svg"),
        (["plan.toml", "--kind", "budgets", "-o", "out/x.svg"], "'budgets'"),
        (["absent.toml", "--kind", "order", "-o", "out/x.svg"], "absent.toml"),
        (["no_delta.toml", "--kind", "shares", "-o", "out/x.svg"], "delta is missing"),
        (["no_delta.toml", "--kind", "releases", "-o", "out/x.svg"], "delta is missing"),
        (["plan.toml", "--kind", "shares", "-o", "out/x.svg", "--delta", "2"], "delta = 2"),
        (["plan.toml", "--kind", "order", "-o", "out/x.svg", "--releases", "3"], "accepted with: releases"),
        (["plan.toml", "--kind", "shares", "-o", "out/x.svg", "--methods", "tight"], "accepted with: releases"),
        (["plan.toml", "--kind", "releases", "-o", "out/x.svg", "--methods", "best"], "'best'"),
        (["plan.toml", "--kind", "releases", "-o", "out/x.svg", "--releases", "0"], "'0'"),
        (["plan.toml", "--kind", "releases", "-o", "out/x.svg", "--tolerance", "0"], "tolerance = 0"),
        (["nothing.toml", "--kind", "releases", "-o", "out/x.svg"], "no releases"),
        (["plan.toml", "--kind", "parameter", "-o", "out/x.svg"], "--vary"),
        (["plan.toml", "--kind", "parameter", "-o", "out/x.svg", "--vary", "a.b", "--values", "1:2:3"], "'a'"),
        (
            ["plan.toml", "--kind", "parameter", "-o", "out/x.svg", "--vary", "screening.sigma", "--values", "1"],
            "A:B:N",
        ),
        (
            ["plan.toml", "--kind", "parameter", "-o", "out/x.svg", "--vary", "screening.sigma", "--values=-1:1:3"],
            "sigma = -1",
        ),
        (["curve.toml", "--kind", "worst-pair", "-o", "out/x.svg"], "no noisy screening"),
        (["curve.toml", "--kind", "trade-off", "-o", "out/x.svg", "--methods", "tight"], "Rényi bound only"),
        (["plan.toml", "--kind", "trade-off", "-o", "out/x.svg", "--methods", "tight,classic"], "one method"),
        (["secret.toml", "--kind", "order", "-o", "out/x.svg"], "--public-votes"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(arguments, words, folder, capsys):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not list(folder.iterdir())


def test_public_votes_may_be_shown(folder, capsys):
    status, _, err = run(capsys, "secret.toml", "--kind", "shares", "-o", "out/x.svg", "--public-votes")
    assert (status, err) == (0, "")
    assert 'id="data-dependent"' in (folder / "x.svg").read_text()


@pytest.mark.parametrize("kind", ["releases", "trade-off"])
def test_without_a_tight_price_the_others_are_drawn_and_it_is_said(kind, folder, capsys):
    status, out, err = run(capsys, "curve.toml", "--kind", kind, "-o", "out/x.svg")
    assert (status, out) == (0, "wrote out/x.svg\n")
    assert err.startswith("accountant: without the tight price: ")


@pytest.mark.each_run(2)
@pytest.mark.parametrize("kind", ["order", "releases", "trade-off", "shares"])
@pytest.mark.filterwarnings("error")
def test_a_plan_that_costs_nothing_can_be_drawn(kind, folder, capsys):
    assert run(capsys, "free.toml", "--kind", kind, "-o", "out/x.png") == (0, "wrote out/x.png\n", "")


def test_the_files_bytes_are_the_same_every_time(folder, capsys):
    for name in ("a.svg", "b.svg"):
        run(capsys, "plan.toml", "--kind", "order", "-o", f"out/{name}")
    assert (folder / "a.svg").read_bytes() == (folder / "b.svg").read_bytes()


def test_missing_matplotlib_is_one_line(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = run(capsys, "plan.toml", "--kind", "order", "-o", "out/x.svg")
    assert status == 2
    assert "pip install 'knn-accountant[plots]'" in err


def test_whole_numbers_are_varied_as_whole_numbers(folder, capsys):
    more = ["--vary", "screening.count", "--values", "1:3:9", "--methods", "improved"]
    assert run(capsys, "plan.toml", "--kind", "parameter", "-o", "out/x.svg", *more)[0] == 0


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("kind", "most"), [("order", 6), ("worst-pair", 7)])
def test_of_many_releases_the_costliest_are_drawn_and_it_is_said(kind, most, folder, capsys):
    status, _, err = run(
        capsys, "figure5-data-dependent-screening", "--kind", kind, "-o", "out/x.png", "--public-votes"
    )
    assert status == 0
    assert err == (f"accountant: figure5-data-dependent-screening: drawn are the {most} costliest of 8 releases\n")


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("plan", "more", "kind"),
    [
        ("plan", [], "shares"),
        ("no_delta", [], "order"),
        ("curve", [], "releases"),
        ("plan", ["--set", "screening.count=0", "--set", "votes $2$.count=1"], "trade-off"),
        ("plan", ["--set", "screening.count=0", "--set", "votes $2$.count=1", "--delta", "1e-6"], "order"),
        ("plan", ["--vary", "screening.sigma", "--values", "5:9:2", "--methods", "improved"], "parameter"),
    ],
)
def test_without_a_kind_the_plot_that_tells_most_is_drawn(plan, more, kind, folder, capsys):
    status, out, _ = run(capsys, f"{plan}.toml", *more)
    assert (status, out) == (0, f"wrote {plan}-{kind}.svg\n")
    assert Path(f"{plan}-{kind}.svg").read_bytes().startswith(b"<?xml")


def test_a_plot_without_a_name_replaces_nothing(folder, capsys):
    Path("plan-shares.svg").write_text("mine")
    status, _, err = run(capsys, "plan.toml")
    assert (status, err.count("\n")) == (2, 1)
    assert "'plan-shares.svg' is there already; accepted: -o FILE" in err
    assert Path("plan-shares.svg").read_text() == "mine"
