"""`mechanisms label private-knn` over partitions: the same labels, and one line for what does not go together."""

import json
import re
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.budgets import open_store
from mechanisms.budgets.ledger import close_ledgers
from mechanisms.cli import main, sharded
from mechanisms.shards import engine
from tests.mechanisms.shards.kills import Programs
from tests.mechanisms.shards.tables import QUERIES, write_parquet

SETTINGS = ["--epsilon", "20", "--delta", "1e-5", "--sampling-rate", "0.5", "--neighbors", "50", "--queries", "40"]


class NoClient:
    """Stands for a client of a cluster; tasks run in this thread."""

    dashboard_link = "nowhere"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def files(tmp_path):
    folder = write_parquet(tmp_path / "records", lists=False)
    columns = {f"f{j}": QUERIES[:, j] for j in range(6)}
    pq.write_table(pa.table({**columns, "person": [f"query {i}" for i in range(40)]}), tmp_path / "public.parquet")
    return folder, tmp_path / "public.parquet", tmp_path / "out.csv"


def options(files, *more):
    folder, public, out = files
    return ["label", "private-knn", "--private", str(folder), "--public", str(public), "--ids", "person", *more,
            "--out", str(out), *SETTINGS]  # fmt: skip


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore:partitions of about")
def test_the_labels_are_those_of_the_whole_table(files, capsys, monkeypatch):
    monkeypatch.setattr(sharded, "_connect", lambda *_: NoClient())
    with dask.config.set(scheduler="synchronous"):
        assert main(options(files, "--classes", "3", "--workers", "2", "--seed", "5", "--json")) == 0
    said = json.loads(capsys.readouterr().out)
    whole = files[0].parent / "whole.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(each) for each in sorted(files[0].iterdir())]), whole)
    there = files[2].read_text()
    again = (whole, files[1], files[2].with_name("whole.csv"))
    assert main(options(again, "--classes", "3", "--seed", "5", "--json")) == 0
    other = json.loads(capsys.readouterr().out)
    assert there == again[2].read_text()
    assert said["epsilon"] == other["epsilon"]
    assert "query 7," in there


def reverse(files, *more):
    folder, public, out = files
    return ["label", "reverse-knn", "--private", str(folder), "--public", str(public), "--ids", "person", *more,
            "--out", str(out), "--epsilon", "2", "--delta", "0", "--queries", "8", "--neighbors", "2"]  # fmt: skip


def predict(files, *more):
    folder, public, out = files
    return ["predict", "ind-knn", "--private", str(folder), "--public", str(public), "--ids", "person", *more,
            "--out", str(out), "--epsilon", "8", "--delta", "1e-5", "--threshold", "0.4"]  # fmt: skip


@pytest.mark.filterwarnings("ignore:partitions of about")
@pytest.mark.parametrize(("command", "more"), [(reverse, ["--rounds", "2"]), (predict, [])])
def test_the_other_mechanisms_give_what_they_give_for_the_whole_table(files, capsys, monkeypatch, command, more):
    monkeypatch.setattr(sharded, "_connect", lambda *_: NoClient())
    given = ["--classes", "3", "--seed", "5", "--json", *more]
    with dask.config.set(scheduler="synchronous"):
        assert main(command(files, *given, "--workers", "2")) == 0
    said = json.loads(capsys.readouterr().out)
    whole = files[0].parent / "whole.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(each) for each in sorted(files[0].iterdir())]), whole)
    again = (whole, files[1], files[2].with_name("whole.csv"))
    assert main(command(again, *given)) == 0
    other = json.loads(capsys.readouterr().out)
    assert files[2].read_text() == again[2].read_text()
    assert said["epsilon"] == other["epsilon"]
    if command is reverse:
        assert (said["clients"], other["clients"]) == (None, 10)


@pytest.mark.filterwarnings("ignore:partitions of about")
def test_budgets_of_partitions_are_kept_in_a_store(files, capsys, monkeypatch):
    monkeypatch.setattr(sharded, "_connect", lambda *_: NoClient())
    store = files[2].with_name("store")
    given = ["--classes", "3", "--store", str(store), "--json", "--workers", "2"]
    with dask.config.set(scheduler="synchronous"):
        assert main(predict(files, *given, "--dry-run")) == 0
        assert not store.exists()
        capsys.readouterr()
        assert main(predict(files, *given)) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["answered"] == 40
        with open_store(store) as opened:
            spent = opened.spent(opened.positions([f"person {i}" for i in range(2000)]))
        assert spent.max() > 0
        first = files[2].read_text()
        files[2].with_name(files[2].name + ".json").unlink(missing_ok=True)
        files[2].unlink()
        assert main(predict(files, *given)) == 0, "the same run, whose answers the store has"
    assert files[2].read_text() == first
    with open_store(store) as opened:
        assert np.array_equal(spent, opened.spent(opened.positions([f"person {i}" for i in range(2000)])))
    close_ledgers()


@pytest.mark.parametrize(
    ("command", "more", "words"),
    [
        (predict, ["--hash", "3,4"], "--hash was given with --workers or --scheduler: tables would hold all"),
        (predict, ["--ids", "digest"], "--ids digest was given with --workers or --scheduler: digests number equal"),
        (predict, ["--ids", "name"], "has no column 'name'; accepted: the name of one that identifies records"),
        (predict, ["--public", "-"], "--public - was given with --workers or --scheduler; accepted: --public SOURCE"),
        (predict, ["--diagnostics"], "--diagnostics was given with --workers"),
        (reverse, ["--model", "local"], "--model local was given with --workers or --scheduler: partitions are no"),
        (reverse, ["--clients", "3"], "--clients was given with --workers or --scheduler: partitions are no clients"),
        (reverse, ["--client-split", "iid"], "--client-split was given with --workers"),
        (reverse, ["--features", "hog"], "--features hog was given with --workers or --scheduler: records stay in"),
    ],
)
def test_refusals_of_the_other_mechanisms(files, capsys, command, more, words):
    assert main(command(files, "--classes", "3", "--workers", "2", *more)) == 2
    said = capsys.readouterr().err.strip()
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_plan_reads_no_record_and_starts_no_worker(files, capsys, monkeypatch):
    monkeypatch.setattr(engine, "compute", None)
    assert main(options(files, "--classes", "3", "--workers", "2", "--dry-run")) == 0
    assert "private-knn" in capsys.readouterr().out
    assert not files[2].exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--workers", "2"], "accepted with --classes N"),
        (["--workers", "0", "--classes", "3"], "'0' is not a positive integer"),
        (["--workers", "2", "--scheduler", "tcp://x:1", "--classes", "3"], "accepted: one or the other"),
        (["--workers", "2", "--classes", "3", "--rounds", "2"], "--rounds 2 was given with --workers"),
        (["--workers", "2", "--classes", "3", "--features", "hog"], "--features hog was given"),
        (["--workers", "2", "--classes", "3", "--diagnostics"], "--diagnostics was given with --workers"),
        (["--workers", "2", "--classes", "3", "--standardize", "public"], "--standardize was given"),
        (["--workers", "2", "--classes", "3", "--label", "truth"], "no column 'truth' among"),
        (["--workers", "2", "--classes", "3", "--exclude", "f9"], "--exclude f9: no table has that column"),
    ],
)
def test_refusals_are_one_line(files, capsys, more, words):
    assert main(options(files, *more)) == 2
    said = capsys.readouterr().err.strip()
    assert words in said
    assert len(said.splitlines()) == 1
    assert not files[2].exists()


def test_a_file_of_the_private_records_is_not_public(files, capsys):
    folder, _, out = files
    inside = min(folder.iterdir())
    for private, public in ((folder, folder), (folder, inside), (folder / "*.parquet", inside)):
        assert main(options((private, public, out), "--classes", "3", "--workers", "2")) == 2
        assert f"--public {public} holds private records" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("private", "store", "out", "refused"),
    [
        ("records", None, "records/out.parquet", "--out"),
        ("records/", None, "linked/out.parquet", "--out"),
        ("linked", None, "records/part-000.parquet", "--out"),
        ("records", None, "to-records.parquet", "--out"),
        ("records", None, "far/out.parquet", "--out"),
        ("records", None, "records/away.parquet", "--out"),
        ("records/*.parquet", "records/st.parquet", "out.csv", "--store"),
        ("records/*.parquet", "sqlite:///records/st.parquet", "out.csv", "--store"),
        ("file://HERE/records/p*", "records/p.db", "out.csv", "--store"),
        ("records/*n", "st", "records/out.csv", "--out"),  # its summary, out.csv.json
        ("records/*-journal", "records/st", "out.csv", "--store"),
        ("records", "records/st.db", "records/out.csv", None),
        ("records/part-*.parquet", "records/st.parquet", "records/out.parquet", None),
        ("records", "st.parquet", "out.parquet", None),
    ],
)
def test_nothing_is_written_among_the_private_files(files, capsys, monkeypatch, private, store, out, refused):
    """Results and stores were read as private records ever after."""
    here = files[0].parent
    monkeypatch.chdir(here)
    Path("linked").symlink_to(here / "records")
    Path("far").mkdir()
    Path("to-records.parquet").symlink_to(here / "records" / "new.parquet")
    Path("records/in.parquet").symlink_to(here / "far" / "out.parquet")
    Path("records/away.parquet").symlink_to(here / "elsewhere.parquet")
    before = sorted(here.rglob("*"))
    private = private.replace("HERE", str(here))
    more = ["--classes", "3", "--workers", "2", "--dry-run", *([] if store is None else ["--store", store])]
    for extra in ([], ["--again"]):
        status = main(predict((private, "public.parquet", out), *more, *extra))
        said = capsys.readouterr().err
        assert sorted(here.rglob("*")) == before
        if refused is None:
            assert "would be read" not in said
            assert status == 0
        else:
            given = f"{refused} {store if refused == '--store' else out}"
            assert status == 2
            assert said.startswith(f"mechanisms: {given}: ")
            assert said.endswith(
                f" would be read with --private {private}; accepted: a file in another directory, or of another name\n"
            )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop_columns(["label"]), r"part-001.parquet: no column 'label' among \["),
        (lambda table: table.drop_columns(["f3"]), "part-001.parquet: no feature 'f3', which .*part-000.parquet has"),
        (
            lambda table: table.append_column("f9", table["f1"]),
            "part-000.parquet: no feature 'f9', which .*part-001.parquet has",
        ),
    ],
)
def test_the_file_that_lacks_a_column_is_named_before_anything_is_read(files, capsys, change, words):
    path = files[0] / "part-001.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    assert main(options(files, "--classes", "3", "--workers", "2")) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"mechanisms: \S*{words}.*; accepted: .*\n", said)
    assert not files[2].exists()
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    assert main(options(files, "--classes", "3", "--workers", "2", "--dry-run")) == 0, "a file without records"


def test_a_scheduler_that_is_not_there(files, capsys, monkeypatch):
    def refuse(*_):
        raise OSError("Timed out trying to connect\nafter 10 s")

    monkeypatch.setattr(sharded, "_connect", refuse)
    assert main(options(files, "--classes", "3", "--scheduler", "tcp://nowhere:1")) == 2
    said = capsys.readouterr().err.strip()
    expected = "--scheduler tcp://nowhere:1: Timed out trying to connect after 10 s; accepted: the address of a Dask"
    assert expected in said


@pytest.mark.audit
def test_real_workers_and_a_real_scheduler(files):
    command = [sys.executable, "-m", "mechanisms"]
    labels = []
    with Programs() as programs:
        for more in (["--workers", "2"], ["--scheduler", programs.address]):
            done = subprocess.run(
                [*command, *options(files, "--classes", "3", "--seed", "5", *more)], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            labels.append(files[2].read_text())
            files[2].unlink()
            files[2].with_name(files[2].name + ".json").unlink()
    assert labels[0] == labels[1]
    assert np.mean([line.endswith(("0", "1", "2")) for line in labels[0].splitlines()[1:]]) > 0.5
