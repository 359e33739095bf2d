"""DP-SGD from a recipe: the run that it means, its price, stops and continuations, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import pytest

import accountant as ac
from accountant.plan import Plan

RATE = 256 / 60_000


@pytest.fixture(scope="module")
def training() -> ac.PrivateTraining:
    return ac.dp_sgd(records=60_000, batch=256, epochs=20, sigma=1.1, delta=1e-5)


def test_the_run_and_its_price(training):
    run = 4688 * ac.PoissonSubsampled(ac.Gaussian(1.1), RATE)
    assert training.run == run
    assert (training.sigma, training.rate, training.steps) == (1.1, RATE, 4688)
    assert training.guarantee == ac.epsilon(run, 1e-5, method="tight")
    assert training.renyi == ac.epsilon(run, 1e-5, method="renyi")
    # dp-accounting 0.6: 1.31890, from above; an integral in 30 digits: 1.318853546343
    assert training.guarantee.lower <= 1.318853546343 <= training.guarantee.epsilon <= 1.3189
    with pytest.raises(dataclasses.FrozenInstanceError):
        training.delta = 0.0


@pytest.mark.each_run(1)
@pytest.mark.parametrize("adjacency", ["add-remove", ac.Adjacency.REPLACE])
def test_noise_for_a_target(adjacency):
    found = ac.dp_sgd(1000, 100, 5, epsilon=2.0, delta=1e-4, adjacency=adjacency)
    assert 1.97 < found.guarantee.epsilon <= 2.0
    assert str(found.guarantee.adjacency) == str(adjacency)
    less = ac.dp_sgd(1000, 100, 5, sigma=0.97 * found.sigma, delta=1e-4, adjacency=adjacency)
    assert less.guarantee.epsilon > 2.0


def test_replacement_is_priced_by_its_pair():
    found = ac.dp_sgd(60_000, 256, 20, sigma=0.76, delta=1e-5, adjacency="replace", tolerance=1e-3)
    assert found.run == 4688 * ac.PoissonSubsampled(ac.ClippedSum(0.76, adjacency="replace"), RATE)
    assert found.guarantee.lower <= 4.21806 <= found.guarantee.epsilon * 1.0005  # dp-accounting 0.6


def test_phases_stops_and_continuations(training):
    phases = ac.dp_sgd(60_000, 256, 20, phases=[(0.8, 2000), (1.2, 2688)], delta=1e-5)
    first, second = (ac.PoissonSubsampled(ac.Gaussian(sigma), RATE) for sigma in (0.8, 1.2))
    assert phases.run == 2000 * first + 2688 * second
    assert phases.stop_at(2500).run == 2000 * first + 500 * second
    assert phases.stop_at(2000).run == 2000 * first
    assert phases.stop_at(2000).planned == 4688
    with pytest.raises(ac.ParameterError, match=r"2 phases; accepted: \.phases"):
        _ = phases.sigma
    stopped = ac.dp_sgd(60_000, 256, 20, sigma=1.1, delta=1e-5, stop_at=2000)
    assert stopped == training.stop_at(2000)
    assert stopped.guarantee < training.guarantee
    whole = stopped.go_on(2688)
    assert whole.run == training.run
    assert whole.guarantee == training.guarantee
    assert stopped.go_on(10, sigma=2.0).run == stopped.run + 10 * ac.PoissonSubsampled(ac.Gaussian(2.0), RATE)
    for step in (0, 4689, 1.5):
        with pytest.raises(ac.ParameterError, match=f"stop_at = {step}"):
            training.stop_at(step)


def test_saved_and_loaded(training, tmp_path):
    path = tmp_path / "training.toml"
    for each in (training, training.stop_at(7).go_on(3, 1 / 3)):
        ac.files.write_text(path, each.plan.to_toml())
        plan = ac.load_plan(path)
        assert plan.run == each.run
        assert plan.delta == 1e-5


@pytest.mark.parametrize("sampler", ["poisson", "fixed-size", "random-allocation", "shuffle"])
def test_plans_say_where_rate_and_steps_come_from(sampler, tmp_path):
    relation = "add-remove" if sampler in ("poisson", "random-allocation") else "replace"
    each = ac.dp_sgd(1000, 300, 2, sigma=3.0, delta=1e-4, sampler=sampler, adjacency=relation)
    for made, told in ((each, f"{each.steps} steps (2 epochs)"), (each.stop_at(4), f"stopped after 4 of {each.steps}")):
        path = tmp_path / "training.toml"
        ac.files.write_text(path, made.plan.to_toml())
        plan = ac.load_plan(path)
        assert plan.run == made.run
        assert plan.description.startswith("DP-SGD: batches of 300 of 1000 records")
        assert told in plan.description
    if sampler in ("poisson", "fixed-size"):
        (line,) = each.plan.written["release"]
        assert (line["records"], line["batch"], line["epochs"]) == (1000, 300, 2)
        assert {"count", "sampling_rate"}.isdisjoint(line)
        longer = Plan.from_tables("longer", each.plan.written).with_text("epochs", 4)
        assert longer.run == ac.dp_sgd(1000, 300, 4, sigma=3.0, delta=1e-4, sampler=sampler, adjacency=relation).run
    assert "epochs" not in each.go_on(1).plan.to_toml()


def test_in_words(training):
    assert "4688 steps of noise multiplier 1.1" in str(training)
    assert "<th" in training._repr_html_()
    assert "256 of 60,000" in training._repr_html_()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "none of sigma, epsilon and phases; accepted: exactly one"),
        ({"sigma": 1.0, "epsilon": 1.0}, "sigma, epsilon of sigma, epsilon and phases; accepted: exactly one"),
        ({"sigma": -1.0}, "sigma = -1 is out of range"),
        ({"epsilon": -1.0}, "epsilon = -1 is out of range"),
        ({"sigma": 1.0, "delta": 0.0}, r"delta = 0 is out of range; accepted: \(0, 1\)"),
        ({"sigma": 1.0, "batch": 101}, r"batch = 101 is out of range; accepted: an integer in \[1, 100\]"),
        ({"sigma": 1.0, "records": 0}, "records = 0 is out of range"),
        ({"sigma": 1.0, "epochs": None}, "epochs is missing"),
        ({"sigma": 1.0, "epochs": math.nan}, "epochs = nan is out of range"),
        ({"sigma": 1.0, "adjacency": "swap"}, 'adjacency = \'swap\'; accepted: "add-remove" or "replace"'),
        ({"phases": [(1.0, 3)]}, "phases of 3 steps in all; accepted: 20, or no epochs"),
        ({"phases": [1.0]}, r"phases = \[1.0\]; accepted: pairs"),
        ({"phases": []}, "phases of 0 steps in all"),
        ({"sigma": 1.0, "sampler": "shuffle"}, "shuffled epochs under add-remove adjacency; accepted: replace"),
        ({"sigma": 1.0, "sampler": "fixed-size"}, "batches of a fixed size under add-remove adjacency; accepted: repl"),
        ({"sigma": 1.0, "sampler": "random-allocation", "adjacency": "replace"}, "accepted: add-remove"),
        ({"sigma": 1.0, "sampler": "other"}, "sampler = 'other'; accepted: poisson, fixed-size, random"),
    ],
)
def test_refusals(more, words):
    with pytest.raises(ac.ParameterError, match=words) as caught:
        ac.dp_sgd(**{"records": 100, "batch": 10, "epochs": 2, "delta": 1e-5, **more})
    assert "\n" not in str(caught.value)


@pytest.mark.audit
def test_batches_of_a_fixed_size_cost_more_than_poisson_and_less_than_no_sampling():
    """Under replacement, one record of norm 1 moves each of its steps by 2."""
    recipe = {"records": 100, "batch": 12, "epochs": 2, "sigma": 4.0, "delta": 1e-5, "adjacency": "replace"}
    recipe["tolerance"] = 0.2
    fixed, poisson = ac.dp_sgd(**recipe, sampler="fixed-size"), ac.dp_sgd(**recipe)
    assert fixed.run == 17 * ac.FixedSizeSampled(ac.ClippedSum(4.0, adjacency="replace"), 12, 100)
    assert fixed.plan.run == fixed.run
    assert (fixed.steps, fixed.rate) == (17, 0.12)
    assert "12 distinct records" in fixed.assumption
    bound = ac.epsilon(17 * ac.Gaussian(4.0, 2.0, "replace"), 1e-5, method="tight")
    assert poisson.guarantee.epsilon < fixed.guarantee.epsilon < bound.epsilon
    assert fixed.stop_at(5).run.releases == 5


def test_shuffled_epochs_are_priced_between_no_amplification_and_an_attack():
    training = ac.dp_sgd(1000, 10, 3, sigma=4.0, delta=1e-5, adjacency="replace", sampler="shuffle")
    assert training.run == 3 * ac.ShuffledEpoch(ac.ClippedSum(4.0, adjacency="replace"), 100)
    assert training.plan.run == training.run
    found = training.guarantee
    bound = ac.epsilon(3 * ac.Gaussian(4.0, 2.0, "replace"), 1e-5, method="tight").epsilon
    assert 0 < found.lower < bound <= found.epsilon <= bound * 1.02
    assert found.epsilon > ac.dp_sgd(1000, 10, 3, sigma=4.0, delta=1e-5, adjacency="replace").guarantee.epsilon


@pytest.mark.audit
def test_random_allocation_is_priced_by_the_epoch():
    recipe = {"records": 1000, "batch": 30, "delta": 1e-5, "sampler": "random-allocation"}
    training = ac.dp_sgd(**recipe, epochs=3, sigma=1.0)
    assert training.run == 3 * ac.RandomAllocation(ac.Gaussian(1.0), 33)
    assert training.steps == 99
    assert training.guarantee == ac.epsilon(training.run, 1e-5, method="tight", tolerance=0.01)
    assert training.plan.run == training.run
    # a training that stops within an epoch is priced as if it had ended that epoch
    assert training.stop_at(34).run == 2 * ac.RandomAllocation(ac.Gaussian(1.0), 33)
    assert training.go_on(33, sigma=2.0).run.releases == 4
    with pytest.raises(ac.ParameterError, match="a phase of 34 steps; accepted: whole epochs of 33 steps"):
        training.stop_at(34).go_on(33)
    with pytest.raises(ac.ParameterError, match="epochs"):
        ac.dp_sgd(**recipe, epochs=1.5, sigma=1.0)
    assert "one step of every 33 steps" in training.assumption
    found = ac.dp_sgd(**recipe, epochs=3, epsilon=2.0)
    assert found.guarantee.epsilon <= 2.0 <= found.guarantee.epsilon * 1.03


def test_a_delta_that_is_not_below_one_over_the_records_is_warned_of():
    with pytest.warns(ac.DeltaWarning, match=r"delta = 0\.01 is not below 1/100; even"):
        found = ac.dp_sgd(100, 10, 2, sigma=2.0, delta=0.01)
    assert found.delta == 0.01
    ac.dp_sgd(100, 10, 2, sigma=2.0, delta=0.0099)
