"""A plan and its price without a release; labels that no file keeps are never drawn."""

import json

import pytest

from mechanisms.cli import main
from mechanisms.experiment.base import BaseExperiment

DATA = ["--data", "digits", "--epsilon", "2", "--delta", "1e-4", "--classes", "10"]
MECHANISMS = ["private-knn", "gnmax", "lnmax", "noisy-sgd", "reverse-knn"]
LOST = (
    "mechanisms: without --out the labels would be paid for and lost; accepted: --out FILE, or --dry-run, which prints "
    "the plan and its price and draws nothing\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_labels_that_nobody_keeps_are_not_drawn(capsys, mechanism):
    assert main(["label", mechanism, *DATA]) == 2
    assert capsys.readouterr() == ("", LOST)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("mechanism", ["gnmax", "noisy-sgd", "reverse-knn"])
def test_a_dry_run_says_what_the_run_will_cost_and_releases_nothing(capsys, tmp_path, monkeypatch, mechanism):
    more = ["--steps", "5"] if mechanism == "noisy-sgd" else []
    with monkeypatch.context() as patched:
        patched.setattr(BaseExperiment, "_begin", lambda self: pytest.fail("a run began"))
        assert main(["label", mechanism, *DATA, *more, "--dry-run", "--json", "--out", "a.npz"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["dry_run"], planned["answered"], planned["spent"]) == (True, 0, [])
    assert not list(tmp_path.iterdir())
    assert main(["label", mechanism, *DATA, *more, "--json", "--out", "a.npz"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["dry_run"]
    same = set(found) - {"dry_run", "answered", "labelled", "spent"}
    assert {key: planned[key] for key in same} == {key: found[key] for key in same}


@pytest.mark.audit
def test_a_dry_run_prints_a_table_and_counts_earlier_releases(capsys, tmp_path):
    arguments = ["label", "gnmax", *DATA, "--out", "a.npz"]
    assert main(arguments) == 0
    written = (tmp_path / "a.npz").read_bytes()
    capsys.readouterr()
    assert main([*arguments, "--dry-run", "--again"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in ("would ask", "would spend at most", "nothing: this was a dry run", "released before", "all together"):
        assert words in out
    assert (tmp_path / "a.npz").read_bytes() == written
    assert main([*arguments, "--dry-run"]) == 2, "a finished run is refused, as without --dry-run"


def test_a_dry_run_says_how_many_queries_are_in_a_round(capsys):
    """Two rounds of 12 queries were shown as 24 queries, as if there were one."""
    more = ["--queries", "12", "--rounds", "2", "--sampling-rate", "1", "--neighbors", "30"]
    assert main(["label", "private-knn", *DATA, *more, "--dry-run"]) == 0
    assert "24 queries, 12 in each of 2 rounds" in capsys.readouterr().out


@pytest.mark.parametrize(("points", "asked"), [("30", 30), ("40", 40), ("50", 40)])
def test_no_more_queries_are_usual_than_there_are_public_points(capsys, points, asked):
    """40 were refused at 30 points, though nobody had asked for 40; the price is that of as many as are asked."""
    split = ["--split", f"900,{points},200", "--neighbors", "3", "--dry-run", "--json"]
    plans = []
    for more in ([], ["--queries", str(asked)]):
        assert main(["label", "reverse-knn", *DATA, *split, *more]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    assert plans[0] == plans[1]
    assert plans[0]["setting"]["queries"] == asked


@pytest.mark.parametrize("more", [[], ["--adjacency", "add-remove"], ["--adjacency", "add-remove", "--records", "7"]])
def test_no_more_clients_are_usual_than_there_are_private_records(capsys, more):
    """10 were refused at 5 records, though nobody had asked for 10."""
    command = ["label", "reverse-knn", *DATA, "--dry-run", "--json", *more]
    for records in (5, 40):
        split = ["--split", f"{records},100,50"]
        assert main([*command, *split]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["clients"] == found["setting"]["clients"] == min(10, 7 if "--records" in more else records)
    assert main([*command, *split, "--clients", "41"]) == 2
    assert "clients = 41; accepted: an integer in [1, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        (["--max-labels", "5"], "5 queries "),
        (["--max-labels", "5", "--queries", "12"], "12 queries, of which at most 5 are answered "),
        (
            ["--max-labels", "5", "--queries", "12", "--rounds", "2", "--screening-ratio", "3"],
            "24 queries, 12 in each of 2 rounds, of which at most 5 are answered in each round ",
        ),
    ],
)
def test_a_dry_run_says_how_many_answers_there_are_at_most(capsys, more, asked):
    """Without screening all 503 points were asked about, and the first five were answered."""
    assert main(["label", "private-knn", *DATA, "--neighbors", "30", *more, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(lines) if "would ask" in line)
    told = " ".join(line.split("│")[2].strip() for line in lines[start : start + 2])
    assert f"{told} ".startswith(asked)


@pytest.mark.parametrize("command", [["label", "private-knn"], ["label", "reverse-knn"], ["predict", "ind-knn"]])
def test_a_large_delta_is_warned_of_beside_the_public_number_of_records(capsys, command):
    more = [*DATA, "--queries", "12", "--dry-run"]
    about = 988 if "reverse-knn" in command else 990  # under replace adjacency their number itself is public
    words = f"mechanisms: warning: delta = 0.002 is not below 1/{about}; even a mechanism that publishes one record"
    assert main([*command, *more, "--delta", "0.002"]) == 0
    assert capsys.readouterr().err.startswith(words)
    assert main([*command, *more, "--delta", "0.001"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("mechanism", "more", "votes"),
    [
        ("private-knn", ["--neighbors", "40", "--screening-ratio", "3"], "40 neighbours, screening at 24 votes"),
        ("private-knn", ["--neighbors", "40"], "40 neighbours"),
        ("gnmax", ["--teachers", "25", "--screening-ratio", "3", "--threshold", "12"], "25 teachers, screening at 12"),
        ("gnmax", [], "123 teachers"),
    ],
)
def test_a_dry_run_says_who_votes(capsys, mechanism, more, votes):
    assert main(["label", mechanism, *DATA, *more, "--queries", "12", "--dry-run"]) == 0
    assert votes in capsys.readouterr().out


def test_thin_samples_are_warned_of_before_anything_is_spent(capsys):
    thin = ["--neighbors", "300", "--screening-ratio", "3", "--queries", "30"]
    assert main(["label", "private-knn", *DATA, "--dry-run", *thin]) == 0
    assert capsys.readouterr().err == (
        "mechanisms: warning: n_neighbors = 300, threshold = 180: of 990 records, sampled at rate 0.5, about 495 vote, "
        "49.5 of each of 10 classes, so that few queries pass the screening; would pass: threshold of at most "
        "39.6, or n_neighbors of at most 49\n"
    )
