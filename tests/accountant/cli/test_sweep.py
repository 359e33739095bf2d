"""The sweep command: its table, its refusals, and that nothing is lost when it is killed."""

import csv
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import accountant as ac
from accountant.cli import main, sweep_blocks, sweep_journal
from accountant.cli.sweep_files import SweepTable
from accountant.sweep import BLOCK
from tests.cases import audit_after

PLAN = """delta = 1e-5

[[release]]
name = "screening"
event = "noisy-screening"
sigma = 85
threshold = 210
max_votes = 300
sampling_rate = 0.25
count = 100

[[release]]
name = "votes"
event = "gaussian"
sigma = 20
sampling_rate = 0.25
count = 40
"""


def run_of(sigma, votes, count=100):
    rate = 0.25
    screening = ac.PoissonSubsampled(ac.NoisyScreening(sigma, 210, 300), rate)
    return count * screening + 40 * ac.PoissonSubsampled(ac.Gaussian(votes), rate)


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return str(path)


VARY = ["--vary", "screening.sigma=50:150:3", "--vary", "votes.sigma=10:1000:2:log"]
EXPECTED = [[sigma, votes] for sigma in (50.0, 100.0, 150.0) for votes in (10.0, 1000.0)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "by the Rényi route; `accountant epsilon` may say less, and --method auto prices as it does"),
        (["--method", "auto"], "by the route of `accountant epsilon`"),
        (["--method", "tight"], "by the tight route"),
    ],
)
def test_the_route_is_said(tmp_path, capsys, more, said):
    out = tmp_path / "sweep.csv"
    assert main(["sweep", "figure5-gaussian", "--vary", "sigma=40,50", "--out", str(out), *more]) == 0
    assert capsys.readouterr().out == f"{out}: 2 settings; {said}\n"


@pytest.mark.parametrize("form", ["parquet", "npz", "csv"])
def test_table(plan, tmp_path, form, capsys):
    out = tmp_path / f"sweep.{form}"
    assert main(["sweep", plan, *VARY, "--out", str(out)]) == 0
    assert "6 settings" in capsys.readouterr().out
    if form == "parquet":
        table = {
            name: column.to_numpy()
            for name, column in zip(
                *(lambda t: (t.column_names, t.columns))(pytest.importorskip("pyarrow.parquet").read_table(out)),
                strict=True,
            )
        }
    elif form == "npz":
        table = dict(np.load(out))
    else:
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file))
        table = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    assert list(table) == ["screening.sigma", "votes.sigma", "epsilon", "delta", "order"]
    assert np.stack([table["screening.sigma"], table["votes.sigma"]], axis=1) == pytest.approx(np.array(EXPECTED))
    priced = [ac.epsilon(run_of(*setting), 1e-5, method="renyi") for setting in EXPECTED]
    assert table["epsilon"] == pytest.approx([price.epsilon for price in priced], rel=1e-12)
    assert table["order"] == pytest.approx([price.order for price in priced], rel=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml", out.name]


def test_counts_are_whole_and_delta_may_be_sought(plan, tmp_path):
    out = tmp_path / "sweep.npz"
    arguments = ["sweep", plan, "--vary", "screening.count=10,1000", "--epsilon", "0.5", "--out", str(out)]
    assert main(arguments) == 0
    table = np.load(out)
    assert table["screening.count"].dtype.kind == "i"
    expected = [ac.delta(run_of(85, 20, count), 0.5, method="renyi").delta for count in (10, 1000)]
    assert table["delta"] == pytest.approx(expected, rel=1e-9)


TRAINING = """delta = 1e-5
[[release]]
name = "step"
event = "gaussian"
noise_multiplier = 1.1
records = 6000
batch = 60
epochs = 2
"""


def test_numbers_that_stand_for_others_are_swept(tmp_path):
    path, out = tmp_path / "training.toml", tmp_path / "sweep.npz"
    path.write_text(TRAINING)
    vary = ["--vary", "epochs=1,2.5", "--vary", "batch=60,120", "--vary", "noise_multiplier=0.9,1.1"]
    assert main(["sweep", str(path), *vary, "--out", str(out)]) == 0
    expected = [
        ac.dp_sgd(6000, batch, epochs, sigma=sigma, delta=1e-5).renyi.epsilon
        for epochs in (1, 2.5)
        for batch in (60, 120)
        for sigma in (0.9, 1.1)
    ]
    assert np.load(out)["epsilon"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("other", ["count=3,4", "step.epochs=2,3"])
def test_numbers_that_state_the_same_are_not_swept_together(tmp_path, capsys, other):
    path = tmp_path / "training.toml"
    path.write_text(TRAINING)
    arguments = ["--vary", "epochs=1,2", "--vary", other, "--out", str(tmp_path / "sweep.csv")]
    assert main(["sweep", str(path), *arguments]) == 2
    assert capsys.readouterr().err.endswith("varied twice; accepted: each number once\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vary", "screening.sigma"], "accepted: NAME.KEY=A:B:N"),
        (["--vary", "screening.sigma=1:2"], "accepted: A:B:N"),
        (["--vary", "screening.sigma=0:2:3:log"], "accepted: A:B:N"),
        (["--vary", "screening.sigma=1:inf:3"], "finite"),
        (["--vary", "screening.sigma=1e308:-1e308:3"], "finite as B - A is"),
        (["--vary", "screening.sigma=1:2:0"], "N at least 1"),
        (["--vary", "screening.count=1:2:3"], "1.5 is not a whole number"),
        (["--vary", "screening.colour=1:2:3"], "has no number"),
        (["--vary", "screening.sigma=1:2:3", "--vary", "screening.sigma=1:2:3"], "varied twice"),
        (["--vary", "screening.sigma=-1:2:3"], "sigma = -1 is out of range"),
        (["--vary", "screening.sigma=1:2:3", "--delta", "2"], "delta = 2 is out of range"),
        (["--vary", "screening.sigma=1:2:3", "--delta", "0.1", "--epsilon", "1"], "one of them"),
        (["--vary", "screening.sigma=1:2:100000", "--vary", "votes.sigma=1:2:100000"], "settings; accepted: up to"),
    ],
)
def test_bad_requests_are_one_line(plan, tmp_path, arguments, words, capsys, recwarn):
    assert main(["sweep", plan, *arguments, "--out", str(tmp_path / "sweep.csv")]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]
    assert not recwarn


@pytest.mark.parametrize("name", ["sweep.xls", "missing/sweep.csv"])
def test_bad_files_are_refused_before_anything_is_priced(plan, tmp_path, name, capsys):
    assert main(["sweep", plan, *VARY, "--out", str(tmp_path / name)]) == 2
    assert "accepted" in capsys.readouterr().err


def test_settings_that_cannot_be_priced_may_be_skipped(plan, tmp_path, capsys):
    out = tmp_path / "sweep.npz"
    vary = ["sweep", plan, "--vary", "votes.sigma=20,-1", "--out", str(out)]
    assert main(vary) == 2
    assert "votes.sigma = -1.0" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]
    assert main([*vary, "--skip-errors"]) == 0
    assert np.isnan(np.load(out)["epsilon"]).tolist() == [False, True]


def kept_blocks(partial):
    """Numbers of the blocks that a reader finds committed; none while the file is being made."""
    try:
        with closing(sqlite3.connect(partial)) as database:
            return [place for (place,) in database.execute("SELECT place FROM blocks ORDER BY place")]
    except sqlite3.Error:
        return []


def count_priced(monkeypatch):
    """A list that will hold the first settings of the blocks that are priced."""
    priced, real = [], sweep_blocks.Work.price

    def price(work, piece):
        priced.append(piece[0])
        return real(work, piece)

    monkeypatch.setattr(sweep_blocks.Work, "price", price)
    return priced


HELD = """
import sys, time
from accountant.cli import main, sweep_blocks
price = sweep_blocks.Work.price

def hold(work, piece):
    if piece[0] == int(sys.argv[1]):
        print("held", flush=True)
        time.sleep(600)
    return price(work, piece)

sweep_blocks.Work.price = hold
main(sys.argv[2:])
"""


@pytest.mark.audit
@pytest.mark.parametrize("blocks", audit_after(1, [3, 1]))
def test_a_killed_sweep_goes_on_where_it_was(plan, tmp_path, capsys, monkeypatch, blocks):
    """Killed while the next block is priced."""
    out, count = tmp_path / "sweep.npz", 4 * BLOCK + 7
    arguments = ["sweep", plan, "--vary", f"screening.sigma=50:150:{count}", "--out", str(out), "--jobs", "1"]
    held = [sys.executable, "-c", HELD, str(blocks * BLOCK), *arguments]
    with subprocess.Popen(held, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    assert kept_blocks(tmp_path / "sweep.npz.partial") == [BLOCK * i for i in range(blocks)]
    other = [part.replace("50:150", "51:150") for part in arguments]
    assert main(other) == 2
    assert "begun with another plan" in capsys.readouterr().err
    priced = count_priced(monkeypatch)
    assert main(arguments) == 0
    assert priced == [BLOCK * i for i in range(blocks, 5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml", "sweep.npz"]
    table = np.load(out)
    assert table["epsilon"].size == count
    for i in (0, BLOCK - 1, BLOCK, count - 1):
        one = ac.epsilon(run_of(table["screening.sigma"][i], 20), 1e-5, method="renyi").epsilon
        assert table["epsilon"][i] == pytest.approx(one, rel=1e-13)


@pytest.fixture
def interrupted(plan, tmp_path, monkeypatch, capsys):
    """Arguments of a sweep that was interrupted after its three blocks, and what it kept."""
    arguments = ["sweep", plan, "--vary", f"votes.sigma=10:50:{3 * BLOCK}", "--jobs", "1"]
    arguments += ["--out", str(tmp_path / "sweep.npz")]
    with monkeypatch.context() as patch:
        patch.setattr(SweepTable, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert main(arguments) == 130
    message = capsys.readouterr().err
    assert message.startswith(f"accountant: interrupted: {3 * BLOCK} of {3 * BLOCK} settings are kept in ")
    assert message.endswith("; the same command goes on with them\n")
    return arguments, tmp_path / "sweep.npz.partial"


@pytest.mark.audit
def test_blocks_that_were_kept_are_not_priced_again(interrupted, tmp_path, monkeypatch):
    """And one whose bytes changed is."""
    arguments, partial = interrupted
    with closing(sqlite3.connect(partial)) as database, database:
        (numbers,) = database.execute("SELECT numbers FROM blocks WHERE place = 2000").fetchone()
        database.execute("UPDATE blocks SET numbers = ? WHERE place = 2000", (bytes([numbers[0] ^ 1]) + numbers[1:],))
    priced = count_priced(monkeypatch)
    assert main(arguments) == 0
    assert priced == [BLOCK]
    assert np.isfinite(np.load(tmp_path / "sweep.npz")["epsilon"]).all()


@pytest.mark.audit
def test_one_sweep_at_a_time_writes_to_a_file(interrupted, capsys):
    arguments, partial = interrupted
    with closing(sqlite3.connect(partial, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert main(arguments) == 2
    assert "another process holds it; accepted: one process at a time" in capsys.readouterr().err
    assert partial.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"sweep": 1, "fingerprint": "0", "settings": 6}\n' + bytes(100), "begun by an earlier version"),
        (b"notes of somebody else\n" * 100, "file is not a database; accepted: the file of an interrupted sweep"),
        (None, "a database of something else"),
    ],
)
def test_files_of_something_else_are_left_alone(plan, tmp_path, content, words, capsys):
    partial = tmp_path / "sweep.npz.partial"
    if content is None:
        with closing(sqlite3.connect(partial)) as database, database:
            database.execute("CREATE TABLE blocks (place INTEGER)")
        content = partial.read_bytes()
    else:
        partial.write_bytes(content)
    assert main(["sweep", plan, *VARY, "--out", str(tmp_path / "sweep.npz")]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert partial.read_bytes() == content


# --- blocks by time --------------------------------------------------------------------------------------


SLOW = """delta = 1e-5
[[release]]
event = "gaussian"
sigma = 20
sampling_rate = 0.1
count = 40
"""


@pytest.fixture
def slow(tmp_path):
    """Arguments of a sweep whose settings are priced one by one."""
    path = tmp_path / "slow.toml"
    path.write_text(SLOW)
    return ["sweep", str(path), "--method", "tight", "--tolerance", "0.1", "--out", str(tmp_path / "sweep.csv")]


def test_a_block_ends_when_its_time_is_over_whatever_the_method(slow, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_blocks, "SECONDS", 0.0)
    priced = count_priced(monkeypatch)
    assert main([*slow, "--vary", "sigma=10:20:5", "--jobs", "1"]) == 0
    assert priced == [0, 1, 2, 3, 4]
    with open(tmp_path / "sweep.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        run = 40 * ac.PoissonSubsampled(ac.Gaussian(float(row["sigma"])), 0.1)
        assert float(row["epsilon"]) == ac.epsilon(run, 1e-5, method="tight", tolerance=0.1).epsilon


def test_every_setting_that_was_priced_is_kept_when_interrupted(slow, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep_blocks, "SECONDS", 0.0)
    arguments = [*slow, "--vary", "sigma=10:20:5", "--jobs", "1"]
    real = sweep_blocks.Work.price

    def price(work, piece):
        if piece[0] == 3:
            raise KeyboardInterrupt
        return real(work, piece)

    with monkeypatch.context() as patch:
        patch.setattr(sweep_blocks.Work, "price", price)
        assert main(arguments) == 130
    assert "3 of 5 settings are kept in" in capsys.readouterr().err
    assert kept_blocks(tmp_path / "sweep.csv.partial") == [0, 1, 2]
    priced = count_priced(monkeypatch)
    assert main(arguments) == 0
    assert priced == [3, 4]


def test_an_interruption_before_anything_was_priced_says_so(slow, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep_blocks.Work, "price", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main([*slow, "--vary", "sigma=10:20:5"]) == 130
    assert capsys.readouterr().err == "accountant: interrupted: nothing was priced, nothing is kept\n"
    assert [path.name for path in tmp_path.iterdir()] == ["slow.toml"]


def test_the_table_is_written_some_rows_at_a_time(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_journal, "CHUNK", 1)
    vary = ["--vary", "screening.sigma=50:150:3", "--vary", f"votes.sigma=10:50:{BLOCK}", "--jobs", "1"]
    tables = {}
    for form in ("npz", "csv", "parquet"):
        out = tmp_path / f"sweep.{form}"
        assert main(["sweep", plan, *vary, "--out", str(out)]) == 0
        if form == "npz":
            tables[form] = dict(np.load(out))
        elif form == "csv":
            found = np.genfromtxt(out, delimiter=",", names=True, deletechars="")
            tables[form] = {name: found[name] for name in found.dtype.names}
        else:
            read = pytest.importorskip("pyarrow.parquet").read_table(out)
            tables[form] = {name: read[name].to_numpy() for name in read.column_names}
    for form in ("csv", "parquet"):
        assert list(tables[form]) == list(tables["npz"])
        assert all(np.array_equal(tables[form][name], column) for name, column in tables["npz"].items())
    assert tables["npz"]["screening.sigma"][::BLOCK].tolist() == [50.0, 100.0, 150.0]


def test_a_sweep_that_the_disk_cannot_hold_is_refused_with_its_size(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    vary = ["--vary", "screening.sigma=50:150:10000", "--vary", "votes.sigma=10:50:10000"]
    assert main(["sweep", plan, *vary, "--out", str(tmp_path / "sweep.csv")]) == 2
    assert "100000000 settings need up to 8 GB, 1 GB are free; accepted: fewer settings" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.audit
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_workers_end_with_a_sweep_that_is_killed(slow, tmp_path):
    """And what they had priced is kept."""
    code = "import sys; from accountant.cli import sweep_blocks, main; sweep_blocks.ALONE = 0.2; main(sys.argv[1:])"
    arguments = [*slow, "--vary", "sigma=10:20:100000", "--jobs", "2"]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments])
    deadline = time.monotonic() + 120
    workers: list[int] = []
    while len(workers) < 3 and process.poll() is None and time.monotonic() < deadline:  # two, and their tracker
        workers = children(process.pid)
        time.sleep(0.02)
    assert len(workers) == 3
    process.kill()
    process.wait()
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, workers))
    assert kept_blocks(tmp_path / "sweep.csv.partial")


class Here:
    """Runs what is submitted in this process, and keeps how long it was as it was sent."""

    sent: ClassVar[list[int]] = []

    def __init__(self, workers, initializer, initargs, **_):
        initializer(*pickle.loads(pickle.dumps(initargs)))

    def submit(self, *given):
        self.sent.append(len(pickle.dumps(given)))
        call, *arguments = given
        done = Future()
        done.set_result(call(*arguments))
        return done

    def shutdown(self, **_):
        pass


def test_what_is_sent_to_workers_fits_into_a_pipe(slow, tmp_path, monkeypatch):
    """Whoever sends more than that to a worker that was ended waits for ever."""
    monkeypatch.setattr(sweep_blocks, "ALONE", 0.0)
    monkeypatch.setattr(sweep_blocks, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(sweep_blocks, "prepare_worker", lambda parent: None)
    monkeypatch.setattr(sweep_blocks, "_given", None)
    Here.sent.clear()
    values = ",".join(map(str, np.linspace(10.0, 20.0, 200)))
    assert main([*slow, "--vary", f"sigma={values}", "--jobs", "2"]) == 0
    assert len(Here.sent) > 1
    assert max(Here.sent) < 200


@pytest.mark.audit
def test_several_workers_give_the_same_table(slow, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_blocks, "ALONE", 0.0)
    texts = []
    for jobs in ("1", "2"):
        assert main([*slow, "--vary", "sigma=10:20:12", "--jobs", jobs, "--again"]) == 0
        texts.append((tmp_path / "sweep.csv").read_text())
    assert texts[0] == texts[1]


def test_a_finished_sweep_is_computed_again_only_when_asked(tmp_path, capsys):
    out = tmp_path / "sweep.csv"
    command = ["sweep", "dp-sgd", "--vary", "sigma=1:2:3", "--out", str(out)]
    assert main(command) == 0
    before = out.read_bytes()
    capsys.readouterr()
    assert main([*command, "--delta", "1e-6"]) == 2
    error = capsys.readouterr().err
    accepted = "another file, or --again, which computes again and replaces it"
    assert error == f"accountant: --out {out}: is there, so its sweep is finished; accepted: {accepted}\n"
    assert out.read_bytes() == before
    assert main([*command, "--delta", "1e-6", "--again"]) == 0
    assert out.read_bytes() != before
