"""`mechanisms label private-knn` over partitions: the same labels, and one line for what does not go together."""

import json
import subprocess
import sys

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
