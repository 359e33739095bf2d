"""Attack risks of several kinds of screening, by games on clocks and attacks of one order: against exact games."""

import math
import random

import numpy as np
import pytest

import accountant as ac
from accountant.attack import NoTradeOff
from accountant.tight import block_rates, clock_blocks, clock_ladders, kind_rates
from accountant.tight.kind_rates import AddedTradeOff, AttackPair, attacks_of
from accountant.tight.screening_families import solve_in_order
from tests.accountant.risk.test_many_screenings import BLOCKS, RATES, exact_attacks, power
from tests.accountant.tight.test_clocks import draw_run, near_run
from tests.cases import audit_after
from tests.soak.exact import FewOutcomes


@pytest.fixture
def on_clocks(monkeypatch):
    """Games on clocks of few screenings, however little alike kinds are; says what they lose."""
    found, play = [], kind_rates.set_clock_run

    def played(*args):
        clocks = play(*args)
        found.append(None if clocks is None else clocks.lost)
        return clocks

    for module, name, value in (
        (block_rates, "SOME_MOVES", 0),
        (clock_blocks, "SPREADS", [clock_ladders.Spread(8.2, 1e3)]),
        (clock_ladders, "LOOSE", 1e3),
        (kind_rates, "set_clock_run", played),
    ):
        monkeypatch.setattr(module, name, value)
    return found


def check(run, tolerance=0.1):
    """Every figure against the best adversary, who picks the next release and its pair after every outcome."""
    for direction in ("remove", "add"):
        risk = ac.assess(run, RATES, direction=direction, tolerance=tolerance)
        assert risk.mu.source == BLOCKS
        edges, rates = exact_attacks(run, direction), risk.true_positive_rates
        for a, low, high in zip(RATES, rates.lower, rates.upper, strict=True):
            assert a * (1 - 1e-12) <= low <= power(edges, a) * (1 + 1e-9)
            assert power(edges, a) <= high * (1 + 1e-9)
        variation = float(sum(max(p - q, 0) for q, p in edges))
        assert risk.advantage.lower <= variation * (1 + 1e-9)
        assert variation <= risk.advantage.upper * (1 + 1e-9)
        assert risk.advantage.lower > 0.0


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("run", "far", "beside"),
    audit_after(
        2,
        [
            (near_run(2), 15.0, False),
            (draw_run(4), -15.0, True),
            (draw_run(8), -15.0, False),
            (draw_run(6), 15.0, True),
        ],
    ),
)
def test_games_on_clocks_hold_the_exact_game(on_clocks, monkeypatch, run, far, beside):
    """With pairs that are left out, and what they may add, if `far` is small."""
    monkeypatch.setattr(clock_blocks, "FAR", far)
    check(run + 2 * FewOutcomes((3, 5), (5, 4)) if beside else run)
    assert on_clocks
    assert all(lost is not None and (lost > 1e-3) == (far < 0) for lost in on_clocks)


def test_blocks_of_kinds_that_are_not_alike_hold_the_exact_game(monkeypatch):
    monkeypatch.setattr(block_rates, "SOME_MOVES", 0)
    monkeypatch.setattr(block_rates, "sides_by_clocks", lambda *_: None)
    check(draw_run(3))


@pytest.mark.each_run(2)
@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_tests_of_a_game_are_attacks(way, seed):
    """None is better than the best there is; the pair of all of them has the profile of the game's lower end."""
    run = draw_run(seed)
    game = solve_in_order(run, 5.0, 1e-6, 1e-3)[way]
    fprs, tprs = attacks_of(game)
    edges = exact_attacks(run, ("remove", "add")[way])
    both = list(zip(fprs.tolist(), tprs.tolist(), strict=True))
    for fpr, tpr in random.Random(seed).sample(both, min(40, fprs.size)):
        assert tpr <= power(edges, fpr) * (1 + 1e-9)
    assert np.all(np.diff(fprs) > 0)
    assert np.all(np.diff(tprs) > 0)
    x = np.linspace(0.0, 0.9 * float(run.renyi(math.inf)), 7)
    found = np.exp(AttackPair(next(iter(run.entries)), game)._log_profile(x)[way])
    u = np.exp(x)
    for each, value in zip(u.tolist(), found.tolist(), strict=True):
        assert value <= float(sum(max(p - each * q, 0) for q, p in edges)) * (1 + 1e-9)
        assert value == pytest.approx(max(float(np.max(tprs - each * fprs)), 0.0), rel=1e-11, abs=1e-14)


def test_what_is_lost_is_added():
    side = AddedTradeOff(NoTradeOff(), 1e-3)
    assert side.rates(np.array([0.1, 0.9995]))[1] == pytest.approx([0.101, 1.0], rel=1e-11)
    assert side.profile(0.0).upper == pytest.approx(1e-3, rel=1e-11)
    assert side.at_zero().upper == pytest.approx(1e-3, rel=1e-11)
    assert side.segments(0.1, 0.2)[1] == pytest.approx([0.101, 0.201], rel=1e-11)
    assert AddedTradeOff(NoTradeOff(), 0.5).segments(0.1, 0.9)[1].max() == 1.0


def test_kinds_are_near_from_both_sides():
    """They were between 9 and 17 % wide, as blocks of each kind."""
    S, P = ac.NoisyScreening, ac.PoissonSubsampled
    run = 20 * S(5.0, 10.0, 30) + 20 * P(S(20.0, 80.0, 100), 0.2) + 20 * S(60.0, 30.0, 200)
    risk = ac.assess(run, [1e-6, 1e-3, 0.1], method="tight")
    rates = risk.true_positive_rates
    assert np.all(rates.upper - rates.lower <= 0.01 * rates.upper)
    for found in (risk.advantage, risk.mu):
        assert found.upper - found.lower <= 0.01 * found.upper
