"""The labelling command: tables for people, JSON for programs, results in files, one line for every mistake."""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import accountant as ac
from mechanisms.budgets.journal import Journal, Part
from mechanisms.cli import main
from mechanisms.datasets import Dataset, digits, private_public_test_split
from mechanisms.exclusive import UsageError
from mechanisms.experiment.labelling import Experiment, Setting
from tests.places import empty_folder

KNN = ["label", "private-knn", "--data", "digits", "--epsilon", "2", "--delta", "1e-4"]
SEEDED = [*KNN, "--seed", "3"]
WARNING = "mechanisms: reproducible noise: not private against whoever knows the seed\n"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """A directory for results that a test does not look at."""
    with empty_folder() as place:
        monkeypatch.chdir(place)
        yield
        monkeypatch.undo()


def run(capsys, *arguments):
    """Run a command; a labelling command that names no file gets one, which is removed."""
    if arguments[:1] == ("label",) and not {"--out", "--dry-run", "--again"} & set(arguments):
        arguments = [*arguments, "--out", "unnamed.npz"]
        Path("unnamed.npz").unlink(missing_ok=True)
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def summary(capsys, *arguments):
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, WARNING if "--seed" in arguments else "")
    return json.loads(out)


def accuracies(text):
    """What a table of diagnostics prints."""
    rows = re.findall(r"│ (\S.* accuracy) +│ (not known|[\d.]+ %) +│", text)
    return {name.strip(): None if value == "not known" else float(value[:-2]) / 100 for name, value in rows}


# --- what it prints ------------------------------------------------------------------------------------


def test_table(capsys):
    status, out, err = run(capsys, *KNN)
    assert (status, err) == (0, "")
    for words in ("answered", "the number of records is public: --data is cut by it", "-DP under add-remove"):
        assert words in out
    assert "accuracy" not in out


def test_diagnostics_are_for_the_terminal_alone(capsys, tmp_path):
    status, out, err = run(capsys, *KNN, "--diagnostics", "--out", tmp_path / "a.npz")
    assert (status, err) == (0, "")
    before, found = out.split("not private: do not publish")
    assert "accuracy" not in before
    right = accuracies(found)
    assert 0.7 < right["label accuracy"] <= 1
    assert 0.6 < right["student accuracy"] < right["non-private accuracy"]
    with np.load(tmp_path / "a.npz") as results:
        assert "accuracy" not in str(results["summary"])
        assert sorted(results) == ["answered", "id", "label", "prediction", "summary"]


def test_diagnostics_stay_out_of_json(capsys):
    status, out, err = run(capsys, *SEEDED, "--diagnostics", "--json")
    assert status == 0
    assert "accuracy" not in out
    warning, table = err.split("not private: do not publish")
    assert warning == WARNING
    assert accuracies(table)["student accuracy"] > 0.6
    assert json.loads(out) == summary(capsys, *SEEDED)


def test_json(capsys):
    found = summary(capsys, *SEEDED)
    assert 1.99 < found["epsilon"] <= 2
    assert found["delta"] == 1e-4
    assert found["adjacency"] == "add-remove"
    assert found["answered"] == found["queries"] == found["labelled"]
    assert found["planned"] == found["spent"] == [{"event": found["spent"][0]["event"], "count": found["queries"]}]
    spent = found["queries"] * ac.PoissonSubsampled(ac.GNMax(found["noise"]), 0.5)
    assert ac.composition_from_tables(found["releases"]) == spent
    assert found["total"] == {"epsilon": found["epsilon"], "delta": 1e-4}
    assert found["earlier"] == []
    assert found["seeded"] is True
    assert "seed" not in found["setting"], "whoever reads the seed knows the noise"
    assert not {key for key in found if "accuracy" in key}
    assert summary(capsys, *SEEDED) == found


@pytest.mark.each_run(1)
@pytest.mark.parametrize("mechanism", ["private-knn", "gnmax", "lnmax", "noisy-sgd"])
def test_every_mechanism_keeps_the_target(capsys, mechanism):
    status, out, err = run(capsys, "label", mechanism, *KNN[2:], "--seed", 0, "--diagnostics", "--json")
    assert status == 0
    assert 1.99 < json.loads(out)["epsilon"] <= 2
    assert accuracies(err)["student accuracy"] > 0.4


def test_a_seed_is_warned_about_once(capsys, tmp_path):
    assert run(capsys, *SEEDED)[2] == WARNING
    assert run(capsys, *SEEDED, "--out", tmp_path / "a.npz")[2] == WARNING
    assert run(capsys, "label", "reverse-knn", *KNN[2:], "--seed", 1)[2] == WARNING
    assert run(capsys, *KNN)[2] == ""
    assert WARNING not in run(capsys, *SEEDED, "--queries", 1000)[2], "refused before it matters"


def test_the_price_is_that_of_what_was_planned(capsys):
    found = summary(capsys, *SEEDED, "--rounds", 2, "--queries", 30, "--screening-ratio", 3, "--max-labels", 12)
    private, rate, k = found["records"]["private"], found["setting"]["sampling_rate"], round(0.1 * 990 * 0.5)
    assert private == 990
    screening = ac.PoissonSubsampled(ac.NoisyScreening(3 * found["noise"], 0.6 * k, k), rate)
    votes = ac.PoissonSubsampled(ac.GNMax(found["noise"]), rate)
    assert found["epsilon"] == ac.epsilon(60 * screening + 24 * votes, 1e-4, tolerance=0.01).epsilon <= 2
    assert found["queries"] == 60
    assert found["answered"] <= 24
    assert found["spent"][0]["count"] <= 60


@pytest.mark.each_run(1)
@pytest.mark.parametrize("stops", [None, 5, 15], ids=["whole", "early", "late"])
@pytest.mark.parametrize("mechanism", ["private-knn", "gnmax"])
def test_nothing_exceeds_what_was_fixed(capsys, tmp_path, monkeypatch, mechanism, stops):
    """With rounds, caps and interruptions, what was spent stays within the plan for every event."""
    budget = ["--epsilon", 40, "--delta", 1e-4, "--queries", 25, "--rounds", 2, "--max-labels", 9]
    arguments = ["label", mechanism, "--data", "digits", *budget, "--screening-ratio", 2, "--out", tmp_path / "a.npz"]
    arguments += ["--teachers", 20, "--teacher", "nearest"] if mechanism == "gnmax" else []
    if stops is not None:
        left, answer = [stops], Part.answer

        def stopping(self, *given):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            answer(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(Part, "answer", stopping)
            assert run(capsys, *arguments)[0] == 130
    status, out, _ = run(capsys, *arguments, "--again", "--json")
    assert status == 0
    found = json.loads(out)
    planned = {each["event"]: each["count"] for each in found["planned"]}
    assert sorted(planned.values()) == [18, 50]
    for each in found["spent"]:
        assert each["count"] <= planned[each["event"]]
    assert found["labelled"] <= found["answered"] <= 18


# --- results in files ----------------------------------------------------------------------------------


def test_results(capsys, tmp_path):
    found = summary(capsys, *SEEDED, "--out", tmp_path / "a.npz")
    summary(capsys, *SEEDED, "--out", tmp_path / "a.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "a.parquet"]
    with np.load(tmp_path / "a.npz") as results:
        assert results["label"].shape == results["prediction"].shape == (503,)
        assert np.array_equal(results["answered"], results["label"] >= 0)
        assert results["answered"].sum() == found["labelled"]
        assert json.loads(str(results["summary"])) == found
        table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
        for name in ("label", "answered", "prediction"):
            assert np.array_equal(table[name].to_numpy(), results[name])
    assert json.loads(table.schema.metadata[b"summary"])["epsilon"] == found["epsilon"]


def test_interrupted_run_goes_on(capsys, tmp_path, monkeypatch):
    whole = summary(capsys, *SEEDED, "--out", tmp_path / "a.npz")
    labels = np.load(tmp_path / "a.npz")["label"]

    def stops(self, query, answer, state):
        if query == 7:
            raise KeyboardInterrupt
        kept(self, query, answer, state)

    kept = Part.answer
    with monkeypatch.context() as patched:
        patched.setattr(Part, "answer", stops)
        status, out, err = run(capsys, *SEEDED, "--out", tmp_path / "b.npz")
        kept_in = f"7 answers are kept in {tmp_path}/b.npz.journal"
        said = f"mechanisms: interrupted: {kept_in}; the same command goes on, for the same price\n"
        assert (status, out, err) == (130, "", WARNING + said)
    assert not (tmp_path / "b.npz").exists()
    status, _, err = run(capsys, *SEEDED, "--out", tmp_path / "b.npz")
    assert status == 0
    assert (
        err
        == f"{WARNING}mechanisms: going on with the interrupted run in {tmp_path}/b.npz.journal, 7 answers are kept\n"
    )
    with np.load(tmp_path / "b.npz") as results:
        assert np.array_equal(results["label"], labels)
        assert json.loads(str(results["summary"]))["spent"] == whole["spent"]
    assert not list(tmp_path.glob("*.journal*"))


def test_another_run_does_not_go_on(capsys, tmp_path):
    with Journal(tmp_path / "a.npz.journal") as journal:
        journal.part({"seed": "another"})
    status, out, err = run(capsys, *SEEDED, "--out", tmp_path / "a.npz")
    assert (status, out) == (2, "")
    assert "holds a run with other" in err
    assert "going on" not in err
    assert (tmp_path / "a.npz.journal").exists()


def test_own_files(capsys, tmp_path):
    parts = private_public_test_split(digits(), (900, 400, 300), 0)
    np.savez(tmp_path / "private.npz", features=parts.private.features, labels=parts.private.labels)
    np.savez(tmp_path / "public.npz", features=parts.public.features)
    files = ["--private", tmp_path / "private.npz", "--public", tmp_path / "public.npz", "--classes", 10, "--seed", 0]
    arguments = [*KNN[:2], *KNN[4:], *files]
    found = summary(capsys, *arguments)
    assert found["records"] == {"private": 900, "public": 400, "test": None}
    assert found["also_public"] == ["about 900 records (public)"]
    status, out, _ = run(capsys, *arguments, "--diagnostics")
    assert status == 0
    assert accuracies(out) == dict.fromkeys(("label accuracy", "student accuracy", "non-private accuracy"))
    np.savez(tmp_path / "test.npz", features=parts.test.features, labels=parts.test.labels)
    status, out, _ = run(capsys, *arguments, "--diagnostics", "--test", tmp_path / "test.npz")
    assert accuracies(out)["student accuracy"] > 0.6


def test_a_column_of_identifiers_is_no_feature(capsys, tmp_path):
    parts = private_public_test_split(digits(), (300, 60, 10), 0)

    def write(name, part, names):
        header = [*names, *(f"p{i}" for i in range(64)), *(["label"] if names else [])]
        rows = [
            [*([f"P{i}"] if names else []), *row.tolist(), *([label] if names else [])]
            for i, (row, label) in enumerate(zip(part.features, part.labels, strict=True))
        ]
        lines = [",".join(map(str, line)) for line in (header, *rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    write("private.csv", parts.private, ["person"])
    write("public.csv", parts.public, [])
    files = ["--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv", "--classes", 10]
    arguments = ["label", "noisy-sgd", *KNN[4:], "--steps", 5, *files]
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert "column 'person' holds 'P0', not a number" in err
    status, _, _ = run(capsys, *arguments, "--ids", "person")
    assert status == 0


# --- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.each_run(22)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["label", "knn"], "invalid choice: 'knn'"),
        (KNN[:-2], "required: --delta"),
        ([*KNN[:2], *KNN[4:]], "accepted: --data SOURCE [--split A,B,C], or --private SOURCE --public SOURCE"),
        ([*KNN, "--public", "x.npz"], "--data was given with --private, --public or --test"),
        ([*KNN[:3], "digit", *KNN[4:]], "did you mean 'digits'?"),
        ([*KNN, "--split", "1,2"], "--split 1,2: accepted: three shares"),
        ([*KNN, "--split", "900,900,1"], "three whole numbers that sum to at most 1797"),
        ([*KNN, "--split", "0.5,0.5,0"], "--split 0.5,0.5,0: accepted"),
        ([*KNN, "--split", "a,b,c"], "--split a,b,c: accepted"),
        ([*KNN, "--epsilon", "-1"], "epsilon = -1"),
        ([*KNN, "--threshold", "20"], "threshold = 20.0 without screening; accepted: with screening_ratio or"),
        ([*KNN, "--epsilon", "many"], "'many' is not a number"),
        ([*KNN, "--delta", "1"], "delta = 1 is out of range"),
        ([*KNN, "--delta", "0"], "accepted"),
        ([*KNN, "--neighbors", "5000"], "neighbors = 5000; accepted: an integer in [1, 990]"),
        ([*KNN, "--sampling-rate", "0"], "sampling_rate = 0.0; accepted: (0, 1]"),
        ([*KNN, "--queries", "504"], "queries = 504; accepted: an integer in [1, 503]"),
        ([*KNN, "--max-labels", "0"], "'0' is not a positive integer"),
        ([*KNN, "--screening-ratio", "-1"], "sigma"),
        ([*KNN, "--classes", "5"], "digits: record 0 has label 6; accepted: 0..4, of 5 classes"),
        ([*KNN, "--classes", "0"], "'0'; accepted: a number such as 10, or two or more different names"),
        ([*KNN, "--classes", "cat"], "'cat'; accepted: a number such as 10, or two or more different names"),
        ([*KNN, "--classes", "3,5,3"], "'3,5,3'; accepted: a number such as 10, or two or more different names"),
        ([*KNN, "--classes", "3,5,"], "'3,5,'; accepted: a number such as 10, or two or more different names"),
        ([*KNN, "--classes", "3,5,8"], "has label 0; accepted: 3, 5, 8"),
        ([*KNN, "--classes", "10", "--learn-classes"], "--classes was given with --learn-classes"),
        ([*KNN, "--records", "0"], "'0' is not a positive integer"),
        ([*KNN, "--again"], "--again was given without --out"),
        ([*SEEDED, "--again", "--out", "a.npz"], "--again was given with --seed: its noise could repeat"),
        (["label", "reverse-knn", *KNN[2:], "--records", "900"], "--records 900 was given with --adjacency replace"),
        ([*KNN, "--seed", "-1"], "'-1' is not an integer >= 0"),
        ([*KNN, "--out", "labels.txt"], "--out 'labels.txt'; accepted: a file ending in .npz, .parquet, .csv"),
        ([*KNN, "--out", "nowhere/labels.npz"], "accepted: a file in an existing directory"),
        (["label", "gnmax", *KNN[2:], "--teachers", "991"], "teachers = 991; accepted: an integer in [1, 990]"),
        (["label", "gnmax", *KNN[2:], "--neighbors", "3"], "unrecognized arguments: --neighbors 3"),
    ],
)
def test_mistakes(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("mechanisms: ")
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())


def test_hog_needs_images_and_students_one_label(tmp_path):
    rng = np.random.default_rng(0)
    plain = Dataset("plain", rng.normal(size=(50, 3)), rng.integers(0, 2, 50))
    setting = Setting("private-knn", 1.0, 1e-4, features="hog", seed=0)
    with pytest.raises(ac.ParameterError, match="features = 'hog' needs images"):
        Experiment(setting, plain, plain).run()
    with pytest.raises(ac.ParameterError, match="student = 'conv' needs images"):
        Experiment(Setting("private-knn", 1.0, 1e-4, student="conv"), plain, plain)
    sets = Dataset("sets", rng.normal(size=(50, 3)), rng.integers(0, 2, (50, 4)))
    with pytest.raises(ac.ParameterError, match="one label for each record"):
        Experiment(Setting("private-knn", 1.0, 1e-4), sets, plain)
    with pytest.raises(ac.ParameterError, match=r"records of \[3, 64\] columns"):
        Experiment(Setting("private-knn", 1.0, 1e-4), plain, digits())


def test_settings_are_checked():
    for changes, message in (
        ({"mechanism": "knn"}, "mechanism = 'knn'; accepted: private-knn, gnmax, lnmax, noisy-sgd"),
        ({"student": "tree"}, "student = 'tree'; accepted: network, conv"),
        ({"teacher": "tree"}, "teacher = 'tree'; accepted: logistic, nearest"),
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": 1001}, r"rounds = 1001; accepted: an integer in \[1, 1000\]"),
        ({"max_labels": "abc", "screening_ratio": 3.0}, "max_labels = 'abc'; accepted: an integer in"),
        ({"max_labels": float("inf"), "screening_ratio": 3.0}, "max_labels = inf; accepted: an integer in"),
    ):
        with pytest.raises(ac.ParameterError, match=message):
            Setting(**{"mechanism": "gnmax", "epsilon": 1.0, "delta": 1e-4, **changes})


@pytest.mark.audit
def test_more_budget_asks_more():
    parts = private_public_test_split(digits(), (1000, 497, 300), 0)
    asked = [
        Experiment(Setting("private-knn", epsilon, 1e-4), parts.private, parts.public).queries
        for epsilon in (0.1, 4.0, 8.0, 1e4)
    ]
    assert asked[0] == 12
    assert 12 < asked[1] < asked[2] < asked[3] == 497


@pytest.mark.each_run(1)
@pytest.mark.parametrize("mechanism", ["private-knn", "gnmax", "noisy-sgd"])
def test_an_experiment_runs_once(mechanism):
    """Its guarantee, fixed before the first release, would not cover a second run."""
    parts = private_public_test_split(digits(), (300, 100, 50), 0)
    experiment = Experiment(Setting(mechanism, 1.0, 1e-4, steps=5), parts.private, parts.public, parts.test)
    outcome = experiment.run()
    assert outcome.diagnostics is None
    assert dict(outcome.spent) == dict(outcome.planned) == dict(experiment.planned)
    with pytest.raises(UsageError, match=r"Experiment\.run was called before"):
        experiment.run()
    with pytest.raises(UsageError, match="a copy of a Experiment that has been used"):
        copy.copy(experiment)


@pytest.mark.audit
def test_module_runs_as_a_command():
    result = subprocess.run([sys.executable, "-m", "mechanisms", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"mechanisms {ac.__version__}\n")


def test_a_diagnosis_that_fails_costs_no_results(capsys, tmp_path, monkeypatch):
    from mechanisms.students import NetworkStudent

    fit = NetworkStudent.fit

    def only_public(self, points, labels):
        if len(points) > 600:  # the private records
            raise ValueError("cannot be trained")
        return fit(self, points, labels)

    monkeypatch.setattr(NetworkStudent, "fit", only_public)
    out = tmp_path / "labels.npz"
    status, said, _ = run(capsys, "label", "noisy-sgd", *KNN[2:], "--steps", 5, "--diagnostics", "--out", out)
    assert status == 0
    assert out.exists()
    assert "not known" in said
