"""The benchmarks run, in a tiny size, and print figures for every contender."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.audit


def run_benchmark(folder, name, *options):
    """Its figures, and what it printed."""
    target = folder / "figures.json"
    result = subprocess.run(
        [sys.executable, "-W", "ignore", f"benchmarks/{name}.py", *options, "--json", str(target)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "160"},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(target.read_text()), result.stdout


def test_private_knn_query_time(tmp_path):
    pytest.importorskip("sklearn")
    size = {"records": 500, "width": 8, "neighbours": 20, "rate": 0.5, "queries": 20, "peer-queries": 10, "repeats": 1}
    options = [f"--{name}={value}" for name, value in size.items()]
    figures, printed = run_benchmark(tmp_path, "private_knn_query_time", *options)
    assert figures["same_labels_for_same_draws"]
    assert figures["features_mb"] == 500 * 8 * 4 / 1e6
    rows = {(row["workload"], row["contender"]): row for row in figures["results"]}
    contenders = {"ours", "scikit-learn", "scikit-learn, one thread", "plain numpy"}
    assert set(rows) == {(workload, name) for workload in ("screened", "all pass") for name in contenders}
    for (workload, name), row in rows.items():
        assert row["ms_per_query"] > 0
        assert row["peak_mb"] > 20
        assert -5 <= row["above_features_mb"] < 600
        assert row["ratio"] == pytest.approx(row["ms_per_query"] / rows[workload, "ours"]["ms_per_query"])
        assert (row["answered"] == 1) == (workload == "all pass")
        assert row["accuracy"] > 0.3, "one in ten by chance"
        assert name in printed


def test_hashing_time(tmp_path):
    size = {"records": 3000, "width": 32, "queries": 10, "tables": 6, "bits": 4, "repeats": 1}
    figures, printed = run_benchmark(tmp_path, "hashing_time", *[f"--{name}={value}" for name, value in size.items()])
    rows = {row["contender"]: row for row in figures["results"]}
    assert set(rows) == {
        "scan of all records",
        "scan of all coarse rows",
        "6 tables of 4 bits",
        "answers, exact",
        "answers, 6 tables of 4 bits",
    }
    scan, hashed = rows["scan of all records"], rows["6 tables of 4 bits"]
    assert scan["candidates"] == 3000 > hashed["candidates"] > hashed["similar"] > 0
    assert hashed["similar"] <= scan["similar"]
    assert hashed["single_ratio"] == pytest.approx(scan["single_ms"] / hashed["single_ms"])
    assert all(row["single_ms"] > 0 and row["batch_ms"] > 0 for row in rows.values())
    assert "scan of all coarse rows" in printed


def test_accuracy_by_queries(tmp_path):
    pytest.importorskip("sklearn")
    options = ["--data", "made", "--seeds", "1", "--sizes", "2000", "120", "100"]
    figures, printed = run_benchmark(tmp_path, "accuracy_by_queries", *options)
    figures = figures["made"]
    assert len(figures["accuracy"]) == 10
    for name, row in figures["accuracy"].items():
        assert name in printed
        assert set(row) == {"100", "120"}
        assert all(0 < value <= 1 for values in row.values() for value in values)
    one_plan = [figures["accuracy"][f"Ind-KNN, GDP filter, planned for {which}"]["120"] for which in ("all", "these")]
    assert one_plan[0] == one_plan[1], "all of them are these"
    last = {name: row["120"][0] for name, row in figures["accuracy"].items()}
    optimal = last["the Bayes rule, knowing the directions"]
    assert last["not private: k nearest neighbours"] > last["not private: logistic regression"] + 0.05
    assert optimal > 0.9
    assert optimal > last["not private: k nearest neighbours"]
    assert all(value < optimal for name, value in last.items() if "not private" not in name and "Bayes" not in name)
    gdp, renyi = (figures["retired"][f"{name} filter"]["120"][0] for name in ("GDP", "Rényi"))
    assert 0 <= gdp <= renyi <= 1


def test_reverse_knn_labelling_time(tmp_path):
    pytest.importorskip("sklearn")
    size = {"records": 4000, "width": 64, "queries": 60, "public": 200, "clients": 7}
    options = [f"--{name}={value}" for name, value in size.items()]
    models = ["central", "local, randomized response"]
    figures, _ = run_benchmark(tmp_path, "reverse_knn_labelling_time", *options, "--models", *models)
    assert figures["votes_as_defined"]
    rows = {row["model"]: row for row in figures["results"]}
    assert set(rows) == set(models)
    # 80 bytes of header, 16 of the payload's, and a count of 4 bytes for each query and class
    assert rows["central"]["bytes_per_client"] == 80 + 16 + 4 * 60 * 10
    assert rows["local, randomized response"]["bytes_per_record"] > 600 / 8
    assert all(row["seconds"] > 0 and row["peak_mb"] > 20 for row in rows.values())
    assert rows["central"]["accuracy"] > 0.3, "one in ten by chance"


def test_forecast_accuracy(tmp_path):
    """On digits: forecasts near what comes out, and the papers' settings beaten, over one split and few runs."""
    pytest.importorskip("sklearn")
    options = ["--data", "digits", "--seeds", "1", "--repeats", "1", "--queries", "12", "--rates", "1"]
    options += ["--centres", "40", "80", "--centres-local", "10", "20"]
    figures, printed = run_benchmark(tmp_path, "forecast_accuracy", *options)
    for mechanism in ("private-knn", "ind-knn", "reverse-knn", "reverse-knn local"):
        proposed, paper = figures[f"{mechanism}, proposed"], figures[f"{mechanism}, paper"]
        local = mechanism.endswith("local")  # one run of few noisy queries
        assert proposed["epsilon"] <= (4.0 if local else 1.0)
        assert abs(proposed["predicted answers"] - proposed["answers"]) < (0.3 if local else 0.12)
        assert abs(proposed["predicted all points"] - proposed["all points"]) < (0.3 if local else 0.12)
        assert proposed["all points"] > paper["all points"] - (0.2 if local else 0.02)
        assert f"{mechanism}, proposed" in printed


def test_attack_risk_time(tmp_path):
    pytest.importorskip("dp_accounting")
    options = ["--steps", "50", "--deltas", "20", "--repeats", "1"]
    figures, _ = run_benchmark(tmp_path, "attack_risk_time", *options)
    rows = {(row["workload"], row["contender"]): row for row in figures["results"]}
    for task, size in (("true-positive rates", 20), ("mu", 1)):
        ours, theirs = rows[task, "ours"], rows[task, "dp_accounting"]
        assert len(ours["lower"]) == len(ours["upper"]) == size
        assert ours["ratio"] == 1
        assert theirs["ratio"] == pytest.approx(theirs["seconds"] / ours["seconds"])
        assert ours["too low"] == theirs["too low"] == 0
        assert all(low <= high * (1 + 1e-9) for low, high in zip(ours["lower"], theirs["upper"], strict=True))


def test_random_allocation_intervals(tmp_path):
    figures, _ = run_benchmark(tmp_path, "random_allocation_intervals", "--small")
    rows = figures["results"]
    for first in (row for row in rows if row["contender"] == "ours, 0.7 %"):
        assert first["width"] <= 7.1e-3
        for row in (row for row in rows if row["workload"] == first["workload"]):
            assert row["lower"] <= first["upper"], row
            assert row["upper"] >= first["lower"], row


def test_budgets_of_peers(tmp_path):
    """Two random runs in the objects of two peers; one that costs more, or less than the truth, would show."""
    pytest.importorskip("dp_accounting")
    pytest.importorskip("mpmath")
    peers = ["dp_accounting, Rényi", "OpenDP"]
    options = ["--runs", "2", "--checks", "2", "--peers", *peers]
    figures, printed = run_benchmark(tmp_path, "budgets_of_peers", *options)
    figures = figures["results"]
    assert list(figures) == peers
    for name, row in figures.items():
        assert name in printed
        assert row["runs"] == 2
        assert row["ours above theirs"] == row["ours below it"] == 0
        assert row["median theirs over ours"] >= 1 - 1e-5
        assert row["ours ms"] > 0


@pytest.mark.parametrize("sizes", [["3000", "6000"]])
def test_more_records_than_memory(tmp_path, sizes):
    pytest.importorskip("distributed")
    options = ["--records", *sizes, "--width", "8", "--queries", "30", "--workers", "1", "--people", "3000"]
    figures, printed = run_benchmark(tmp_path, "more_records_than_memory", *options)
    assert [str(row["records"]) for row in figures["sizes"]] == sizes
    for row in figures["sizes"]:
        assert 0 < row["answered"] <= 30
        assert row["ratio"] == pytest.approx(row["seconds"] / row["bare_seconds"])
        assert row["peak_mb"] > 20
        assert 0 < row["engine_ms_per_query"] < row["ms_per_query"]
        assert row["engine_ms_per_task"] * row["partitions"] == pytest.approx(30 * row["engine_ms_per_query"])
    people, model = figures["people"], figures["model"]
    assert 0 < people["batches_per_query"] < people["rounds_per_query"] < 2
    assert people["store_ms_per_payment"] > 0
    assert model["megabytes_to_coordinator_per_1024_queries"] < 20
    assert model["seconds_per_1024_queries"] > model["engine_seconds_per_1024_queries"] > 0
    assert 0 < model["ind_knn_kilobytes_per_query"] < 2 * 16e6 / 1000
    assert all(name in printed for name in model)


def test_student_accuracy(tmp_path):
    pytest.importorskip("torch")
    sizes = ["--data", "digits", "--seeds", "1", "--epochs", "2", "--public-epochs", "2"]
    figures, printed = run_benchmark(tmp_path, "student_accuracy", *sizes)
    students = ("default student, private images", "private images", "released labels")
    assert {"seeds", "test images", *students} == set(figures)
    assert (figures["seeds"], figures["test images"]) == (1, 179)
    for name in students:
        assert name in printed
        assert 0 < figures[name]["test"] <= 1
        assert figures[name]["test, deviation"] >= 0
    assert figures["default student, private images"]["test"] > 0.9
    assert figures["released labels"]["labels"] > 0.9
    assert 0.5 < figures["released labels"]["answered"] < 1


def test_first_price_time(tmp_path):
    names = ["Gaussian", "1000 sampled Gaussians, Rényi"]
    figures, printed = run_benchmark(tmp_path, "first_price_time", "--only", *names)
    assert list(figures) == names
    for name, row in figures.items():
        assert name in printed
        assert 0 < row["import"] <= row["later"]
        assert row["first"] > 0
