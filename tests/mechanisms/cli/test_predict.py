"""`mechanisms predict ind-knn`: answers, a histogram of spent budgets, durable stores, one line for every mistake."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import accountant as ac
from mechanisms.budgets.journal import Journal
from mechanisms.budgets.store import Store, StoreError, open_store
from mechanisms.cli import main, results_file
from mechanisms.datasets import Dataset, digits, private_public_test_split
from mechanisms.experiment import prediction
from mechanisms.experiment.prediction import PredictionSetting, complete_setting, predict

pytest.importorskip("opendp.prelude")
SEEDED = "mechanisms: reproducible noise: not private against whoever knows the seed\n"
IND = ["predict", "ind-knn", "--data", "digits", "--epsilon", "2", "--delta", "1e-4", "--queries", "60"]


def run(capsys, *arguments):
    if not {"--out", "--dry-run"} & set(arguments):  # answers that nobody keeps are refused
        with TemporaryDirectory() as folder:
            status, out, err = run(capsys, *arguments, "--out", f"{folder}/out.npz")
            return status, out.replace(f"{folder}/out.npz", "out.npz"), err
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def summary(capsys, *arguments):
    status, out, err = run(capsys, *IND, *arguments, "--json")
    assert (status, err) == (0, SEEDED)
    return json.loads(out)


def test_the_table_says_nothing_that_was_not_paid_for(capsys):
    status, out, err = run(capsys, *IND, "--seed", 0)
    assert (status, err) == (0, SEEDED)
    for words in ("60 of 60 queries", "-DP under add-remove", "for this run; others add to it", "990 private"):
        assert words in out
    for words in ("accuracy", "spent", "%"):
        assert words not in out


def test_diagnostics_are_for_the_terminal(capsys, tmp_path):
    status, plain, _ = run(capsys, *IND, "--seed", 0)
    status, out, err = run(capsys, *IND, "--seed", 0, "--diagnostics")
    assert (status, err) == (0, SEEDED)
    assert out.startswith(plain)
    assert out[len(plain) :].startswith("not private: do not publish\naccuracy: ")
    counts = [int(line.split("%")[1].split()[0]) for line in out.splitlines() if " to " in line and "%  " in line]
    assert len(counts) == 10
    assert sum(counts) == 988
    status, out, err = run(capsys, *IND, "--seed", 0, "--diagnostics", "--json", "--out", tmp_path / "a.npz")
    assert status == 0
    assert "not private: do not publish\naccuracy: " in err
    with np.load(tmp_path / "a.npz") as results:
        assert sorted(results) == ["answered", "id", "label", "summary"]
        assert json.loads(str(results["summary"])) == json.loads(out)
    found = json.loads(out)
    assert not {"accuracy", "spent", "diagnostics"} & set(found)


def test_json(capsys):
    found = summary(capsys, "--seed", 0)
    assert 1.999 < found["epsilon"] <= 2
    assert found["answered"] == found["queries"] == 60
    assert found["budget"] == ac.IndividualFilter.budget_for(2, 1e-4)
    assert found["records"] == {"private": 990, "public": 503}
    assert found["also_public"] == ["the number of records is public: --data is cut by it"]
    renyi = summary(capsys, "--seed", 0, "--conversion", "renyi")
    assert renyi["budget"] < found["budget"]


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    "extra", [[], ["--kernel", "rbf", "--bandwidth", 3], ["--hash", "8,4"], ["--reuse"], ["--threshold", 0.9]]
)
def test_answers_are_right(capsys, extra):
    _, out, _ = run(capsys, *IND, "--seed", 0, "--diagnostics", *extra)
    assert float(out.split("accuracy: ")[1].split(" %")[0]) > 50


# --- stores ---------------------------------------------------------------------------------------------


def tables(path, order, ids=None):
    """Private records as an .npz, with identifiers, and public points beside it."""
    cut = private_public_test_split(digits(), (400, 200, 300), 0)
    columns = {} if ids is None else {"person": np.array([ids[i] for i in order])}
    features, labels = cut.private.features[order], cut.private.labels[order]
    np.savez(path / "private.npz", features=features, labels=labels, **columns)
    np.savez(path / "public.npz", features=cut.public.features)
    return [
        *("predict", "ind-knn", "--private", path / "private.npz", "--public", path / "public.npz"),
        *("--epsilon", 2, "--delta", 1e-4, "--classes", 10, "--store", path / "budgets.db"),
    ]


def spent_in(path):
    with open_store(path / "budgets.db") as store:
        return store.spent(np.arange(store._snapshot.head.records))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("ids", ["person", "digest"])
def test_the_same_people_in_another_order_pay_once(capsys, tmp_path, ids):
    names = [f"p{i}" for i in range(400)]
    for seed in range(3):
        arguments = tables(tmp_path, np.random.default_rng(seed).permutation(400), names if ids == "person" else None)
        assert run(capsys, *arguments, "--ids", ids, "--queries", 100)[0] == 0
    spent = spent_in(tmp_path)
    assert len(spent) == 400
    assert spent.max() <= 2**61
    assert (spent > 2**59).any()


def test_one_record_more_or_other_queries_leave_a_store_usable(capsys, tmp_path):
    """Settled values are the default; other explicit values are refused with their names."""
    arguments = [*tables(tmp_path, np.arange(395)), "--ids", "digest", "--json"]
    _, first, _ = run(capsys, *arguments, "--queries", 100)
    tables(tmp_path, np.arange(400))
    status, second, err = run(capsys, *arguments, "--queries", 150)
    assert (status, err) == (0, "")
    names = ("budget", "threshold", "count_sigma", "vote_sigma")
    first, second = json.loads(first), json.loads(second)
    assert [first[name] for name in names] == [second[name] for name in names]
    assert first["store"] == second["store"]
    assert first["records"] == {"private": 400, "public": 200}, "to two digits"
    for extra, name in (
        (["--vote-sigma", 3], "vote_sigma"),
        (["--kernel", "rbf"], "kernel"),
        (["--selectivity", 0.2], "threshold"),
        (["--count-share", 1], "count_sigma"),
        (["--epsilon", 3], "budget"),
    ):
        status, _, err = run(capsys, *arguments, *extra)
        assert status == 2
        assert f"settled with {name} = " in err


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--features", "b"], "begun with other features, width"),
        (["--features", "b,a"], "begun with other features; accepted: the same features, label and classes"),
        (["--classes", "no,yes"], "begun with other classes"),
        (["--label", "other"], "begun with other label"),
        (["--standardize", "public"], "--standardize was given with --ids digest: other public points would change"),
        (["--impute-public"], "--impute-public was given with --ids digest"),
    ],
)
def test_a_choice_that_changes_digests_gives_nobody_a_new_budget(capsys, tmp_path, extra, message):
    rows = [f"{np.cos(i)},{np.sin(i)},{('yes', 'no')[i % 2]},{('no', 'yes')[i % 2]}" for i in range(60)]
    for name in ("private", "public"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,label,other", *rows]) + "\n", "utf-8")
    arguments = [*tables(tmp_path, np.arange(4)), "--ids", "digest", "--threshold", 0.5, "--vote-sigma", 1]
    arguments += ["--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv", "--classes", "yes,no"]
    plain = ["--features", "a,b"]
    assert run(capsys, *arguments, *plain)[0] == 0
    spent = spent_in(tmp_path)
    status, _, err = run(capsys, *arguments, *plain, *extra)
    assert (status, len(spent)) == (2, 60)
    assert message in err
    assert np.array_equal(spent_in(tmp_path), spent)
    assert run(capsys, *arguments, *plain)[0] == 0


def test_a_refused_run_leaves_no_new_store(capsys, tmp_path):
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest"]
    before = sorted(tmp_path.iterdir())
    for extra in (["--threshold", 2], ["--delta", 0], ["--vote-sigma", 0], ["--public", "-"]):
        assert run(capsys, *arguments, *extra)[0] == 2
        assert main([str(each) for each in (*arguments, *extra)]) == 2
        assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "budgets.db").touch()
    assert run(capsys, *arguments, "--dry-run")[0] == 0
    assert (tmp_path / "budgets.db").read_bytes() == b""


def test_defaults_look_at_a_nominal_number_of_records(capsys, tmp_path):
    sigmas = set()
    for size in (395, 396, 400):
        arguments = tables(tmp_path, np.arange(size))[:-2]
        for extra in ((), ("--records", 1000)):
            found = json.loads(run(capsys, *arguments, "--queries", 50, "--json", *extra)[1])
            sigmas.add((found["vote_sigma"], found["records"]["private"], tuple(found["also_public"])))
    assert sorted(each[1:] for each in sigmas) == [(400, ("about 400 records (public)",)), (1000, ())]


def interrupt(capsys, monkeypatch, arguments, after):
    """A run that is stopped after so many answers."""

    def tick(done):
        if done == after:
            raise KeyboardInterrupt

    @contextmanager
    def stopped(name, total=None):
        yield tick

    with monkeypatch.context() as patched:
        patched.setattr(prediction, "phase", stopped)
        assert run(capsys, *arguments)[0] == 130


def test_an_interrupted_run_goes_on(capsys, tmp_path, monkeypatch):
    """Answers are in the store and cost nothing the second time; a finished file is not overwritten."""
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest", "--out", tmp_path / "out.npz"]
    interrupt(capsys, monkeypatch, arguments, 140)
    assert not (tmp_path / "out.npz").exists()
    status, _, err = run(capsys, *arguments)
    assert (status, err) == (0, "mechanisms: going on with an interrupted run, 140 answers are kept\n")
    spent = spent_in(tmp_path)
    with np.load(tmp_path / "out.npz") as results:
        labels = results["label"]
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert "holds the results of a finished run; accepted: another file, or --again" in err
    (tmp_path / "out.npz").unlink()
    status, _, err = run(capsys, *arguments)
    assert (status, err) == (0, "mechanisms: going on with a run of the same queries, 200 answers are kept\n")
    with np.load(tmp_path / "out.npz") as results:
        assert np.array_equal(results["label"], labels)
    assert np.array_equal(spent_in(tmp_path), spent)
    status, out, err = run(capsys, *arguments, "--again", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert len(found["earlier"]) == 1
    assert found["total"]["epsilon"] == found["epsilon"], "one store, one interaction"
    assert (spent_in(tmp_path) > spent).any()


def test_a_run_goes_on_where_its_directory_was_moved(capsys, tmp_path, monkeypatch):
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest", "--queries", 40]
    places = [tmp_path / name / "out.npz" for name in ("first", "second", "third", "fourth")]
    for place in places[:2]:
        place.parent.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("mechanisms.cli.predict.write_results", lambda *given: 1 / 0)  # as if killed
        for place in places[:2]:
            with pytest.raises(ZeroDivisionError):
                run(capsys, *arguments, "--out", place)
    spent = spent_in(tmp_path)
    for old, new in zip(places[:2], places[2:], strict=True):
        old.parent.rename(new.parent)
    status, _, err = run(capsys, *arguments, "--out", places[2])
    assert (status, err.count("\n")) == (2, 1)
    assert f"began as {places[0]} or {places[1]}, which are gone; accepted: the file at one of them, or" in err
    places[3].parent.rename(places[1].parent)
    kept = "mechanisms: going on with a run of the same queries, 40 answers are kept\n"
    for place, said in (
        (places[2], f"mechanisms: the run that began as {places[0]}, which is gone, goes on here\n{kept}"),
        (places[1], kept),
    ):
        assert run(capsys, *arguments, "--out", place)[::2] == (0, said)
    assert np.array_equal(spent_in(tmp_path), spent)
    for place in places[1:3]:
        shutil.rmtree(place.parent)
    places[3].parent.mkdir()
    assert run(capsys, *arguments, "--out", places[3])[::2] == (0, ""), "a finished run that is gone is another one"
    assert (spent_in(tmp_path) > spent).any()


def test_a_run_that_may_live_on_another_machine_is_not_taken(capsys, tmp_path, monkeypatch):
    """Its directory is not seen from here: a run that had not all answers went on under its name, as if moved."""
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest", "--queries", 40]
    there, here = tmp_path / "there" / "out.npz", tmp_path / "here" / "out.npz"
    there.parent.mkdir()
    here.parent.mkdir()
    interrupt(capsys, monkeypatch, [*arguments, "--out", there], 12)
    there.parent.rmdir()
    spent = spent_in(tmp_path)
    status, _, err = run(capsys, *arguments, "--out", here)
    assert (status, err.count("\n")) == (2, 1)
    assert f"a run that began as {there}, which is not there, has 12 of 40 answers; accepted: that path, which" in err
    assert np.array_equal(spent_in(tmp_path), spent)
    assert list(here.parent.iterdir()) == []
    there.parent.mkdir()
    assert run(capsys, *arguments, "--out", here)[::2] == (0, "")
    kept = "mechanisms: going on with an interrupted run, 12 answers are kept\n"
    assert run(capsys, *arguments, "--out", there)[::2] == (0, kept)


def test_a_directory_that_this_user_cannot_look_at_is_there(capsys, tmp_path, monkeypatch):
    """The run was refused by a traceback."""
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest", "--queries", 20]
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
    interrupt(capsys, monkeypatch, [*arguments, "--out", tmp_path / "closed" / "out.npz"], 12)
    exists = Path.exists

    def look(path):
        if path == tmp_path / "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", look)
    assert run(capsys, *arguments, "--out", tmp_path / "open" / "out.npz")[::2] == (0, "")


@pytest.mark.parametrize("replaced", [False, True])
def test_results_are_not_written_by_who_lost_the_journal(capsys, tmp_path, monkeypatch, replaced):
    """Its journal was removed, so that another process could write there; those results were replaced by others."""
    arguments, journal = [*IND, "--out", tmp_path / "out.npz"], tmp_path / "out.npz.journal"

    def draw(*given, **named):
        found = predict(*given, **named)
        journal.unlink()
        if replaced:
            (tmp_path / "out.npz.journal.generation").unlink()
            monkeypatch.undo()
            assert run(capsys, *arguments)[0] == 0
        return found

    monkeypatch.setattr(prediction, "predict", draw)
    status, _, err = run(capsys, *arguments)
    assert (status, err.count("\n")) == (2, 1)
    assert "out.npz.journal: removed or replaced while it was open; accepted" in err
    assert (tmp_path / "out.npz").exists() is replaced


def test_what_fails_after_the_results_are_written_is_no_error(capsys, tmp_path, monkeypatch):
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest", "--queries", 20, "--out", tmp_path / "out.npz"]

    def fail(*given):
        raise PermissionError(1, "Operation not permitted", "out.npz.journal")

    begin = Store.begin

    def locked(store, name, header, size):
        if name.startswith("written: "):
            raise StoreError("budgets: another process held it; accepted: one process at a time")
        return begin(store, name, header, size)

    monkeypatch.setattr(results_file, "_remove_journal", fail)
    monkeypatch.setattr(Store, "begin", locked)
    assert run(capsys, *arguments)[::2] == (0, "")
    assert (tmp_path / "out.npz").exists()


def test_prices_of_runs_without_a_store_add_up(capsys, tmp_path):
    arguments = [*tables(tmp_path, np.arange(400))[:-2], "--queries", 20, "--out", tmp_path / "out.npz", "--json"]
    first = json.loads(run(capsys, *arguments)[1])
    second = json.loads(run(capsys, *arguments, "--again")[1])
    third = json.loads(run(capsys, *arguments, "--again")[1])
    assert first["total"]["epsilon"] == first["epsilon"]
    mu = (2 * first["budget"]) ** 0.5
    for found, runs in ((second, 2), (third, 3)):
        price = ac.epsilon(runs * ac.GaussianDP(mu), 1e-4, method="tight")
        assert found["total"]["epsilon"] == pytest.approx(price.epsilon, rel=1e-6)
        assert len(found["earlier"]) == runs - 1


@pytest.mark.parametrize("again", [[], ["--again"]])
def test_of_two_runs_into_one_file_one_draws(capsys, tmp_path, monkeypatch, again):
    """The other begins when the first has drawn and not written."""
    arguments = [*IND, "--out", tmp_path / "out.npz", *again]
    if again:
        assert run(capsys, *arguments)[0] == 0
    drawn, said = [], []

    def draw(*given, **named):
        drawn.append(predict(*given, **named))
        if len(drawn) == 1:
            said.append(run(capsys, *arguments))
        return drawn[-1]

    with monkeypatch.context() as patched:
        patched.setattr(prediction, "predict", draw)
        assert run(capsys, *arguments)[0] == 0
    ((status, _, err),) = said
    assert (status, "another process holds it; accepted: one process at a time" in err, len(drawn)) == (2, True, 1)
    with np.load(tmp_path / "out.npz") as results:
        assert np.array_equal(results["label"], drawn[0].labels)
    assert [each.name for each in tmp_path.iterdir()] == ["out.npz"]


def test_results_that_came_while_the_data_was_read(capsys, tmp_path, monkeypatch):
    arguments, said = [*IND, "--out", tmp_path / "out.npz", "--again"], []
    assert run(capsys, *arguments)[0] == 0
    with monkeypatch.context() as patched:

        def finish(_):
            patched.undo()
            said.append(run(capsys, *arguments)[0])

        patched.setattr("mechanisms.cli.predict.warn_of_seed", finish)
        status, _, err = run(capsys, *arguments)
    assert (said, status) == ([0], 2)
    assert "another process has just finished a run into it; accepted: one process at a time" in err
    assert [each.name for each in tmp_path.iterdir()] == ["out.npz"]


def test_a_journal_of_another_command_is_left(capsys, tmp_path):
    with Journal(tmp_path / "out.npz.journal") as journal:
        journal.part({"mechanism": "gnmax"}).charge(0, "vote")
    status, _, err = run(capsys, *IND, "--out", tmp_path / "out.npz")
    assert (status, "out.npz.journal is of an interrupted run of another command; accepted" in err) == (2, True)
    with Journal(tmp_path / "out.npz.journal") as journal:
        assert journal.held() == (1, 0)


def test_named_classes(capsys, tmp_path):
    cut = private_public_test_split(digits(), (400, 200, 300), 0)
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    np.savez(tmp_path / "private.npz", features=cut.private.features, labels=words[cut.private.labels])
    np.savez(tmp_path / "public.npz", features=cut.public.features)
    data = ["--private", tmp_path / "private.npz", "--public", tmp_path / "public.npz", "--classes", ",".join(words)]
    arguments = ["predict", "ind-knn", *data, "--epsilon", 8, "--delta", 1e-4, "--queries", 20]
    assert run(capsys, *arguments, "--out", tmp_path / "out.npz")[0] == 0
    with np.load(tmp_path / "out.npz") as results:
        assert set(results["label"]) <= set(words)
        assert len(set(results["label"])) > 3


def test_answers_that_nothing_keeps_are_not_drawn(capsys, tmp_path):
    arguments = [*tables(tmp_path, np.arange(400)), "--ids", "digest"]
    before = sorted(tmp_path.iterdir())
    status = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("mechanisms: without --out the labels would be paid for and lost; accepted: --out FILE, or")
    status, out, _ = run(capsys, *arguments, "--dry-run")
    assert status == 0
    for words in ("would ask", "for everything that the store ever pays for", "nothing: this was a dry run"):
        assert words in out
    assert sorted(tmp_path.iterdir()) == before
    planned = json.loads(run(capsys, *arguments, "--dry-run", "--json")[1])
    found = json.loads(run(capsys, *arguments, "--json")[1])
    same = ("epsilon", "delta", "budget", "threshold", "count_sigma", "vote_sigma", "queries", "records", "total")
    assert [planned[name] for name in same] == [found[name] for name in same]
    assert (planned["dry_run"], planned["answered"], found["dry_run"], found["answered"]) == (True, 0, False, 200)


def test_a_dry_run_checks_the_store_as_the_run_would_and_leaves_it(capsys, tmp_path):
    known = ["--ids", "digest", "--threshold", "0.9", "--vote-sigma", "1"]
    missing = [*IND, *known, "--store", tmp_path / "no" / "b.db"]
    for more in ((), ("--dry-run",)):
        status, _, err = run(capsys, *missing, *more)
        assert (status, "accepted: a file in an existing directory that can be written" in err) == (2, True)
    store = [*IND, "--ids", "digest", "--store", tmp_path / "b.db"]
    assert run(capsys, *store, *known)[0] == 0
    with open_store(tmp_path / "b.db") as held:
        settings = held.settings()
    for more in (["--threshold", "0.8"], ["--kernel", "rbf"], ["--epsilon", "3"]):
        status, _, err = run(capsys, *store, *more, "--dry-run")
        assert (status, "accepted: the same settings, or another store" in err) == (2, True)
        assert run(capsys, *store, *more) == (2, "", err)
    assert run(capsys, *store, "--dry-run")[0] == 0
    with open_store(tmp_path / "b.db") as held:
        assert (held.settings(), held._snapshot.head.records) == (settings, 988)  # of 990, two are equal


def test_a_dry_run_refuses_digests_that_would_change_and_identifiers_that_repeat(capsys, tmp_path):
    arguments = tables(tmp_path, np.arange(40))
    assert run(capsys, *arguments, "--ids", "digest", "--queries", "5")[0] == 0
    for path in (tmp_path / "private.npz", tmp_path / "public.npz"):
        with np.load(path) as table:
            np.savez(path, **{**table, "features": table["features"][:, 1:]})
    for more in (["--dry-run"], []):
        status, _, err = run(capsys, *arguments, "--ids", "digest", *more)
        assert (status, "accepted: the same features, label and classes" in err) == (2, True)
    people = tables(tmp_path, np.arange(40), ["same"] * 400)
    for more in (["--dry-run"], []):
        status, _, err = run(capsys, *people[:-1], tmp_path / "new.db", "--ids", "person", *more)
        assert (status, "'same'" in err) == (2, True)
    assert not (tmp_path / "new.db").exists()


# --- mistakes -------------------------------------------------------------------------------------------


def test_another_kernel_than_that_of_a_preset_needs_no_bandwidth(capsys):
    status, out, err = run(capsys, *IND, "--preset", "cifar10-rbf", "--kernel", "cosine", "--dry-run")
    assert (status, err) == (0, "")
    assert "nothing: this was a dry run" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queries", "504"], "queries = 504; accepted: an integer in [1, 503]"),
        (["--threshold", "2"], "threshold = 2"),
        (["--selectivity", "0.1", "--threshold", "0.5"], "--selectivity 0.1 and --threshold 0.5; accepted: one of"),
        (["--bandwidth", "2"], "--bandwidth 2 without --kernel rbf; accepted: both, or no --bandwidth"),
        (["--selectivity", "0"], "selectivity = 0.0; accepted: (0, 1)"),
        (["--vote-sigma", "0"], "vote_sigma = 0"),
        (["--hash", "30"], "'30'; accepted: TABLES,BITS such as 30,8"),
        (["--conversion", "classic"], "invalid choice: 'classic'"),
        (["--store", "x.db"], "--store without --ids; accepted: --ids NAME, a column, or --ids digest"),
        (["--store", "x.db", "--ids", "name"], "has no column 'name'"),
        (["--again"], "--again was given without --out"),
        (["--again", "--seed", "1", "--out", "x.npz"], "--again was given with --seed"),
        (["--store", "x.db", "--seed", "1"], "--store keeps what real answers cost; accepted: without --seed"),
        (["--out", "labels.txt"], "--out 'labels.txt'; accepted: a file ending in .npz, .parquet"),
        (["--delta", "0"], "delta"),
    ],
)
def test_mistakes(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *IND, *arguments, *([] if "--out" in arguments else ["--dry-run"]))
    assert (status, out) == (2, "")
    assert err.startswith("mechanisms: ")
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())


def test_defaults_see_public_points_alone():
    parts = private_public_test_split(digits(), (900, 400, 300), 0)
    setting = PredictionSetting(2.0, 1e-4, queries=20, seed=0)
    other = Dataset("other", parts.private.features[::-1].copy(), parts.private.labels)
    models = [predict(setting, private, parts.public, nominal=900).model for private in (parts.private, other)]
    expected = complete_setting(setting, 20, 900, Dataset("unlabelled", parts.public.features, None))
    for model in models:
        assert (model.threshold, model.vote_sigma) == (expected.threshold, expected.vote_sigma)
    unit = parts.public.features / np.linalg.norm(parts.public.features, axis=1, keepdims=True)
    pairs = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    assert np.mean(pairs >= expected.threshold) == pytest.approx(0.05, abs=0.002)
    # T votes of such a kernel, at K = n, take half the budget
    square = np.mean(pairs[pairs >= expected.threshold] ** 2)
    assert 20 * square / (2 * expected.vote_sigma**2 * 900) == pytest.approx(models[0].budget / 2, rel=1e-5)
    with pytest.raises(ac.ParameterError, match="one public point; accepted: several, or threshold and vote_sigma"):
        complete_setting(setting, 1, 900, parts.public.take(np.array([0])))
