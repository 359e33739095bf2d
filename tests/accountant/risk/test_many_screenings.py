"""Attack risks of many screenings come from blocks of them: against exact games, and against the game on a grid."""

import math
import random
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

import accountant as ac
from accountant import patience
from accountant.attack import sum_of_scores
from accountant.tight import block_answers, block_rates, kind_blocks, screening_blocks
from tests.accountant.risk.test_risk import likelihood_ratio_test
from tests.cases import audit_after
from tests.soak.cases import draw_screening
from tests.soak.exact import FewOutcomes, game_chain

S, P = ac.NoisyScreening, ac.PoissonSubsampled
RATES = [1e-8, 1e-4, 1e-2, 0.1, 0.4]
BLOCKS = "privacy-loss distribution of blocks of screenings"
SVHN = 6000 * P(S(200.0, 480.0, 800), 0.03) + 2939 * P(ac.GNMax(60.0), 0.03)


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks of two, whatever is lost by them, and no game."""
    for module, name, value in (
        (block_answers, "MANY", 2),
        (block_rates, "MANY", 2),
        (kind_blocks, "MANY", 2),
        (block_rates, "SOME_MOVES", 0),
        (block_rates, "PLAYED_SHARE", 0.0),
        (screening_blocks, "LEAST_BLOCK", 2),
        (screening_blocks, "LEAST_BLOCKS", 2),
    ):
        monkeypatch.setattr(module, name, value)


def exact_attacks(run, direction):
    """(Q(S), P(S)) of the best adversary, as masses of the edges of their hull."""
    chain = [tuple(Fraction(mass) / 2**300 for mass in edge) for edge in game_chain(run)]
    return [edge[::-1] for edge in chain] if direction == "add" else chain


def power(edges, rate):
    return float(likelihood_ratio_test([p for _, p in edges], [q for q, _ in edges], rate))


def exact_mu(run, floor):
    """T is concave and its edges straight: the largest mu is at a corner, or at the floor."""
    found = []
    for direction in ("remove", "add"):
        edges = exact_attacks(run, direction)
        edges.sort(key=lambda edge: edge[1] / edge[0] if edge[0] else math.inf, reverse=True)
        a, t = (np.array([float(each) for each in accumulate(masses)]) for masses in zip(*edges, strict=True))
        corners = (a > floor) & (1 - t > floor)
        found += sum_of_scores(np.append(a[corners], floor), np.append(t[corners], power(edges, floor))).tolist()
    return max(found)


def draw_run(dice, kind):
    """Up to six screenings of one kind or of two, and beside them a release of two outcomes, or none."""
    if kind == "two kinds":
        return dice.randint(2, 3) * draw_screening(dice) + 2 * draw_screening(dice)
    run = dice.randint(4, 6) * draw_screening(dice)
    return run + 2 * FewOutcomes((dice.randint(1, 9), dice.randint(1, 9)), (5, 4)) if kind == "beside" else run


@pytest.mark.each_run(1)
@pytest.mark.parametrize("kind", ["alone", "beside", "two kinds"])
@pytest.mark.parametrize("seed", range(2))
def test_blocks_hold_the_exact_game(short_blocks, kind, seed):
    run = draw_run(random.Random(f"attacks {kind} {seed}"), kind)
    risks = {way: ac.assess(run, RATES, direction=way, fpr_floor=1e-3, tolerance=0.1) for way in ("remove", "add")}
    mu = exact_mu(run, 1e-3)
    for direction, risk in risks.items():
        assert risk.mu.source == BLOCKS
        edges = exact_attacks(run, direction)
        rates = risk.true_positive_rates
        for a, low, high in zip(RATES, rates.lower, rates.upper, strict=True):
            assert low <= power(edges, a) * (1 + 1e-9)
            assert power(edges, a) <= high * (1 + 1e-9)
        variation = float(sum(max(p - q, 0) for q, p in edges))
        assert risk.advantage.lower <= variation * (1 + 1e-9)
        assert variation <= risk.advantage.upper * (1 + 1e-9)
        assert risk.bayes_risk.lower <= (1 - variation) / 2 + 1e-12
        assert (1 - variation) / 2 <= risk.bayes_risk.upper + 1e-12
        assert risk.mu.lower <= mu * (1 + 1e-9)
        assert mu <= risk.mu.upper * (1 + 1e-9)


def test_blocks_and_the_game_on_a_grid_say_the_same(monkeypatch):
    run = 600 * S(85.0, 210.0, 300)
    by_game = ac.assess(run, RATES, tolerance=2e-3, method="tight", patience=math.inf)
    assert by_game.mu.source == "dynamic programme"
    monkeypatch.setattr(block_rates, "PLAYED_SHARE", 0.0)
    by_blocks = ac.assess(run, RATES, tolerance=2e-3)
    assert by_blocks.mu.source == BLOCKS
    for name in ("true_positive_rates", "advantage", "bayes_risk", "mu"):
        one, other = getattr(by_game, name), getattr(by_blocks, name)
        assert np.all(one.lower <= other.upper)
        assert np.all(other.lower <= one.upper)
        assert np.all(other.upper - other.lower <= 0.12 * other.upper)


@pytest.mark.parametrize(
    ("run", "width"),
    audit_after(
        1,
        [
            (SVHN, 0.01),
            (8192 * S(85.0, 210.0, 300), 0.02),
            (
                4000 * P(S(85.0, 210.0, 300), 0.1) + 2000 * P(S(60.0, 100.0, 200), 0.1) + 999 * P(ac.GNMax(40.0), 0.1),
                0.01,
            ),
        ],
    ),
)
def test_many_screenings_are_near_from_both_sides_by_default(run, width):
    found, bound = ac.assess(run, RATES), ac.assess(run, RATES, method="renyi")
    assert (found.mu.method, found.mu.source) == ("tight", BLOCKS)
    rates = found.true_positive_rates
    assert np.all(rates.upper - rates.lower <= width * rates.upper)
    assert np.all(rates.upper < 0.99 * bound.true_positive_rates.upper)
    assert found.advantage.upper < 0.8 * bound.advantage.upper
    assert 0.97 * found.mu.upper <= found.mu.lower <= found.mu.upper < 0.9 * bound.mu.upper
    price = ac.delta(run, 0.0)  # it is the advantage
    assert found.advantage.lower <= price.delta
    assert price.lower <= found.advantage.upper


def test_no_more_patience_is_taken_than_there_is():
    run, seen = 8192 * S(85.0, 210.0, 300), []
    widths = []
    for seconds in (0.3, 2.0):
        with patience.watch_work(lambda done, until: seen.append(until)):
            found = ac.true_positive_rate(run, [1e-6], method="tight", patience=seconds)
        assert max(seen) <= seconds
        assert found.source == BLOCKS
        widths.append(float((found.upper - found.lower)[0] / found.upper[0]))
        seen.clear()
    assert widths[1] < 0.6 * widths[0]
    with pytest.raises(ac.OutOfPatience, match=r"patience = 0\.001; accepted: patience = "):
        ac.advantage(run, method="tight", patience=0.001)
    assert ac.advantage(run, patience=0.001).source == "Rényi bound, from above only"
