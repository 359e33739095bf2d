"""Tables as people have them: labels by name, columns matched by name, results that the next program reads."""

import csv
import io
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import accountant as ac
from mechanisms.budgets.store import open_store
from mechanisms.cli import main, results_file
from mechanisms.private_knn import PrivateKNN

NAMES = np.array(["cat", "dog", "été"])
COLUMNS = ["height", "weight", "tail"]
TARGET = [
    "--epsilon",
    300,
    "--delta",
    1e-5,
    "--sampling-rate",
    1,
    "--neighbors",
    5,
    "--queries",
    20,
    "--method",
    "renyi",
]


def make(rng, n):
    """Points in three far groups that differ in each column."""
    groups = rng.integers(0, 3, n)
    centres = np.array([[9.0, 0.0, -9.0], [-9.0, 9.0, 0.0], [0.0, -9.0, 9.0]])
    return dict(zip(COLUMNS, (centres[groups] + rng.normal(size=(n, 3))).T, strict=True)), NAMES[groups]


def write(path, columns):
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path)


def reverse(columns):
    return dict(reversed(columns.items()))


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        status = main([str(argument) for argument in arguments])
        return (status, *capsys.readouterr())

    return command


@pytest.fixture
def tables(tmp_path):
    """Private records and public points with identifiers; the truth about the points."""

    def make_files(ending="csv", change=lambda columns: columns, extra=None):
        rng = np.random.default_rng(1)
        (private, labels), (public, truth) = make(rng, 300), make(rng, 60)
        person = {"person": np.arange(1000, 1300)}
        kind = pa.array(labels).dictionary_encode() if ending != "csv" else labels
        write(tmp_path / f"private.{ending}", change(person | private | {"kind": kind}) | (extra or {}))
        write(tmp_path / f"public.{ending}", public | {"person": [f"q{i}" for i in range(60)]})
        sources = ["--private", f"private.{ending}", "--public", f"public.{ending}", "--label", "kind"]
        return [*sources, "--ids", "person"], truth

    return make_files


@pytest.mark.each_run(2)
@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("change", [lambda columns: columns, reverse], ids=["in order", "reversed"])
def test_labels_come_back_by_name_and_columns_are_matched_by_name(run, tables, tmp_path, ending, change):
    arguments, truth = tables(ending, change)
    command = ["label", "private-knn", *TARGET, *arguments, "--classes", ",".join(NAMES), "--out", "labels.csv"]
    status, _, err = run(*command)
    assert status == 0, err
    assert "3 features by name: " in err
    with open(tmp_path / "labels.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["id", "label", "answered", "prediction"]
    assert [row["id"] for row in rows] == [f"q{i}" for i in range(60)]
    answered = [(row["label"], right) for row, right in zip(rows, truth, strict=True) if row["answered"] == "true"]
    assert len(answered) == 20
    assert all(label == right for label, right in answered)
    assert {row["label"] for row in rows if row["answered"] == "false"} == {""}
    summary = json.loads((tmp_path / "labels.csv.json").read_text())
    assert summary["class_names"] == list(NAMES)
    before = (tmp_path / "labels.csv").read_bytes()
    status, _, err = run(*command)
    assert (status, err.count("\n")) == (2, 1)
    assert "holds the results of a finished run" in err
    assert (tmp_path / "labels.csv").read_bytes() == before
    (tmp_path / "labels.csv").unlink()
    assert "its summary labels.csv.json is; accepted: another name" in run(*command)[2]


def test_columns_on_one_side_are_refused_by_name(run, tables, tmp_path):
    arguments, _ = tables("parquet", extra={"id": np.arange(300)})
    command = ["label", "private-knn", *TARGET, *arguments, "--classes", ",".join(NAMES), "--out", "a.npz"]
    status, _, err = run(*command)
    assert (status, err.count("\n")) == (2, 1)
    assert "private.parquet: column 'id' is not a feature of public.parquet; accepted: " in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.parquet", "public.parquet"]
    status, _, err = run(*command, "--exclude", "Id,id")
    assert (status, err.count("\n")) == (2, 1)
    assert "--exclude Id: no table has that column; accepted: names among [" in err
    for extra in (["--exclude", "id"], ["--features", "tail,weight,height"]):
        status, _, err = run(*command, *extra, "--out", f"{extra[0][2:]}.npz")
        assert status == 0, err
        assert err.endswith("label: kind; ignored: id\n")


def test_text_columns_are_not_dropped_without_a_word(run, tables):
    arguments, _ = tables("parquet", extra={"town": ["Oslo"] * 300})
    command = ["label", "noisy-sgd", "--epsilon", 1, "--delta", 1e-5, "--steps", 3, *arguments]
    status, _, err = run(*command, "--classes", ",".join(NAMES), "--out", "a.npz")
    assert status == 0, err
    assert err.endswith("; ignored: town\n")


def test_names_are_learnt_with_a_warning(run, tables, tmp_path):
    arguments, _ = tables()
    command = ["label", "private-knn", *TARGET, *arguments, "--learn-classes", "--out", "a.parquet"]
    status, _, err = run(*command)
    assert status == 0, err
    assert "the names of all labels that occur in private records are released, and were not paid for" in err
    assert set(pyarrow.parquet.read_table(tmp_path / "a.parquet")["label"].to_pylist()) == {*NAMES, ""}
    (tmp_path / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    assert run(*command[:-3], "--classes", "@names.txt", "--out", "b.npz")[0] == 0


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--classes", "1"], "at least 2"),
        (["--classes", "@none.txt"], "No such file or directory; accepted: a file with a name on each line"),
        (["--standardize", "private"], "released without being paid for; accepted: public"),
        (["--features", "height,colour"], "public.csv: no column 'colour' among"),
        (["--features", "height,height"], "accepted: different names of columns"),
        (["--features", "kind,height"], "column 'kind' is a feature and is label"),
        (["--label", "sort"], "no column 'sort'; accepted: the name of one, among"),
        (["--exclude", "height,weight,tail"], "no column of numbers beside 'kind'"),
        (["--impute-public", "--data", "digits"], "--data was given with --private"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(run, tables, tmp_path, extra, message):
    arguments, _ = tables()
    command = ["label", "private-knn", *TARGET, *arguments, "--classes", ",".join(NAMES), "--out", "a.csv", *extra]
    status, out, err = run(*command)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.csv", "public.csv"]


def test_missing_values_are_refused_or_become_public_means(run, tmp_path):
    (tmp_path / "private.csv").write_text("x,y,label\n" + "1,2,0\n,3,1\n2,2,0\n3,1,1\n" * 5)
    (tmp_path / "public.csv").write_text("y,x\n5,1\n7,\n6,3\n")
    command = ["label", "noisy-sgd", "--private", "private.csv", "--public", "public.csv", "--epsilon", 9]
    command += ["--delta", 1e-5, "--steps", 2, "--classes", 2, "--out", "a.csv"]
    status, _, err = run(*command)
    assert (status, err.count("\n")) == (2, 1)
    assert "public.csv: record 1 has no value in column 'x'" in err
    assert not (tmp_path / "a.csv").exists()
    status, _, err = run(*command, "--impute-public", "--standardize", "public")
    assert status == 0, err
    assert [row.split(",")[0] for row in (tmp_path / "a.csv").read_text().split()] == ["id", "0", "1", "2"]


# --- a stream of queries --------------------------------------------------------------------------------


@pytest.fixture
def stream(run, tables, monkeypatch):
    arguments, _ = tables()
    arguments[3] = "-"

    def answer(text, *extra):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        more = ["--classes", ",".join(NAMES), "--epsilon", 8, "--delta", 1e-5, "--store", "budgets.db"]
        more += ["--threshold", 0.5, "--vote-sigma", 0.3, "--queries", 40]
        return run("predict", "ind-knn", *arguments, *more, *extra)

    return answer


LINES = ["tail,person,height,weight", "-9,a,9,0", "0,b,-9,9", "9,c,0,-9", "-8.5,d,9.5,1"]


def spent(path):
    with open_store(path) as store:
        return store.spent(np.arange(300))


def test_a_stream_is_answered_and_the_same_query_is_not_charged_again(stream, tmp_path):
    status, out, err = stream("\n".join(LINES[:3]) + "\n")
    assert (status, out) == (0, "id,label\na,cat\nb,dog\n"), err
    first = spent(tmp_path / "budgets.db")
    assert first.any()
    status, again, _ = stream("\n".join(LINES[:3]) + "\n")
    assert (status, again) == (0, out)
    assert np.array_equal(spent(tmp_path / "budgets.db"), first)
    status, more, _ = stream("\n".join(LINES) + "\n", "--json")
    assert [json.loads(line)["id"] for line in more.splitlines()] == ["a", "b", "c", "d"]
    assert (spent(tmp_path / "budgets.db") > first).any()


def test_zero_has_one_sign_and_a_carriage_return_begins_no_line(stream):
    status, out, _ = stream(LINES[0] + '\n-9,"a\rb,cat",9,0\n-9,"a\rb,cat",9,-0\n-9,"a\rb,cat",9,-1e-60\n')
    assert (status, out) == (0, "id,label\n" + 3 * '"a\rb,cat",cat\n')
    with open_store("budgets.db") as store, store._open() as run:
        assert sum("stream" in name for (name,) in run("SELECT name FROM knn_runs")) == 1


def test_a_bad_line_costs_nothing_and_loses_no_answer(stream, tmp_path):
    status, out, err = stream("\n".join([*LINES[:2], "0,b,-9"]) + "\n")
    assert (status, out) == (2, "id,label\na,cat\n")
    assert err.endswith("standard input, line 3: 3 values; accepted: 4\n")
    first = spent(tmp_path / "budgets.db")
    for line, message in (("0,b,-9,x", "'x'; accepted: numbers"), ("0,b,-9,1e300", "'1e300'"), ("0,b,nan,1", "'nan'")):
        status, out, err = stream("\n".join([*LINES[:2], line]) + "\n")
        assert (status, out) == (2, "id,label\na,cat\n")
        assert message in err
    assert np.array_equal(spent(tmp_path / "budgets.db"), first)


@pytest.mark.parametrize(
    ("text", "extra", "message"),
    [
        ("height,weight\n", [], "column 'tail' on one side only"),
        ("height,weight,tail,tail\n", [], "column 'tail' twice"),
        ("", ["--out", "a.csv"], "--out was given with --public -"),
        ("", ["--seed", 1], "without --seed"),
        ("", ["--data", "digits"], "--data was given with --public -"),
        ("", ["--exclude", "hight"], "--exclude hight: no table has that column"),
    ],
)
def test_streams_that_are_refused(stream, text, extra, message, tmp_path):
    status, out, err = stream(text, *extra)
    assert (status, out) == (2, "")
    assert message in err.splitlines()[-1]
    assert not (tmp_path / "budgets.db").exists()


def test_a_first_line_that_is_refused_leaves_no_store(stream, tmp_path):
    status, out, err = stream(f"{LINES[0]}\n0,b,-9,x\n")
    assert (status, out) == (2, "id,label\n")
    assert err.endswith("standard input, line 2: 'x'; accepted: numbers in [-1e15, 1e15]\n")
    assert stream(LINES[0])[:2] == (0, "id,label\n")
    assert not list(tmp_path.glob("budgets*"))


# --- killed between a table and its summary -------------------------------------------------------------


@pytest.mark.each_run(1)
@pytest.mark.parametrize("kill", ["table", "summary"])
@pytest.mark.parametrize("again", [False, True])
def test_killed_between_a_table_and_its_summary(run, tables, tmp_path, monkeypatch, kill, again):
    arguments, _ = tables()
    command = ["label", "private-knn", *TARGET, *arguments, "--classes", ",".join(NAMES), "--out", "labels.csv"]
    if again:
        assert run(*command)[0] == 0
        command += ["--queries", 15, "--again"]
    with monkeypatch.context() as patched:
        finish = results_file._finish_csv
        open_whole = ac.files.open_whole

        def die_at_the_table(path, **options):
            if path.name == "labels.csv":
                raise KeyboardInterrupt
            return open_whole(path, **options)

        def die_at_the_summary(path):
            if (tmp_path / "labels.csv.json.waiting").exists():
                raise KeyboardInterrupt
            finish(path)

        patched.setattr(os, "remove", lambda path: None)  # a killed process tidies nothing
        if kill == "table":
            patched.setattr(ac.files, "open_whole", die_at_the_table)
        else:
            patched.setattr(results_file, "_finish_csv", die_at_the_summary)
        assert run(*command)[0] == 130
    before = (tmp_path / "labels.csv").read_bytes() if kill == "summary" else None
    drawn = []
    release = PrivateKNN._release
    monkeypatch.setattr(PrivateKNN, "_release", lambda self, *given: (drawn.append(1), release(self, *given))[1])
    status, _, err = run(*command[: len(command) - again] if kill == "summary" else command)
    if kill == "summary":
        assert (status, err.splitlines()[-1].partition(": holds")[1]) == (2, ": holds")
        assert (tmp_path / "labels.csv").read_bytes() == before
    else:
        assert status == 0, err
    assert not drawn, err
    assert len(json.loads((tmp_path / "labels.csv.json").read_text())["earlier"]) == again
    assert not list(tmp_path.glob("*.waiting"))


def test_the_same_labels_again_need_no_new_table(run, tables, tmp_path, monkeypatch):
    arguments, _ = tables()
    command = ["label", "private-knn", *TARGET, *arguments, "--classes", ",".join(NAMES), "--out", "labels.csv"]
    assert run(*command)[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr(ac.files, "write_text", lambda *given, **options: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(*command, "--again")[0] == 130
    status, _, err = run(*command, "--again")
    assert status == 0
    assert "going on with the interrupted run" in err
    assert len(json.loads((tmp_path / "labels.csv.json").read_text())["earlier"]) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("option", ["--ids", "--label"])
def test_a_column_that_is_not_there_is_told_with_those_that_are(run, tables, ending, option):
    arguments, _ = tables(ending)
    command = ["label", "private-knn", *TARGET, *arguments, "--classes", ",".join(NAMES), "--out", "labels.csv"]
    command[command.index(option) + 1] = "persn"
    status, out, err = run(*command)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"mechanisms: {option}: private.{ending} has no column 'persn'; accepted: the name of one")
    assert all(repr(name) in err for name in (*COLUMNS, "person", "kind"))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (COLUMNS, "3 features by name: height, weight, tail; label: label"),
        ([f"pixel{i}" for i in range(64)], "64 features by name: pixel0, pixel1, pixel2, pixel3, pixel4,"),
    ],
)
def test_names_of_columns_stand_between_no_quotation_marks(run, tmp_path, names, said):
    rng = np.random.default_rng(2)
    for place, more in (("private", {"label": rng.integers(0, 3, 40)}), ("public", {})):
        write(tmp_path / f"{place}.csv", {name: rng.random(40) for name in names} | more)
    sources = ["--private", "private.csv", "--public", "public.csv", "--classes", 3]
    status, _, err = run("label", "private-knn", *TARGET, *sources, "--dry-run")
    assert status == 0, err
    (line,) = [line for line in err.splitlines() if "features by name" in line]
    assert said in line
    assert "'" not in line
