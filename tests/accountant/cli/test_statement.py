"""`accountant statement`: the paragraph states what was priced, and rounds every bound outwards."""

import json

import pytest

import accountant as ac
from accountant.cli import main
from accountant.guarantee import format_down, format_up
from accountant.plan import load_plan


def shown(capsys, *arguments):
    assert main(["statement", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.audit
def test_the_paragraph_holds_what_reporting_guides_ask_for(capsys):
    found = json.loads(shown(capsys, "dp-sgd", "--json"))
    run = load_plan("dp-sgd").composition
    price, mu = ac.epsilon(run, 1e-5, method="auto"), ac.gaussian_dp(run, 1e-9)
    assert (found["epsilon"], found["lower"]) == (price.epsilon, price.lower)
    assert (found["mu"], found["mu_lower"]) == (mu.upper, mu.lower)
    text = shown(capsys, "dp-sgd")
    assert text == found["text"] + "\n"
    for words in (
        f"epsilon = {format_up(price.epsilon)} and delta = 1e-05",
        "one is the other with one record added or removed (add-remove adjacency)",
        f"mu = {format_up(mu.upper)}",
        f"rates of at least 1e-09; the exact mu is certified to be at least {format_down(mu.lower)}.",
        "step, at most 10,000 times (gaussian: sigma 1)",
        "Sampling: step at rate 0.01",
        f"knn-accountant {ac.__version__}, by privacy-loss distribution",
        "Assumes: ",
        "are not covered",
    ):
        assert words in text


@pytest.mark.audit
def test_unit_adjacency_and_route_are_stated(capsys):
    text = shown(capsys, "dp-sgd", "--unit", "person", "--method", "renyi")
    assert "one person added or removed" in text
    assert "by the improved conversion, an upper bound." in text
    assert "one record replaced by another (replace adjacency)" in shown(capsys, "reverse-knn-central-1.0")


@pytest.mark.parametrize("unit", ["", " ", "per\nson", "per\u202eson"])
def test_a_unit_that_is_no_word_is_refused(capsys, unit):
    assert main(["statement", "dp-sgd", "--unit", unit]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "accepted: what one record stands for" in captured.err


def test_a_unit_is_a_word_of_any_language(capsys):
    assert "one می\u200cروم added or removed" in shown(capsys, "figure5-gaussian", "--unit", "می\u200cروم")


def test_latex_is_escaped_and_nothing_has_no_mu(capsys, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('delta = 1e-5\n[[release]]\nname = "a_b"\nevent = "zero-concentrated-dp"\nrho = 0.1\n')
    text = shown(capsys, str(plan), "--latex")
    assert "mu-Gaussian" in text
    assert "; an upper bound from a Rényi curve, which says nothing from below." in text
    assert json.loads(shown(capsys, str(plan), "--json"))["mu_lower"] is None
    assert "a\\_b, once" in text
    assert "mu-Gaussian" not in shown(capsys, str(plan), "--set", "count=0")


def test_markdown_shows_names_as_they_are(capsys, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('delta = 1e-5\n[[release]]\nname = "a_b%*z*"\nevent = "gaussian"\nsigma = 2\n')
    assert "releases, and no others: a\\_b%\\*z\\*, once (gaussian: sigma 2)." in shown(capsys, str(plan), "--markdown")
    assert "a_b%*z*, once" in shown(capsys, str(plan))
    assert "a_b%*z*, once" in json.loads(shown(capsys, str(plan), "--json"))["text"]


def test_a_private_cost_has_no_statement(capsys):
    assert main(["statement", "figure5-data-dependent-screening"]) == 2
    captured = capsys.readouterr()
    assert "depends on private data" in captured.err
    assert captured.out == ""


def test_the_price_says_its_route_and_why_it_is_not_certified(capsys, tmp_path):
    plan, sampled = tmp_path / "plan.toml", tmp_path / "sampled.toml"
    plan.write_text('delta = 1e-5\n[[release]]\nname = "a"\nevent = "zero-concentrated-dp"\nrho = 0.1\n')
    sampled.write_text(plan.read_text() + "sampling_rate = 0.5\n")
    why = "No certified price: "
    for arguments, words, said in (
        (["dp-sgd"], "epsilon = 6.18773 at delta = 1e-05 (tight; epsilon is at least 6.18752)", ""),
        (["dp-sgd", "--method", "renyi"], "epsilon = 6.71228 at delta = 1e-05 (renyi)", ""),
        (["dp-sgd", "--conversion", "classic"], "epsilon = 7.4285 at delta = 1e-05 (renyi)", ""),
        (["dp-sgd", "--patience", "1e-9"], "epsilon = 6.71228 at delta = 1e-05 (renyi)", "accepted: patience = "),
        (
            [str(sampled)],
            "(renyi)",
            "No certified price: ZeroConcentratedDP is known by a Rényi bound only; it has no privacy profile.",
        ),
        ([str(plan)], "(renyi; epsilon is at least 1.76005)", ""),
        ([str(plan), "--method", "renyi"], "(renyi)", ""),
    ):
        assert main(["epsilon", *arguments]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert words in out
        assert (why in out) == bool(said)
        assert said in out
