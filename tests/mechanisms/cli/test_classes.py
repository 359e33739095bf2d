"""Classes are a public option: nothing that is printed, written or drawn follows from private labels."""

import json
import tempfile

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.cli.data import LEARNT_CLASSES
from mechanisms.datasets import Dataset, digits
from mechanisms.experiment.labelling import Experiment, Setting
from tests.cases import audit_after

RNG = np.random.default_rng(0)
PRIVATE, PUBLIC = RNG.normal(size=(400, 5)), RNG.normal(size=(300, 5))
FOUR = np.arange(400) % 4


def run(capsys, *arguments):
    """Run a command; without `--out` its results go to a file that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        out = [] if "--out" in arguments else ["--out", f"{folder}/out.npz"]
        status = main([str(argument) for argument in (*arguments, *out)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def arguments(tmp_path):
    """A command on private records with these labels."""

    def command(labels, mechanism="private-knn", ending="npz"):
        where = [tmp_path / f"private.{ending}", tmp_path / "public.npz"]
        np.savez(where[1], features=PUBLIC)
        if ending == "npz":
            np.savez(where[0], features=PRIVATE, labels=labels)
        else:
            columns = {f"x{i}": PRIVATE[:, i] for i in range(5)} | {"label": labels}
            table = pyarrow.table(columns)
            write = pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table
            write(table, where[0])
        target = ["--epsilon", 1, "--delta", 1e-5, "--private", where[0], "--public", where[1]]
        return ["label", mechanism, *target]

    return command


@pytest.mark.each_run(1)
@pytest.mark.parametrize("mechanism", ["private-knn", "gnmax", "lnmax", "noisy-sgd", "reverse-knn"])
def test_one_class_instead_of_four_changes_nothing_that_is_fixed(capsys, arguments, mechanism):
    found = []
    for labels in (FOUR, np.zeros(400, int)):
        status, out, err = run(capsys, *arguments(labels, mechanism), "--classes", 4, "--json")
        assert (status, err) == (0, "")
        found.append({key: value for key, value in json.loads(out).items() if key != "out"})
    first, second = found
    assert first["noise"] > 0
    assert first == second


@pytest.mark.parametrize("mechanism", ["private-knn", "noisy-sgd", "reverse-knn"])
def test_classes_are_not_learnt_unasked(capsys, arguments, mechanism):
    status, out, err = run(capsys, *arguments(FOUR, mechanism))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    for words in ("the format does not fix the number of classes", "--classes N", "--learn-classes"):
        assert words in err


def test_learnt_classes_say_what_they_release(capsys, arguments):
    status, out, err = run(capsys, *arguments(FOUR), "--learn-classes", "--json")
    assert (status, err) == (0, f"mechanisms: {LEARNT_CLASSES}\n")
    assert json.loads(out)["classes"] == 4
    assert LEARNT_CLASSES in json.loads(out)["also_public"]


def test_public_labels_teach_no_classes(capsys, arguments, tmp_path):
    command = arguments(FOUR)
    np.savez(tmp_path / "public.npz", features=PUBLIC, labels=np.arange(300))
    status, out, _ = run(capsys, *command, "--learn-classes", "--json")
    assert (status, json.loads(out)["classes"]) == (0, 4)
    status, _, err = run(capsys, *command, "--classes", 4)
    assert status == 2
    assert "public.npz: record 4 has label 4; accepted: 0..3" in err


WORDS, NUMBERS = ("cat", "dog", "bird", "ox"), ("3", "5", "8", "13")
NAMED = [(WORDS, "npz"), (NUMBERS, "csv"), (NUMBERS, "parquet"), (WORDS, "csv"), (WORDS, "parquet"), (NUMBERS, "npz")]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("names", "ending"), audit_after(3, NAMED))
def test_named_classes_give_names_back(capsys, arguments, tmp_path, ending, names):
    raw = np.array(names)[FOUR]
    raw = raw.astype(int) if names[0] == "3" and ending != "csv" else raw
    outs = [tmp_path / "a.npz", tmp_path / "a.parquet"]
    for out in outs:
        options = ["--classes", ",".join(names), "--queries", 80, "--epsilon", 300, "--out", out]
        options += ["--screening-ratio", 3, "--threshold", 17, "--method", "renyi"]
        status, _, err = run(capsys, *arguments(raw, ending=ending), *options)
        assert (status, err) == (0, "")
    with np.load(outs[0]) as found:
        labels, answered, predictions = (found[name] for name in ("label", "answered", "prediction"))
        assert json.loads(str(found["summary"]))["class_names"] == list(names)
    table = pyarrow.parquet.read_table(outs[1])
    for each in (labels, np.array(table["label"].to_pylist())):
        assert 0 < np.count_nonzero(each == "") < 300
        assert set(each) <= {*names, ""}
    assert np.array_equal(labels != "", answered)
    assert set(predictions) <= set(names)


def test_names_are_numbered_in_the_order_of_the_list(capsys, arguments, tmp_path):
    """With the same records and a permuted list of names, the same points get the same names."""
    found = []
    for names in ("cat,dog,bird,ox", "ox,bird,dog,cat"):
        out = tmp_path / f"{names}.npz"
        options = [
            "--classes",
            names,
            "--epsilon",
            1e5,
            "--sampling-rate",
            1,
            "--neighbors",
            1,
            "--queries",
            60,
            "--method",
            "renyi",
            "--out",
            out,
        ]
        assert run(capsys, *arguments(np.array(["cat", "dog", "bird", "ox"])[FOUR]), *options)[0] == 0
        with np.load(out) as results:
            found.append(results["label"])
    assert np.array_equal(*found)
    assert len(set(found[0]) - {""}) == 4


def test_labels_outside_the_list_are_refused(capsys, arguments):
    status, _, err = run(capsys, *arguments(np.array(["cat", "dog"])[FOUR % 2]), "--classes", "cat,bird")
    assert status == 2
    assert "private.npz: record 1 has label 'dog'; accepted: cat, bird" in err


def test_the_format_tells_the_classes(capsys):
    """Digits without a nine are still ten classes."""
    data = digits()
    assert data.classes == 10
    private = data.take(np.flatnonzero(data.labels < 9))
    setting = Setting("private-knn", 1.0, 1e-5)
    assert Experiment(setting, private, data).n_classes == 10
    bare = Dataset("bare", private.features, private.labels)
    assert Experiment(setting, bare, bare).n_classes == 9
    with pytest.raises(ac.ParameterError, match="classes = 8"):
        Experiment(setting, bare, bare, n_classes=8)
