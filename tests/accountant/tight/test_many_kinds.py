"""Hundreds of kinds of screening, those that are nearest as one: against exact games of all kinds."""

import math
import random

import numpy as np
import pytest

import accountant as ac
from accountant.patience import allow_work
from accountant.tight import block_answers, many_kinds
from accountant.tight.game_setup import family_of
from accountant.tight.many_kinds import gather_into, gather_many
from accountant.tight.near_kinds import NearScreenings
from tests.cases import audit_after, count_calls

S, P = ac.NoisyScreening, ac.PoissonSubsampled


def draw_kinds(seed, kinds, times=1, sampled=False):
    dice = random.Random(f"many kinds {seed}")
    found = []
    for _ in range(kinds):
        votes = dice.choice([3, 30])
        kind = S(round(dice.uniform(3.0, 9.0), 3), round(votes * dice.uniform(0.2, 0.9), 2), votes)
        found.append((P(kind, round(dice.uniform(0.2, 0.9), 3)) if sampled else kind, times))
    return found


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("seed", "kinds", "most"), audit_after(2, [(0, 4, 1), (3, 6, 3), (1, 5, 2), (2, 6, 4)]))
def test_groups_bound_the_exact_game(seed, kinds, most, monkeypatch):
    run = ac.Composition(draw_kinds(seed, kinds, sampled=seed % 2 == 1))
    with monkeypatch.context() as plain:  # one game of all kinds
        plain.setattr(block_answers, "FEW_MOVES", 1000)
        exact = ac.epsilon(run, 1e-3, method="tight", tolerance=2e-3)
        exact_delta = ac.delta(run, 0.5 * exact.epsilon, method="tight", tolerance=0.02)
    asked = list[int]()

    def forced(families, find_order):
        found = gather_into(tuple(families), find_order(), most)
        asked.append(len(found))
        return found

    monkeypatch.setattr(block_answers, "gather_many", forced)
    monkeypatch.setattr(block_answers, "FEW_MOVES", 1)
    monkeypatch.setattr(block_answers, "MANY_KINDS", 3)  # games on clocks
    found = ac.epsilon(run, 1e-3)
    assert asked[0] == most
    assert 0.0 < found.lower <= exact.epsilon
    assert found.epsilon >= exact.lower
    delta = ac.delta(run, 0.5 * exact.epsilon)
    assert 0.0 < delta.lower <= exact_delta.delta
    assert delta.delta >= exact_delta.lower


@pytest.mark.parametrize("sampled", [False, True])
def test_every_kind_lies_between_the_pairs_of_its_group(sampled):
    families = draw_kinds(5, 12, sampled=sampled)
    found = gather_into(tuple(families), 8.0, 3)
    groups = [event for event, _ in found if isinstance(event, NearScreenings)]
    assert len(found) == 3
    assert groups
    for group in groups:
        both = family_of(group)
        for kind in group.kinds:
            own = family_of(kind).above
            for up, down in zip(*own, strict=True):
                assert ((both.above.up >= up) & (both.above.down >= down)).any()
            for up, down in zip(*both.played, strict=True):
                assert ((own.up >= up) & (own.down >= down)).any()


def test_no_curve_of_a_kind_is_above_that_of_its_group():
    orders = np.array([1.0, 1.0 + 1e-6, 1.5, 4.0, 30.0, 1e3, math.inf])
    families = [(S(40.0 + 0.1 * k, 120.0 + 9 * k, 300), 1) for k in range(12)]  # more pairs than a curve is taken of
    ((group, count),) = gather_into(tuple(families), 4.0, 1)
    assert count == 12
    assert group.choices.up.size > many_kinds.CURVE_PAIRS
    curve, least = group.renyi(orders), np.max([kind.renyi(orders) for kind, _ in families], axis=0)
    assert (curve >= least).all()
    assert curve[2:-1] == pytest.approx(least[2:-1], rel=0.2)
    assert curve[-1] == pytest.approx(least[-1], rel=1e-8)


def test_all_screenings_are_in_one_group():
    families = [*draw_kinds(7, 30, times=3), (S(1e-3, 0.5, 3), 2), (S(1.0, 1e6, 3), 4), (S(5e3, 4e3, 9000), 5)]
    for most in (1, 2, 7, 40):
        found = gather_into(tuple(families), 5.0, most)
        kinds = [
            kind for event, _ in found for kind in (event.kinds if isinstance(event, NearScreenings) else (event,))
        ]
        assert sorted(map(repr, kinds)) == sorted(repr(event) for event, _ in families)
        assert sum(count for _, count in found) == sum(count for _, count in families)
        assert len(found) <= most + 2  # one has very many pairs
    same = [(S(3.0 + 1e-16 * k, 2.0, 5, k % 2), 1) for k in range(4)]
    assert len(gather_into(tuple(same), 5.0, 4)) <= 4


def test_how_many_are_left_is_a_matter_of_patience():
    families = draw_kinds(8, 60)
    assert gather_many(families, lambda: 5.0) is families
    for order in (None, 1.0, math.inf):
        with allow_work(0.5):
            assert gather_many(families, [order].pop) is families
    found = {}
    for seconds in (0.001, 0.4, 0.7, 1.0):
        with allow_work(seconds):
            found[seconds] = len(gather_many(families, lambda: 5.0))
    assert found == {0.001: 60, 0.4: 24, 0.7: 24, 1.0: 60}


def test_an_order_is_sought_for_more_kinds_than_there_is_patience_for_alone(monkeypatch):
    """Beside releases whose curve takes long that is most of what few kinds take."""
    sought = count_calls(monkeypatch, block_answers, "renyi_epsilon")
    with allow_work(5.0):
        block_answers.answers_of(ac.Composition(draw_kinds(9, 30)), math.inf, 0.01)
    assert not sought
    with allow_work(0.4):
        block_answers.answers_of(ac.Composition(draw_kinds(9, 60)), math.inf, 0.01)
    assert sought


@pytest.mark.audit
def test_hundreds_of_kinds_have_a_lower_end():
    run = ac.Composition((S(40.0 + 0.2 * k, 150.0 + 0.3 * (k * 37 % 200), 300), 5) for k in range(200))
    found, renyi = ac.epsilon(run, 1e-5, patience=1.5), ac.epsilon(run, 1e-5, method="renyi")
    assert 0.9 * found.epsilon <= found.lower <= found.epsilon < renyi.epsilon
    again = ac.epsilon(run, 1e-5, patience=1.5)
    assert (again.lower, again.epsilon) == (found.lower, found.epsilon)


@pytest.mark.audit
def test_a_thousand_kinds_keep_patience_for_a_lower_end():
    """Finer references and games had taken what composing the pairs from below wants: it was 0.75 of epsilon."""
    run = ac.Composition((S(40.0 + 0.05 * k, 28.0 + k % 5, 60), 50) for k in range(1000))
    found, renyi = ac.epsilon(run, 1e-5, patience=3.5), ac.epsilon(run, 1e-5, method="renyi")
    assert 0.96 * found.epsilon <= found.lower <= found.epsilon < renyi.epsilon


def of_rates(*kinds):
    return [(P(S(sigma, 210, 300), rate), times) for times, sigma, rate in kinds]


@pytest.mark.parametrize(
    ("kinds", "delta"),
    audit_after(
        1,
        [
            (
                [
                    (S(sigma, 133, 300), times)
                    for times, sigma in ((517, 240), (56, 81), (511, 86), (14, 182), (1417, 163))
                ],
                5e-7,
            ),
            (
                of_rates(
                    (187, 41.4, 0.34), (1698, 87.1, 0.199), (57, 95.8, 0.225), (5701, 144, 0.033), (14, 119, 0.311)
                )
                + of_rates((256, 34.7, 0.274), (13, 54.4, 0.476), (24, 70.6, 0.083)),
                9e-7,
            ),
        ],
    ),
)
def test_kinds_that_have_no_clock_are_counted_beside_the_games(kinds, delta):
    """Games on clocks took what their blocks need: patience ended with the Rényi price, and nothing below it."""
    found = ac.epsilon(ac.Composition(kinds), delta)
    assert found.method == "tight"
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
