"""The runner of the papers' tables and figures: what is declared, priced, run, kept and written."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.datasets import digits
from mechanisms.papers import ItemError, Request, list_items, load_item, reproduce, write_result
from mechanisms.papers import runner as runner_module
from mechanisms.papers import runs as runs_module
from mechanisms.papers.catalogue import PAPERS
from mechanisms.papers.item import parse_item
from mechanisms.papers.prices import compute_price
from mechanisms.papers.sources import describe_source, find_parts
from mechanisms.papers.writing import agrees, list_lines, to_latex, to_markdown
from mechanisms.students.network import NetworkStudent
from tests.mechanisms.datasets.test_datasets import write_idx

TABLES = {"private-knn": 5, "ind-knn": 6, "ind-knn-supplement": 3, "reverse-knn": 1, "reverse-knn-short": 1}
FIGURES = {"private-knn": 9, "ind-knn": 5, "ind-knn-supplement": 1, "reverse-knn": 6, "reverse-knn-short": 2}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_is_there(paper):
    names = [item.name for item in list_items() if item.paper == paper]
    assert [name for name in names if name.startswith("table")] == [f"table-{i + 1}" for i in range(TABLES[paper])]
    figures = {int(name.removeprefix("figure-").rstrip("ab")) for name in names if name.startswith("figure")}
    assert figures == set(range(1, FIGURES[paper] + 1))


@pytest.mark.parametrize("item", list_items(), ids=lambda item: f"{item.paper} {item.name}")
def test_every_row_says_why_it_may_differ(item):
    """A printed number that is not computed, or that a run stands beside, needs a reason."""
    assert item.rows or item.kind in ("illustration", "specification")
    for row in item.rows:
        priced = row.price is not None and "epsilon" in row.printed
        for quantity in row.printed:
            told = quantity in row.different or "all" in row.different
            settled = quantity in ("epsilon", "answers") and row.run is not None  # settings of the run
            assert told or settled or priced or (row.price is not None and row.run is None), f"{row.name}: {quantity}"
    if item.runs:
        assert item.small is not None
        assert item.small_note or item.note


ANCHORS = {
    ("private-knn", "table-3"): {"epsilon": 4},
    ("private-knn", "figure-9"): {"epsilon": 0},
    ("ind-knn-supplement", "table-3"): {"threshold": 2},
    ("ind-knn", "table-5"): {"threshold": 2},
}


@pytest.mark.parametrize(("paper", "name"), ANCHORS)
def test_prices_beside_what_is_printed(paper, name):
    """Prices need no data; whatever does not agree is explained."""
    lines = list_lines(reproduce(load_item(paper, name), Request()))
    assert lines
    assert not [line for line in lines if line.why == "not explained"]
    for quantity, least in ANCHORS[paper, name].items():
        assert sum(line.quantity == quantity and line.why == "agrees" for line in lines) >= least


def test_figure_5():
    """Zhu et al. 2020, Fig. 5, at 8192 queries: 5.67, 1.313, 4.43 and 1.04."""
    item = load_item("private-knn", "figure-5")
    last = {row.series: compute_price(row.price)["epsilon"] for row in item.rows if row.x == 8192}
    for name, printed in (
        ("Gaussian", 5.67),
        ("subsampled Gaussian", 1.313),
        ("screening", 4.43),
        ("subsampled screening", 1.04),
    ):
        assert last[name] == pytest.approx(printed, rel=2.5e-3)


def test_what_appendix_c_prints():
    """Zhu et al. 2020, App. C: 13.22 at L2-sensitivity 10, and 5.298 at sqrt(20), both cut off."""
    first, second = (compute_price(row.price)["epsilon"] for row in load_item("private-knn", "figure-9").rows[:2])
    assert 13.22 < first < 13.23
    assert 5.298 < second < 5.299


def test_votes_of_the_user(tmp_path):
    """Counts, labels of neighbours and pluralities say the same."""
    price = {"kind": "votes", "sigma": 85.0, "threshold": 210.0, "queries": 40, "delta": 1e-5}
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, size=(20, 300))
    counts = np.stack([np.bincount(row, minlength=10) for row in labels])
    found = []
    for name, table in (("labels", labels), ("counts", counts), ("highest", counts.max(axis=1))):
        np.save(tmp_path / name, table)
        found.append(compute_price(price, str(tmp_path / f"{name}.npy"))["epsilon"])
    run = ac.Composition((ac.DataDependentScreening(85.0, 210.0, int(n)), 2) for n in counts.max(axis=1))
    assert found == [ac.epsilon(run, 1e-5, conversion="classic").epsilon] * 3
    np.save(tmp_path / "wrong", labels + 5)
    with pytest.raises(ac.AccountantError, match="holds the label"):
        compute_price(price, str(tmp_path / "wrong.npy"))


def test_prices_at_votes_are_those_of_the_file_as_it_is(tmp_path):
    item = load_item("private-knn", "figure-5")
    rows = tuple(row for row in item.rows if row.name == "screening at the votes, queries 1")
    file, found = tmp_path / "votes.npy", []
    request = Request({"votes": str(file)}, out=tmp_path / "out", public_votes=True)
    for votes in (250, 150, 250):
        np.save(file, np.full(10, votes))
        os.utime(file, ns=(0, 0))
        found.append(reproduce(replace(item, rows=rows), request).rows[0].values("epsilon")[0])
    prices = [
        ac.epsilon(ac.DataDependentScreening(85.0, 210.0, votes), 1e-5, conversion="classic") for votes in (250, 150)
    ]
    assert found == [prices[0].epsilon, prices[1].epsilon, prices[0].epsilon]
    assert found[0] < found[1]
    assert len(list((tmp_path / "out" / "units").iterdir())) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["ind-knn", "figure-3a"], "not run: no data cifar10-vit"),
        (["private-knn", "table-4"], "accepted: an item that the list shows as running"),
    ],
)
def test_a_request_that_is_refused_makes_no_directory(tmp_path, capsys, more, words):
    assert main(["reproduce", *more, "--out", f"{tmp_path}/out"]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_prices_at_votes_that_may_be_private_are_not_written(tmp_path, capsys):
    np.save(tmp_path / "votes.npy", np.full(10, 250))
    command = [
        "reproduce",
        "private-knn",
        "figure-5",
        "--data",
        f"votes={tmp_path}/votes.npy",
        "--out",
        f"{tmp_path}/out",
    ]
    assert main(command) == 2
    err = capsys.readouterr().err
    assert "depends on private data; accepted: --public-votes (public_votes=True) if they are public" in err
    assert not (tmp_path / "out").exists()
    item, request = load_item("private-knn", "figure-5"), Request({"votes": str(tmp_path / "votes.npy")})
    found = reproduce(replace(item, rows=item.rows[21:22]), request)
    with pytest.raises(ac.DataDependentError):
        write_result(found, tmp_path)
    assert "votes" in found.rows[0].row.name
    reproduce(load_item("private-knn", "figure-9"), replace(request, out=tmp_path / "out"))  # no votes are priced


def test_concatenation_is_not_compared_and_collision_wins():
    """Wang et al. 2022, Fig. 6: .528 and 5.42 at epsilon 3.5, and Collision is better at every epsilon."""
    rows = load_item("reverse-knn", "figure-6").rows
    found = {(row.series, row.x): compute_price(row.price)["variance"] for row in rows}
    assert found["Collision", 3.5] == pytest.approx(0.528, abs=5e-4)
    assert found["Separation", 3.5] == pytest.approx(5.42, abs=5e-3)
    assert all(found["Collision", x] < found["Separation", x] for name, x in found if name == "Collision")


# --- runs ------------------------------------------------------------------------------------------------

DIGITS = {"data": "digits", "split": [900, 200, 200], "delta": 1e-4}
RUNS = {
    "private-knn": {"epsilon": 4.0, "queries": 20, "neighbors": 30, "sampling_rate": 0.5, "choose": "random"},
    "gnmax": {"vote_sigma": 1.0, "queries": 15, "teachers": 12, "teacher": "nearest"},
    "noisy-sgd": {"noise_multiplier": 1.0, "steps": 60, "batch": 90, "queries": 30},
    "reverse-knn": {"epsilon": 2.0, "queries": 15, "labels_only": True, "delta": 0.0},
    "ind-knn": {"epsilon": 2.0, "queries": 60, "unit": True, "kernel": "rbf"},
    "private-knn-prediction": {"epsilon": 4.0, "queries": 40, "neighbors": 30, "sampling_rate": 0.5},
    "sets": {
        "mechanism": "private-knn",
        "vote_sigma": 2.0,
        "queries": 30,
        "neighbors": 20,
        "clip": 3.0,
        "attributes": True,
        "choose": "first",
    },
}
QUANTITIES = {"accuracy": "%", "label_accuracy": "%", "epsilon": "at delta", "seconds": "per query"}


def item_of(**rows):
    """An item of these runs, two seeds each."""
    tables = [
        {"name": name, "seeds": 2, "run": run, "printed": {"accuracy": "99.9"}, "different": "other data"}
        for name, run in rows.items()
    ]
    about = {"title": "Digits", "source": "Zhu et al. 2020, Table 1", "kind": "table", "quantities": QUANTITIES}
    return parse_item("private-knn", "table-1", {**about, "row": tables})


@pytest.fixture(autouse=True)
def quick_students(monkeypatch):
    """Fewer passes over the points than by default."""
    monkeypatch.setattr(NetworkStudent.__init__, "__defaults__", (24, 7, 0.2, 40, 0))


EXACT = {
    "nearest": {"mechanism": "votes-without-noise", "neighbors": 7},
    "similar": {"mechanism": "votes-without-noise", "selectivity": 0.05},
    "linear": {"mechanism": "linear-without-noise"},
}


@pytest.mark.audit
def test_runs_without_noise(monkeypatch):
    """The same labels as by counting one query after another; nothing is paid for, so no epsilon is printed."""
    answers = {}
    judge = runs_module.compare_labels
    monkeypatch.setattr(
        runs_module,
        "compare_labels",
        lambda labels, queries: answers.update({len(answers): (labels, queries)}) or judge(labels, queries),
    )
    item = item_of(**{name: {**DIGITS, "queries": 40, **run} for name, run in EXACT.items()})
    found = {row.row.name: row for row in reproduce(item, Request()).rows}
    for row in found.values():
        assert not row.values("epsilon")
        assert all(85 < each <= 100 for each in row.values("accuracy"))
    parts = find_parts(item.rows[0].run, {}, 0)
    records, classes = parts.private.features, parts.private.labels
    labels, queries = answers[0]
    for label, query in zip(labels, queries.features, strict=True):
        nearest = np.argsort(np.sum((records - query) ** 2, axis=1), kind="stable")[:7]
        votes = np.bincount(classes[nearest], minlength=10)
        assert votes[label] == votes.max()
    labels, queries = answers[2]
    pairs = parts.public.features @ parts.public.features.T
    lengths = np.linalg.norm(parts.public.features, axis=1)
    cosines = (pairs / np.outer(lengths, lengths))[np.triu_indices(len(lengths), 1)]
    threshold = np.quantile(cosines, 0.95)
    for label, query in zip(labels, queries.features, strict=True):
        similar = records @ query / np.linalg.norm(records, axis=1) / np.linalg.norm(query)
        votes = np.bincount(classes, np.where(similar >= threshold, similar, 0.0), minlength=10)
        assert votes[label] == pytest.approx(votes.max(), rel=1e-6)


@pytest.mark.each_run(3)
@pytest.mark.parametrize("name", RUNS)
def test_runs(name):
    (found,) = reproduce(item_of(row={"mechanism": name, **DIGITS, **RUNS[name]}), Request()).rows
    assert len(found.measured) == 2
    right = found.values("label_accuracy") or found.values("accuracy")
    assert all(35 < each <= 100 for each in right)
    (cost,) = set(found.values("epsilon"))
    assert cost > 0
    if "epsilon" in RUNS[name]:
        assert cost <= RUNS[name]["epsilon"] * (1 + 1e-9)


def test_fewer_seeds(capsys, tmp_path):
    row = {"mechanism": "ind-knn", **DIGITS, **RUNS["ind-knn"]}
    (found,) = reproduce(item_of(row=row), Request(seeds=1)).rows
    assert (len(found.measured), found.row.seeds) == (1, 1)
    (all_of,) = reproduce(item_of(row=row), Request(seeds=9)).rows
    assert all_of.measured[0] == {**found.measured[0], "seconds": all_of.measured[0]["seconds"]}
    assert len(all_of.measured) == 2
    with pytest.raises(ac.ParameterError, match="seeds = 0; accepted: "):
        reproduce(item_of(row=row), Request(seeds=0))
    assert main(["reproduce", "ind-knn", "table-5", "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert "table-5" in capsys.readouterr().err


def test_a_killed_run_goes_on(tmp_path, monkeypatch):
    """Units that were done are not run again, and the result is that of a run that was not killed."""
    run = {"mechanism": "reverse-knn", **DIGITS, **RUNS["reverse-knn"]}
    item = item_of(first=run, second={**run, "queries": 10})
    whole = reproduce(item, Request())
    calls = []

    def stop_at_third(*arguments):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(arguments)
        return measure(*arguments)

    measure = runner_module.measure
    monkeypatch.setattr(runner_module, "measure", stop_at_third)
    request = Request(out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        reproduce(item, request)
    assert len(list((tmp_path / "units").iterdir())) == 2
    monkeypatch.setattr(runner_module, "measure", lambda *arguments: calls.append(arguments) or measure(*arguments))
    again = reproduce(item, request)
    assert len(calls) == 4
    assert [each.measured for each in again.rows] == [each.measured for each in whole.rows]
    (tmp_path / "units" / sorted(each.name for each in (tmp_path / "units").iterdir())[0]).write_text("{")
    assert [each.measured for each in reproduce(item, request).rows] == [each.measured for each in whole.rows]
    assert len(calls) == 5


def test_rows_without_their_data_are_left_out(tmp_path):
    """Accounting rows are computed all the same; files that change are other runs."""
    found = reproduce(load_item("private-knn", "table-2"), Request())
    assert found.rows[1].priced["epsilon"] == pytest.approx(0.1902, abs=1e-4)
    assert "no data svhn; accepted: --data svhn=PATH, or --small" in found.rows[0].refused
    with pytest.raises(ItemError, match="no data svhn"):
        reproduce(load_item("private-knn", "figure-4"), Request())
    with pytest.raises(ItemError, match="nothing to compute"):
        reproduce(load_item("private-knn", "table-4"), Request())


def test_in_full_on_the_users_files(tmp_path):
    """An item that asks for features of a network, on features of digits."""
    whole = digits()
    for name, rows in (("train", slice(0, 1200)), ("test", slice(1200, 1500))):
        np.savez(tmp_path / name, features=whole.features[rows], labels=whole.labels[rows])
    item = load_item("ind-knn", "figure-3b")
    tables = {**vars(item), "rows": tuple(row for row in item.rows if row.run)}
    small = type(item)(**tables)
    found = reproduce(small, Request({"cifar10-vit": str(tmp_path)}))
    assert found.rows[0].values("epsilon")[0] == pytest.approx(2.0, abs=1e-6)
    assert "Run on the user's files of cifar10-vit." in to_markdown(found)


def test_splits_of_the_papers(tmp_path):
    """Zhu et al. 2020, section 4.1: MNIST's training set is private, one half of the test set public, one for tests."""
    write_idx(tmp_path)
    write_idx(tmp_path, "t10k", np.arange(10) % 10)
    run = {"private": "{mnist}:train", "public": "{mnist}:t10k[0:5]", "test": "{mnist}:t10k[5:10]"}
    parts = find_parts(run, {"mnist": str(tmp_path)}, 0)
    assert len(parts.private) == 6
    assert (parts.public.labels.tolist(), parts.test.labels.tolist()) == ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
    twice = find_parts({**run, "copies": 2}, {"mnist": str(tmp_path)}, 0).private
    np.testing.assert_array_equal(twice.features, np.tile(parts.private.features, (2, 1)))
    before = describe_source(run, {"mnist": str(tmp_path)})
    write_idx(tmp_path, "t10k", np.arange(9) % 10)
    assert describe_source(run, {"mnist": str(tmp_path)}) != before


# --- what is written -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "ours", "same"),
    [
        ("1.04", 1.0421, True),
        ("1.04", 1.0451, False),
        ("5.67", 5.676, False),
        ("0.8", 0.829, True),
        (2.0, 2.04, True),
        ("<= 50", 40.0, False),
    ],
)
def test_agreement_to_the_printed_digits(printed, ours, same):
    assert agrees(printed, ours) is same


@pytest.mark.audit
def test_files(tmp_path):
    pytest.importorskip("matplotlib")
    result = reproduce(load_item("reverse-knn", "figure-6"), Request(out=tmp_path))
    paths = write_result(result, tmp_path)
    assert [path.name for path in paths] == ["figure-6.json", "figure-6.md", "figure-6.tex", "figure-6.svg"]
    found = json.loads(paths[0].read_text())
    assert (found["paper"], found["small"], len(found["rows"])) == ("reverse-knn", False, 36)
    assert "Collision, epsilon 3.5 | variance |  | 0.5281 |" in paths[1].read_text()
    text = to_latex(result)
    assert text.count(r" \\") == 37
    assert "_" not in text.replace(r"\_", "")
    before = paths[3].read_bytes()
    assert write_result(result, tmp_path)[3].read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "poem"}, "kind = 'poem'; accepted: table, figure"),
        ({"colour": "red"}, "colour"),
        ({"row": [{"name": "a", "printed": {"speed": 1}}]}, "quantity 'speed'; accepted: epsilon"),
        ({"row": [{"name": "a", "vary": {"x": [1]}}]}, "varies x; accepted: of a price or a run"),
    ],
)
def test_files_of_items_that_are_wrong(change, message):
    good = {"title": "a", "source": "b", "kind": "table", "quantities": {"epsilon": "c"}}
    with pytest.raises(ItemError, match=message):
        parse_item("private-knn", "table-9", {**good, **change})


# --- the command -----------------------------------------------------------------------------------------


def test_the_list(capsys):
    assert main(["reproduce", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == len(list_items()) == 41
    by_name = {(row["paper"], row["item"]): row["status"] for row in rows}
    assert by_name["private-knn", "figure-5"] == "runs"
    assert by_name["private-knn", "table-2"] == "runs on svhn, or small"
    assert by_name["private-knn", "table-4"] == "nothing to compute: specification"


def test_one_item_and_a_whole_paper(capsys, tmp_path):
    assert main(["reproduce", "ind-knn-supplement", "table-3", "--out", str(tmp_path / "a")]) == 0
    out, err = capsys.readouterr()
    assert "0.7156" in out
    assert "written to" in err
    assert main(["reproduce", "ind-knn-supplement", "--out", str(tmp_path / "b")]) == 0
    out, err = capsys.readouterr()
    assert "figure-1: not run: ind-knn-supplement figure-1: not run: no data cifar10-resnet50" in err
    assert (tmp_path / "b" / "results.md").read_text().count("### ind-knn-supplement") == 2


def test_a_directory_that_cannot_be_written_is_refused_before_the_first_run(capsys, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("mechanisms.papers.reproduce", lambda *_: pytest.fail("run"))
    monkeypatch.setattr("os.open", refuse)
    assert main(["reproduce", "ind-knn-supplement", "table-3", "--out", str(tmp_path)]) == 2
    assert "Read-only file system; accepted: a file that can be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["poems"], "paper = 'poems'; accepted: private-knn"),
        (["poems", "table-1"], "paper = 'poems'"),
        (["private-knn", "table-12"], "item = 'table-12' of private-knn; accepted: table-1"),
        (["private-knn", "table-4"], "nothing to compute: specification"),
        (["private-knn", "table-2", "--svhn", "nowhere"], "svhn: no such file or directory nowhere"),
        (["private-knn", "table-3", "--data", "celeba"], "--data celeba; accepted: NAME=PATH"),
        (["private-knn", "figure-4"], "no data svhn"),
    ],
)
def test_mistakes(capsys, tmp_path, arguments, message):
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
