"""``mechanisms tune``: the price is shown and charged before the first try, and the file tells what may be told."""

import json
import sqlite3

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.cli import tune
from mechanisms.cli.command import main
from mechanisms.tuning import Tuner

GRID = ["--grid", "epsilon=1,2", "tau=0.5,0.8", "vote-sigma=0.5"]
TUNE = [
    "tune",
    "ind-knn",
    "--data",
    "digits",
    "--split",
    "300,60,80",
    *GRID,
    "--tries",
    "geometric:4",
    "--delta",
    "1e-4",
]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command in an empty directory: exit status, what it printed, and its one line of errors."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        status = main([*arguments])
        out, error = capsys.readouterr()
        return status, out, error

    return command


def test_a_dry_run_tells_the_price_and_writes_nothing(run, tmp_path):
    status, out, _ = run(*TUNE, "--out", "tuned.json", "--dry-run", "--json")
    plan = json.loads(out)
    assert (status, plan["outcome"], plan["setting"], list(tmp_path.iterdir())) == (0, "dry run", None, [])
    status, _, _ = run(*TUNE, "--out", "tuned.json")
    found = json.loads((tmp_path / "tuned.json").read_text())
    assert status == 0
    same = plan.keys() - {"outcome", "setting", "score", "dry_run"}
    assert {key: found[key] for key in same} == {key: plan[key] for key in same}
    assert found["outcome"] == "chosen"
    assert found["setting"] in found["grid"]
    assert len(found["label"]) == len(found["prediction"]) == len(found["id"]) == 60
    assert found["accuracy"] == np.clip(found["score"] / 80, 0, 1)
    assert [each.name for each in tmp_path.iterdir()] == ["tuned.json"]
    # the file tells the whole price: what it lists as releases costs it
    spent = ac.composition_from_tables(found["releases"])
    ((selection, count),) = spent
    assert (count, selection.tries) == (1, ac.Geometric(4.0))
    assert selection.guarantee(1e-4).epsilon == found["epsilon"] == found["total"]["epsilon"]
    assert found["dearest_try"]["epsilon"] < found["epsilon"]
    assert not found.keys() & {"tries_made", "seconds", "scores"}


@pytest.mark.audit
def test_a_finished_tuning_is_paid_for_again_only_when_asked(run, tmp_path):
    assert run(*TUNE, "--out", "tuned.json")[0] == 0
    before = (tmp_path / "tuned.json").read_bytes()
    status, _, error = run(*TUNE, "--out", "tuned.json")
    assert status == 2
    assert "holds the results of a finished run; accepted" in error
    assert (tmp_path / "tuned.json").read_bytes() == before
    assert run(*TUNE, "--out", "tuned.json", "--again")[0] == 0
    found, first = json.loads((tmp_path / "tuned.json").read_text()), json.loads(before)
    assert [each["epsilon"] for each in found["earlier"]] == [first["epsilon"]]
    both = 2 * next(iter(ac.composition_from_tables(first["releases"]).entries))
    assert found["total"]["epsilon"] == ac.epsilon(both, 1e-4).epsilon > found["epsilon"]


def test_an_interrupted_tuning_stays_charged(run, tmp_path, monkeypatch):
    def stops(self, labels, data):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tuner, "_count_right", stops)
        status, out, error = run(*TUNE, "--out", "tuned.json")
    assert (status, out) == (130, "")
    assert "the whole price is charged, and nothing was released" in error
    assert {each.name for each in tmp_path.iterdir()} >= {"tuned.json.journal"}
    assert not (tmp_path / "tuned.json").exists()
    status, _, error = run(*TUNE, "--out", "tuned.json")
    assert (status, error.count("\n")) == (2, 1)
    assert "a killed run is charged in tuned.json.journal; accepted: --again" in error
    plan = json.loads(run(*TUNE, "--out", "tuned.json", "--again", "--dry-run", "--json")[1])
    assert plan["charges"] == 2
    assert run(*TUNE, "--out", "tuned.json", "--again")[0] == 0
    found = json.loads((tmp_path / "tuned.json").read_text())
    assert found["charges"] == 2
    assert found["epsilon"] == plan["epsilon"] == found["total"]["epsilon"]
    assert ac.composition_from_tables(found["releases"]).releases == 2
    assert [each.name for each in tmp_path.iterdir()] == ["tuned.json"]


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets something happen after a tuning was priced and before it opens its journal."""

    def arrange(happen):
        warn = tune.warn_of_seed

        def late(options):
            monkeypatch.setattr(tune, "warn_of_seed", warn)
            happen()
            warn(options)

        monkeypatch.setattr(tune, "warn_of_seed", late)

    return arrange


def test_a_run_killed_while_another_was_planned_is_not_forgotten(run, tmp_path, monkeypatch, meanwhile):
    def stops(self, labels, data):
        raise KeyboardInterrupt

    def is_killed():
        with monkeypatch.context() as patch:
            patch.setattr(Tuner, "_count_right", stops)
            assert main([*TUNE, "--out", "tuned.json"]) == 130

    meanwhile(is_killed)
    status, out, error = run(*TUNE, "--out", "tuned.json")
    assert (status, out) == (2, "")
    said = "another process was charged in tuned.json.journal meanwhile; accepted: the same command again"
    assert said in error.splitlines()[-1]
    assert not (tmp_path / "tuned.json").exists()
    with mx.Journal(tmp_path / "tuned.json.journal") as journal:
        assert journal.held() == (1, 0)


def test_a_run_that_comes_too_late_leaves_no_journal(run, tmp_path, meanwhile):
    meanwhile(lambda: main([*TUNE, "--out", "tuned.json"]))
    status, _, error = run(*TUNE, "--out", "tuned.json")
    assert (status, "another process has just finished a run into it" in error) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["tuned.json"]


def test_results_are_not_written_by_who_lost_the_journal(run, tmp_path, monkeypatch):
    """It was removed while the student was taught, and another process finished there: its result was replaced."""
    few, tell = [*TUNE, "--tries", "poisson:0.001", "--out", "tuned.json"], tune._describe

    def late(*given):
        monkeypatch.setattr(tune, "_describe", tell)
        for ending in ("", ".generation"):
            (tmp_path / f"tuned.json.journal{ending}").unlink()
        assert main(few) == 0
        return tell(*given)

    monkeypatch.setattr(tune, "_describe", late)
    status, _, error = run(*few)
    assert (status, error.count("\n")) == (2, 1)
    assert "tuned.json.journal: removed or replaced while it was open; accepted" in error
    assert (tmp_path / "tuned.json").exists()


@pytest.mark.audit
def test_a_result_that_was_not_written_is_not_lost(run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("mechanisms.cli.tuning_file.write_results", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(*TUNE, "--out", "tuned.json")
    with mx.Journal(tmp_path / "tuned.json.journal") as journal:
        assert journal.held() == (1, 1)
    monkeypatch.setattr(Tuner, "_make_tries", lambda *given: 1 / 0)
    assert run(*TUNE, "--out", "tuned.json")[0] == 0
    found = json.loads((tmp_path / "tuned.json").read_text())
    assert (found["charges"], found["outcome"]) == (1, "chosen")


def test_no_try_is_a_result(run, tmp_path):
    few = [*TUNE, "--tries", "poisson:0.001", "--out", "tuned.json", "--seed", "1"]
    status, out, error = run(*few)
    found = json.loads((tmp_path / "tuned.json").read_text())
    assert (status, found["outcome"], found["setting"], found["score"], found["seeded"]) == (
        0,
        "no try",
        None,
        None,
        True,
    )
    assert set(found["label"]) == {-1}
    assert "no try was drawn" in out
    assert "reproducible noise: not private" in error


@pytest.fixture
def tables(tmp_path):
    """Private, public and validation records as CSV files, of which rows can be left out."""
    from mechanisms.datasets import digits

    data = digits()

    def write(name, rows):
        columns = ",".join([*(f"x{i}" for i in range(64)), "label"])
        values = np.column_stack([data.features[rows], data.labels[rows]])
        np.savetxt(tmp_path / name, values, delimiter=",", header=columns, comments="")

    write("public.csv", np.arange(60))
    write("private.csv", np.arange(100, 400))
    write("validation.csv", np.arange(500, 580))
    return write


def test_neighbours_see_the_same(run, tables, tmp_path, monkeypatch):
    """Plan, refusals and journal, with a record less in either of the private tables."""
    monkeypatch.setattr("mechanisms.tuning.draw_tries", lambda tries, source: 0)
    command = ["tune", "private-knn", "--private", "private.csv", "--public", "public.csv", "--classes", "10"]
    command += ["--records", "300", "--validation", "validation.csv", "--delta", "1e-4", "--validation-records", "80"]
    grid = ["--grid", "vote-sigma=8", "screening-sigma=24"]
    seen = []
    for private, validation in ((300, 80), (299, 80), (300, 79)):
        tables("private.csv", np.arange(100, 100 + private))
        tables("validation.csv", np.arange(500, 500 + validation))
        given = [*command, *grid, "neighbors=10,20", "--out", f"{len(seen)}.json"]
        out = run(*given, "--dry-run", "--json")[1]
        wrong = ["neighbors=290"], ["neighbors=10", "sampling-rate=2"], ["neighbors=10", "threshold=x"]
        refused = [run(*command, *grid, *more, "--out", "no.json") for more in wrong]
        assert [each[0] for each in refused] == [2, 2, 2]
        with monkeypatch.context() as patch:
            patch.setattr("mechanisms.cli.tuning_file.TuningFile.write", lambda *given: None)
            assert run(*given)[0] == 0
        with sqlite3.connect(tmp_path / f"{len(seen)}.json.journal") as journal:
            rows = list(journal.execute("SELECT number, part, kind, query, text FROM log ORDER BY number"))
        header = json.loads(rows[0][4])
        assert len(header.pop("private")) == 64
        told = json.loads(out)
        told.pop("out")
        seen.append((told, refused, header, rows[1:]))
    assert [row[2] for row in seen[0][3]] == ["charge", "answer"]
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--epsilon", "0.5"], "--epsilon 0.5: the price is"),
        (["--grid", "tau"], "--grid tau; accepted: NAME=A,B,..., each name once"),
        (["--grid", "tau=0.3"], "--grid tau=0.3; accepted: NAME=A,B"),
        (["--grid", "size=3"], "--grid: unknown size; accepted: epsilon, threshold, vote-sigma, and of"),
        (["--tries", "geometric:0.5"], "mean = 0.5 is out of range"),
        (["--tries", "ten"], "'ten'; accepted: geometric:MEAN, poisson:MEAN or"),
        (["--score-sigma", "-1"], "score_sigma = -1.0; accepted"),
        (["--out", "tuned.npz"], "accepted: a file ending in .json"),
        (["--grid", "bandwidth=nan"], "bandwidth = nan; accepted: what JSON holds"),
        (["--test", "x.csv"], "unrecognized arguments"),
    ],
)
def test_refusals(run, tmp_path, more, words):
    status, out, error = run(*TUNE, "--out", "tuned.json", *more)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert words in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["max-labels=inf", "max-labels=abc", "max-labels=0", "threshold=inf"])
def test_values_that_no_file_holds_or_no_label_comes_of(run, tmp_path, value):
    """They were charged, and no result was written, or they ended in a traceback."""
    status, out, error = run(
        *("tune", "private-knn", "--data", "digits", "--split", "300,60,80", "--delta", "1e-4", "--out", "tuned.json"),
        *("--grid", "neighbors=10", "vote-sigma=5", value),
    )
    name, _, given = value.partition("=")
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert f"{name.replace('-', '_')} = {given if given != 'abc' else repr(given)}; accepted: " in error
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing(run):
    assert (
        "--grid: neighbors is missing; accepted: neighbors, vote-sigma, and of"
        in run(
            "tune", "private-knn", "--data", "digits", "--grid", "vote-sigma=8", "--delta", "1e-4", "--out", "a.json"
        )[2]
    )
    assert "without --out the labels would be paid for and lost" in run(*TUNE)[2]
    reverse = ["tune", "reverse-knn", "--data", "digits", "--grid", "queries=20", "k=1", "epsilon=1", "--delta", "1e-4"]
    assert "--records 300 was given with --adjacency replace" in run(*reverse, "--records", "300", "--dry-run")[2]
    plan = json.loads(run(*reverse, "--adjacency", "add-remove", "--dry-run", "--json")[1])
    assert plan["adjacency"] == "add-remove"
