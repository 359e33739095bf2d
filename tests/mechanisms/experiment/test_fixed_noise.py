"""Experiments whose noise is given instead of a guarantee, and whose queries are chosen in other ways."""

import json

import numpy as np
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.datasets import digits, private_public_test_split
from mechanisms.experiment import Experiment, Setting
from mechanisms.queries import order_queries, take_turn
from mechanisms.students.network import NetworkStudent

CUT = private_public_test_split(digits(), (600, 200, 100), rng=0)


def make(**changes):
    setting = Setting(
        **{"mechanism": "private-knn", "epsilon": None, "delta": 1e-4, "queries": 20, "seed": 0, **changes}
    )
    return Experiment(setting, CUT.private, CUT.public, CUT.test)


def test_the_price_follows_from_the_noise():
    one = make(vote_sigma=8.0, screening_sigma=30.0, neighbors=20, sampling_rate=0.4, max_labels=15)
    screening = ac.PoissonSubsampled(ac.NoisyScreening(30.0, 12.0, 20), 0.4)
    run = 20 * screening + 15 * ac.PoissonSubsampled(ac.GNMax(8.0), 0.4)
    assert one.planned == run
    assert one.guarantee.epsilon == pytest.approx(ac.epsilon(run, 1e-4).epsilon, rel=1e-3)
    assert one.noise == 8.0


@pytest.mark.parametrize("mechanism", ["gnmax", "lnmax", "private-knn"])
def test_noise_and_target_agree(mechanism):
    """The noise that a target leads to, given as noise, costs that target."""
    wanted = make(mechanism=mechanism, epsilon=2.0)
    given = make(mechanism=mechanism, vote_sigma=wanted.noise)
    assert given.planned == wanted.planned
    assert given.guarantee.epsilon <= 2.0


def test_training_with_given_noise():
    one = make(
        mechanism="noisy-sgd", queries=None, noise_multiplier=1.5, batch=60, steps=40, clip=0.5, learning_rate=0.1
    )
    assert one.planned == 40 * ac.PoissonSubsampled(ac.Gaussian(1.5), 0.1)
    assert (one.labeller.clip, one.labeller.learning_rate) == (0.5, 0.1)
    assert one.run(diagnostics=True).diagnostics.student_accuracy > 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "epsilon = None and vote_sigma = None; accepted: one of them"),
        ({"epsilon": 1.0, "vote_sigma": 2.0}, "epsilon = 1.0 and vote_sigma = 2.0"),
        ({"vote_sigma": 2.0, "queries": None}, "queries = None with vote_sigma"),
        ({"vote_sigma": -2.0}, "vote_sigma = -2.0; accepted: a finite number above 0"),
        ({"epsilon": 1.0, "screening_sigma": 2.0}, "screening_sigma = 2.0; accepted: with vote_sigma"),
        ({"vote_sigma": 1.0, "screening_sigma": 2.0, "screening_ratio": 3.0}, "without screening_ratio"),
        ({"vote_sigma": 1.0, "noise_multiplier": 2.0}, "noise_multiplier = 2.0 with private-knn; accepted: vote_sigma"),
        ({"mechanism": "noisy-sgd", "vote_sigma": 2.0}, "vote_sigma = 2.0 with noisy-sgd; accepted: noise_multiplier"),
        ({"mechanism": "noisy-sgd", "noise_multiplier": 2.0, "batch": 601}, "batch = 601"),
        ({"vote_sigma": 1.0, "choose": "best"}, "choose = 'best'; accepted: central, random, first or rows"),
    ],
)
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ac.ParameterError, match=message.replace("(", r"\(")):
        make(**changes).run()


# --- queries ---------------------------------------------------------------------------------------------


def asked(monkeypatch, **changes):
    """The features of the queries of every round."""
    seen = []
    one = make(vote_sigma=5.0, neighbors=10, **changes)
    label = type(one.labeller).label
    monkeypatch.setattr(
        type(one.labeller), "label", lambda self, points, *more: seen.append(points) or label(self, points, *more)
    )
    one.make_student = lambda: NetworkStudent(hidden=4, max_iter=5)
    one.run()
    return seen


def test_first_and_given_rows(monkeypatch):
    (first,) = asked(monkeypatch, choose="first")
    np.testing.assert_array_equal(first, CUT.public.features[:20])
    rows = tuple(range(199, 170, -1))
    (given,) = asked(monkeypatch, choose=rows)
    np.testing.assert_array_equal(given, CUT.public.features[list(rows[:20])])


def test_random_rows_differ_from_round_to_round_and_not_from_run_to_run():
    order = order_queries("random", 30, 12)
    np.testing.assert_array_equal(order, order_queries("random", 30, 12))
    turns = [take_turn(order, number, 12) for number in range(3)]
    assert sorted(np.concatenate(turns[:2]).tolist()) == sorted(set(order[:24].tolist()))
    np.testing.assert_array_equal(turns[2], np.concatenate([order[24:], order[:6]]))
    assert order_queries("central", 30, 12) is None


@pytest.mark.parametrize("rows", [(1, 1), (0, 30), (-1, 2), (1,), (), (0.5, 1)])
def test_rows_that_cannot_be_asked(rows):
    with pytest.raises(ac.ParameterError, match="choose = "):
        order_queries(rows, 30, 2)


def test_on_the_command_line(capsys, tmp_path):
    rows = tmp_path / "rows.txt"
    rows.write_text("5\n3\n8\n")
    fixed = ["--data", "digits", "--delta", "1e-4", "--dry-run", "--json", "--vote-sigma", "20", "--queries", "3"]
    assert main(["label", "private-knn", *fixed, "--screening-sigma", "60", "--choose", f"@{rows}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["setting"]["choose"] == [5, 3, 8]
    assert found["noise"] == 20
    assert [each["event"] for each in found["releases"]] == ["noisy-screening", "gnmax"]
    for wrong, message in (
        (["--epsilon", "1"], "epsilon = 1.0 and vote_sigma = 20.0; accepted: one of them"),
        (["--choose", "@nowhere"], "No such file"),
        (["--choose", "worst"], "accepted: central, random, first, or @FILE"),
    ):
        assert main(["label", "private-knn", *fixed, *wrong]) == 2
        assert message in capsys.readouterr().err
    options = ["--data", "digits", "--delta", "1e-4", "--dry-run", "--batch", "50", "--noise-multiplier", "1"]
    assert main(["label", "noisy-sgd", *options, "--clip", "1", "--learning-rate", "0.5"]) == 0
