"""`mechanisms plan`: what it prints in every form, that it spends nothing, and that its proposal is that run."""

import csv
import io
import json
import shlex

import numpy as np
import pytest

import mechanisms as mx
from mechanisms.cli import main
from mechanisms.labelling import Labeller

RECORDS = 1200
VALUES = {
    "private-knn": ["--queries", "8,16", "--sampling-rate", "1", "--neighbors", "40", "--screening-ratio", "none,3"],
    "ind-knn": ["--queries", "40", "--threshold", "0.7,0.9", "--count-share", "3"],
    "reverse-knn": ["--queries", "8,16", "--neighbors", "1,2"],
}


@pytest.fixture(autouse=True)
def public(tmp_path, monkeypatch):
    """Labelled public points of four classes in a file, and a run that would draw fails."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 160)
    features = (3 * np.eye(4, 5)[labels] + rng.standard_normal((160, 5))).astype(np.float32)
    np.savez("public.npz", features=features, labels=labels)
    np.savez("bare.npz", features=features)
    for kind, name in ((Labeller, "_run"), (mx.IndividualKNN, "predict"), (mx.ReverseKNN, "label")):
        monkeypatch.setattr(kind, name, lambda *_, **__: pytest.fail("a plan released something"))


@pytest.fixture
def once(monkeypatch):
    """The same plan is made only once."""
    import mechanisms.forecast as forecast

    made, plan = {}, forecast.plan_labelling

    def remember(mechanism, X, y, **values):
        key = mechanism, repr(values)
        made.setdefault(key, None)
        made[key] = made[key] or plan(mechanism, X, y, **values)
        return made[key]

    monkeypatch.setattr(forecast, "plan_labelling", remember)


def arguments(mechanism, *more):
    given = ["plan", mechanism, "--public", "public.npz", "--records", str(RECORDS), "--epsilon", "1", "--classes", "4"]
    return [*given, *VALUES[mechanism], *more]


def run(capsys, *given):
    assert main(given) == 0
    return capsys.readouterr()


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", VALUES)
def test_every_form_says_the_same(capsys, once, mechanism):
    record = json.loads(run(capsys, *arguments(mechanism, "--json")).out)
    best = record["best"]
    assert record["settings"][0] == best
    assert len(record["settings"]) == min(10, len(record["settings"]))
    assert (record["mechanism"], record["records"], record["epsilon"]) == (mechanism, RECORDS, 1.0)
    assert record["delta"] == (0.0 if mechanism == "reverse-knn" else 1e-5)
    rows = list(csv.reader(io.StringIO(run(capsys, *arguments(mechanism, "--csv")).out)))
    assert len(rows) == len(record["settings"]) + 1
    assert int(rows[1][0]) == best["queries"]
    assert float(rows[1][-1]) == best["reach"]
    shown = f"{best['reach']:.1%}"
    for form in ((), ("--latex",), ("--markdown",)):
        text = run(capsys, *arguments(mechanism, *form)).out
        assert shown.replace("%", "\\%" if form == ("--latex",) else "%") in text
        for said in ("spent: nothing", "one distribution", "number of private records"):
            assert said in " ".join(text.split())


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", ["reverse-knn"])
def test_top_and_plot(capsys, tmp_path, mechanism):
    text = run(capsys, *arguments(mechanism, "--top", "2", "--plot", "a.svg", "--csv")).out
    assert len(text.splitlines()) == 3
    assert "expected right labels" in (tmp_path / "a.svg").read_text()


@pytest.mark.each_run(1)
@pytest.mark.parametrize("screening", ["none", "3"])
def test_the_proposed_command_has_the_same_noise(capsys, screening):
    chosen = ["--screening-ratio", screening, "--queries", "16"]
    record = json.loads(run(capsys, *arguments("private-knn", *chosen, "--json")).out)
    _, *proposed = shlex.split(record["command"])
    parameters = record["best"]["parameters"]
    data = ["--private", "public.npz", "--public", "bare.npz", "--classes", "4", "--dry-run", "--json"]
    planned = json.loads(run(capsys, *proposed, *data).out)
    assert planned["noise"] == pytest.approx(parameters["vote_sigma"], rel=1e-2)
    assert planned["epsilon"] <= 1.0
    assert planned["queries"] == record["best"]["queries"]


def test_several_rounds_share_the_budget(capsys):
    """Their noise is that of the command which runs them, and what is assumed of their features is said."""
    given = ["--rounds", "3", "--queries", "8", "--screening-ratio", "none", "--json"]
    record = json.loads(run(capsys, *arguments("private-knn", *given)).out)
    assert record["best"]["rounds"] == 3
    assert any("of several rounds one is forecast" in each for each in record["assumptions"])
    _, *proposed = shlex.split(record["command"])
    data = ["--private", "public.npz", "--public", "bare.npz", "--classes", "4", "--dry-run", "--json"]
    planned = json.loads(run(capsys, *proposed, *data).out)
    assert planned["setting"]["rounds"] == 3
    assert planned["noise"] == pytest.approx(record["best"]["parameters"]["vote_sigma"], rel=1e-2)
    assert planned["epsilon"] <= 1.0
    once = json.loads(run(capsys, *arguments("private-knn", "--rounds", "1", *given[2:])).out)
    assert once["best"]["parameters"]["vote_sigma"] < record["best"]["parameters"]["vote_sigma"]
    assert once["best"]["accuracy"] > record["best"]["accuracy"]
    assert not any("rounds" in each for each in once["assumptions"])


def test_local_models_are_planned_and_run(capsys):
    given = ["--model", "local", "--randomizer", "collision", "--epsilon", "3", "--json"]
    record = json.loads(run(capsys, *arguments("reverse-knn", *given)).out)
    assert "--model local --randomizer collision" in record["command"]
    _, *proposed = shlex.split(record["command"])
    data = ["--private", "public.npz", "--public", "bare.npz", "--classes", "4", "--dry-run", "--json"]
    planned = json.loads(run(capsys, *proposed, *data).out)
    assert planned["epsilon"] <= 3.0
    assert planned["setting"]["model"] == "local"


def test_the_proposed_prediction_and_reverse_labelling_are_accepted(capsys):
    record = json.loads(run(capsys, *arguments("ind-knn", "--json")).out)
    _, *proposed = shlex.split(record["command"])
    data = ["--private", "public.npz", "--public", "bare.npz", "--classes", "4", "--dry-run", "--json"]
    planned = json.loads(run(capsys, *proposed, *data).out)
    for name in ("threshold", "vote_sigma", "count_sigma", "budget"):
        assert planned[name] == pytest.approx(record["best"]["parameters"][name], rel=1e-3)
    record = json.loads(run(capsys, *arguments("reverse-knn", "--json")).out)
    _, *proposed = shlex.split(record["command"])
    planned = json.loads(run(capsys, *proposed, *data, "--clients", "5").out)
    assert planned["epsilon"] <= 1.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--public", "bare.npz"], "labels"),
        (["--records", "0"], "--records"),
        (["--epsilon", "-1"], "epsilon"),
        (["--delta", "0"], "delta = 0"),
        (["--plot", "a.gif"], "a.gif"),
        (["--features", "hog"], "images"),
        (["--private", "public.npz"], "--private"),
        (["--queries", "500"], "queries = 500"),
        (["--screening-ratio", "never"], "never"),
        (["--classes", "2"], "label"),
    ],
)
def test_bad_input_is_one_line(capsys, given, said):
    assert main(arguments("private-knn", *given)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error
    assert error.count("\n") == 1
