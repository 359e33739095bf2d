"""A store, results and what is read are different files: neither overwrites what another holds."""

import os

import numpy as np
import pytest

from mechanisms.budgets.store import open_store
from mechanisms.cli import main

N = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory of private and public points, from which the command is run."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, N)
    features = np.abs(np.eye(3)[labels] + rng.normal(0, 0.4, (N, 3)))
    np.savez("private.npz", features=features, labels=labels, person=np.arange(N))
    np.savez("public.npz", features=features[:20] + 0.01)
    return tmp_path


def predict(capsys, *extra):
    common = ("--private", "private.npz", "--public", "public.npz", "--classes", "3", "--ids", "person")
    target = ("--epsilon", "2", "--delta", "1e-3", "--queries", "3")
    status = main(["predict", "ind-knn", *common, *target, *map(str, extra)])
    return status, capsys.readouterr().err


def check_refused(capsys, store, out, *extra, other=None):
    before = sorted(os.listdir())
    status, err = predict(capsys, "--store", store, "--out", out, *extra)
    assert status == 2
    other = f"--out {out}" if other is None else other
    accepted = "accepted: names of different files"
    assert err == f"mechanisms: --store {store}: shares a file with {other}; {accepted}\n"
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    "store",
    [
        *("o.csv", "o.csv.json", "o.csv.json.waiting", "o.csv.journal", "o.csv.journal-journal", "o.csv.journal-wal"),
        *("o.csv.journal-shm", "o.csv.journal.generation", "o.csv.again-3.journal", "o.csv.again-12.journal-journal"),
        *("sqlite:///o.csv.json", "./o.csv.json", "sub/../o.csv"),
    ],
)
@pytest.mark.parametrize("extra", [[], ["--dry-run"]])
def test_a_store_is_no_file_of_the_results(capsys, folder, store, extra):
    (folder / "sub").mkdir()
    check_refused(capsys, store, "o.csv", *extra)


def test_links_and_absolute_names_are_followed(capsys, folder):
    (folder / "sub").symlink_to(folder)
    check_refused(capsys, folder / "o.csv.json", "sub/o.csv")
    (folder / "budgets.db").symlink_to(folder / "o.npz.journal")
    check_refused(capsys, "budgets.db", "o.npz")
    (folder / "labels.csv").symlink_to(folder / "real.csv")
    check_refused(capsys, "real.csv.json", "labels.csv")
    (folder / "c.csv.json").symlink_to(folder / "far.db")
    check_refused(capsys, "far.db", "c.csv")


def test_results_are_no_companion_of_the_store(capsys, folder):
    for ending in ("-journal", "-wal", "-shm", ".generation"):
        (folder / f"o{ending}.csv").symlink_to(folder / f"b.db{ending}")
        check_refused(capsys, "b.db", f"o{ending}.csv")


def test_what_is_spent_stays_spent(capsys, folder):
    """The summary of the results once replaced a store of this name."""
    assert predict(capsys, "--store", "o.csv.json", "--out", "first.csv") == (0, "")
    check_refused(capsys, "o.csv.json", "o.csv")
    with open_store("o.csv.json") as store:
        assert store.spent(np.arange(N)).any()


@pytest.mark.parametrize("name", ["o.npz.json", "o.csv.again-01.journal", "o.csv.jsonl", "O.CSV.db", "o.csv.again-3"])
def test_other_names_are_free(capsys, folder, name):
    assert predict(capsys, "--store", name, "--out", "o.npz" if "npz" in name else "o.csv", "--dry-run") == (0, "")


@pytest.mark.parametrize("extra", [["--again"], []])
def test_what_is_read_is_not_written(capsys, folder, extra):
    np.savez("public.npz", features=np.eye(3), summary=np.array("{}"))
    before = (folder / "public.npz").read_bytes()
    status, err = predict(capsys, "--out", "./public.npz", *extra)
    assert status == 2
    assert err.startswith("mechanisms: --out ./public.npz: shares a file with --public public.npz; accepted: ")
    assert (folder / "public.npz").read_bytes() == before
    check_refused(capsys, "private.npz", "o.csv", other="--private private.npz")


def test_other_commands_do_not_write_what_they_read(capsys, folder):
    common = ["--public", "public.npz[0:5]", "--classes", "3", "--epsilon", "2", "--delta", "1e-3"]
    label = ["label", "gnmax", "--private", "private.npz", "--test", "private.npz", *common, "--out", "private.npz"]
    assert main(label) == 2
    assert "--out private.npz: shares a file with --private private.npz; accepted: " in capsys.readouterr().err
    (folder / "v.json").write_text("{}")
    tune = ["tune", "private-knn", "--grid", "k=3", "vote-sigma=3", "--private", "private.npz", "--validation"]
    assert main([*tune, "v.json", *common, "--out", "v.json"]) == 2
    assert "--out v.json: shares a file with --validation v.json; accepted: " in capsys.readouterr().err
    (folder / "p.svg").write_text("")
    plan = ["plan", "private-knn", "--public", "p.svg", "--records", "60", "--epsilon", "1", "--plot", "p.svg"]
    assert main(plan) == 2
    assert "'p.svg': would replace 'p.svg', which is read; accepted: another file" in capsys.readouterr().err
