"""Existing results: a repeated command releases nothing unless it may pay again, and states the total price."""

import json
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import accountant as ac
from mechanisms.budgets.journal import Journal, Part
from mechanisms.cli import main, results_file
from mechanisms.noisy_sgd import LinearNoisySGD
from mechanisms.private_knn import PrivateKNN

KNN = ["label", "private-knn", "--data", "digits", "--epsilon", "2", "--delta", "1e-4", "--queries", "15"]
GNMAX = ["label", "gnmax", *KNN[2:], "--teacher", "nearest"]
REVERSE = ["label", "reverse-knn", *KNN[2:]]
NOISY_SGD = ["label", "noisy-sgd", *KNN[2:8], "--method", "renyi"]
REFUSED = "holds the results of a finished run; accepted: another file, or --again, which releases and pays again"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return command


@pytest.fixture
def releases(monkeypatch):
    """How many labels were drawn."""
    drawn, release = [], PrivateKNN._release
    monkeypatch.setattr(PrivateKNN, "_release", lambda self, *given: (drawn.append(1), release(self, *given))[1])
    return drawn


def summary_in(path):
    if path.endswith(".npz"):
        with np.load(path) as found:
            return json.loads(str(found["summary"]))
    return json.loads(pyarrow.parquet.read_schema(path).metadata[b"summary"])


def names(path):
    return sorted(each.name for each in path.iterdir())


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("command", "out"),
    [(KNN, "a.npz"), (KNN, "a.parquet"), (REVERSE, "a.npz"), (NOISY_SGD, "a.parquet")],
)
def test_a_finished_run_is_not_given_again(run, tmp_path, command, out):
    assert run(*command, "--out", out)[0] == 0
    before = (tmp_path / out).read_bytes()
    status, said, err = run(*command, "--out", out)
    assert (status, said, err) == (2, "", f"mechanisms: --out {out}: {REFUSED}\n")
    assert (tmp_path / out).read_bytes() == before
    assert names(tmp_path) == [out]


@pytest.mark.audit
@pytest.mark.parametrize("out", ["a.npz", "a.parquet"])
def test_again_shows_all_prices_and_keeps_them(run, out):
    assert run(*KNN, "--out", out, "--again")[0] == 0, "nothing is there yet: a first release"
    first = summary_in(out)
    assert run(*GNMAX, "--out", out, "--again")[0] == 0
    second = summary_in(out)
    status, table, _ = run(*KNN, "--epsilon", 1, "--out", out, "--again")
    assert status == 0
    third = summary_in(out)
    kept = [{key: each[key] for key in ("mechanism", "epsilon", "delta", "releases")} for each in (first, second)]
    assert (first["earlier"], second["earlier"], third["earlier"]) == ([], kept[:1], kept)
    runs = [ac.composition_from_tables(each["releases"]) for each in (first, second, third)]
    assert [each["mechanism"] for each in third["earlier"]] == ["private-knn", "gnmax"]
    total = ac.epsilon(sum(runs, ac.Composition()), 1e-4, method="auto", tolerance=1e-3)
    assert third["total"] == {"epsilon": total.epsilon, "delta": 1e-4}
    assert third["total"]["epsilon"] > second["total"]["epsilon"] > second["epsilon"]
    assert f"({total.epsilon:.6g}, 0.0001)-DP" in table
    assert "released before" in table
    assert run(*KNN, "--out", out)[2] == f"mechanisms: --out {out}: {REFUSED}\n"


def test_again_without_a_common_price_is_refused(run, releases):
    assert run(*KNN, "--out", "a.npz")[0] == 0
    drawn = len(releases)
    for arguments, words in (
        (REVERSE, "cannot compose"),
        ([*REVERSE, "--delta", "0", "--adjacency", "add-remove"], "delta = 0"),
    ):
        status, out, err = run(*arguments, "--out", "a.npz", "--again")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert words in err
    assert len(releases) == drawn == 15


def test_other_files_are_left_alone(run, tmp_path):
    np.savez("a.npz", features=np.ones(3))
    (tmp_path / "b.npz").write_text("no archive")
    pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), "a.parquet")
    np.savez("c.npz", summary=np.array("[1]"))
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    for name in before:
        for extra in ([], ["--again"]):
            status, _, err = run(*KNN, "--out", name, *extra)
            assert (status, err.count("\n")) == (2, 1)
            assert "is there and holds no results of a run; accepted: another file" in err
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


@pytest.mark.parametrize(
    "broken",
    [
        {"epsilon": 1},
        {"earlier": [{}]},
        {"releases": [{"event": "gnmax"}]},
        {"releases": [{"event": "none"}]},
        {"releases": 3},
    ],
    ids=str,
)
def test_summaries_that_do_not_tell_what_was_released(run, broken):
    told = {"mechanism": "gnmax", "epsilon": 1.0, "delta": 0.0, "releases": [], "earlier": []} | broken
    if broken == {"epsilon": 1}:
        del told["releases"]
    np.savez("a.npz", summary=np.array(json.dumps(told)))
    status, _, err = run(*KNN, "--out", "a.npz", "--again")
    assert (status, err.count("\n")) == (2, 1)
    assert "its summary does not tell what was released" in err


# --- journals ------------------------------------------------------------------------------------------


def test_killed_between_results_and_journal(run, tmp_path, monkeypatch, releases):
    """Once the results are written, the run has ended, even if its journal is left."""

    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(results_file, "_remove_journal", killed)
        assert run(*KNN, "--out", "a.npz")[0] == 130
    assert {"a.npz", "a.npz.journal"} <= set(names(tmp_path))
    assert len(releases) == 15
    status, _, err = run(*KNN, "--out", "a.npz")
    assert (status, err) == (2, f"mechanisms: --out a.npz: {REFUSED}\n")
    assert len(releases) == 15
    # with --again it begins anew and does not take the old labels for new ones
    status, _, err = run(*KNN, "--out", "a.npz", "--again")
    assert (status, err) == (0, "")
    assert len(releases) == 30
    assert names(tmp_path) == ["a.npz"]
    assert len(summary_in("a.npz")["earlier"]) == 1


def test_a_training_whose_results_were_not_written_is_not_drawn_again(run, tmp_path, monkeypatch):
    """Killed at the move of the results to their name."""

    def killed(*names):
        raise KeyboardInterrupt

    trained, train = [], LinearNoisySGD._train
    monkeypatch.setattr(LinearNoisySGD, "_train", lambda self, *given: (trained.append(self), train(self, *given))[1])
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        status, _, err = run(*NOISY_SGD, "--out", "a.npz")
    assert (status, "1 answer is kept in a.npz.journal; the same command goes on, for the same price" in err) == (
        130,
        True,
    )
    status, _, err = run(*NOISY_SGD, "--out", "a.npz")
    assert (status, err) == (0, "mechanisms: going on with the interrupted run in a.npz.journal, 1 answer is kept\n")
    assert names(tmp_path) == ["a.npz"]
    assert len(trained) == 1


def test_results_are_not_written_where_the_journal_was_removed(run, tmp_path, monkeypatch):
    """Another process may have begun there since: its results were replaced by these."""
    write = results_file.RunFiles.write

    def late(files, *given):
        files.journal.path.unlink()
        write(files, *given)

    monkeypatch.setattr(results_file.RunFiles, "write", late)
    status, out, err = run(*KNN, "--out", "a.npz")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "a.npz.journal: removed or replaced while it was open; accepted" in err
    assert not (tmp_path / "a.npz").exists()


def test_an_interrupted_second_release_goes_on(run, tmp_path, monkeypatch, releases):
    assert run(*KNN, "--out", "a.npz")[0] == 0
    before, answer = (tmp_path / "a.npz").read_bytes(), Part.answer

    def stops(self, query, *given):
        answer(self, query, *given)
        if query == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Part, "answer", stops)
        assert run(*KNN, "--out", "a.npz", "--again")[0] == 130
    assert (tmp_path / "a.npz").read_bytes() == before, "what was released before stays"
    assert run(*KNN, "--out", "a.npz")[2].endswith(f"{REFUSED}\n")
    status, _, err = run(*KNN, "--out", "a.npz", "--again")
    assert (status, err) == (
        0,
        "mechanisms: going on with the interrupted run in a.npz.again-1.journal, 5 answers are kept\n",
    )
    assert len(releases) == 30
    assert len(summary_in("a.npz")["earlier"]) == 1
    assert names(tmp_path) == ["a.npz"]


def test_a_later_release_without_the_results_before_it(run, tmp_path):
    with Journal(tmp_path / "a.npz.again-1.journal"):
        pass
    status, _, err = run(*KNN, "--out", "a.npz", "--again")
    assert status == 2
    assert "--out a.npz: is not there, but a.npz.again-1.journal of a later release is" in err


def test_a_journal_that_holds_nothing_is_not_gone_on_with(run, tmp_path):
    with Journal(tmp_path / "a.npz.journal"):
        pass
    assert run(*KNN, "--out", "a.npz")[2] == ""
    assert names(tmp_path) == ["a.npz"]


def test_a_run_refused_late_leaves_no_journal(run, tmp_path):
    """989 neighbours are fine for about 990 records, but not for 988."""
    status, _, err = run(*KNN, "--neighbors", 989, "--sampling-rate", 1, "--out", "a.npz")
    assert (status, err.count("\n")) == (2, 1)
    assert names(tmp_path) == []


def test_results_that_came_while_the_data_was_read(run, tmp_path, monkeypatch, releases):
    """Another process finishes after this one has checked the file and before its first draw."""
    open_journal = results_file.ResultsFile.open_journal

    def late(self):
        monkeypatch.setattr(results_file.ResultsFile, "open_journal", open_journal)
        assert main([*KNN, "--out", "a.npz"]) == 0
        return open_journal(self)

    monkeypatch.setattr(results_file.ResultsFile, "open_journal", late)
    status, _, err = run(*KNN, "--out", "a.npz")
    assert status == 2
    assert "another process has just finished a run into it" in err
    assert len(releases) == 15


def test_a_link_tells_of_the_same_releases(run, tmp_path):
    (tmp_path / "link.npz").symlink_to("a.npz")
    assert run(*KNN, "--out", "link.npz")[0] == 0
    assert (tmp_path / "link.npz").is_symlink()
    assert REFUSED in run(*KNN, "--out", "a.npz")[2]
    assert run(*KNN, "--out", "link.npz", "--again")[0] == 0
    status, out, _ = run(*KNN, "--out", "a.npz", "--again", "--json")
    assert status == 0
    assert len(json.loads(out)["earlier"]) == 2
