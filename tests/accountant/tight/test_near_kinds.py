"""Kinds of screening that are all but the same, as one kind between two: against exact games of all kinds."""

import math
import random
import re

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.errors import ToleranceUnreachable
from accountant.tight import block_answers
from accountant.tight.game_setup import family_of
from accountant.tight.near_kinds import NearScreenings, gather_near
from accountant.tight.screening_families import solve_game
from tests.soak.cases import draw_screening
from tests.soak.exact import play

S, P = ac.NoisyScreening, ac.PoissonSubsampled


def tight(run, delta, **options):
    return ac.epsilon(run, delta, method="tight", **options)


def near_run(apart, counts=(20, 2, 8, 1, 1, 20), votes=2):
    """Kinds of which each has that share more noise than the one before."""
    kinds = [S(10.7404 * (1 + apart * k), 2.3670078532745116, votes) for k in range(len(counts))]
    return ac.Composition(zip(kinds, counts, strict=True))


def draw_kinds(seed, apart):
    """Up to six screenings of three kinds, that near, or of any three kinds."""
    dice = random.Random(f"near kinds {seed}")
    first = draw_screening(dice)
    if apart is None:
        return ac.Composition(
            (each, dice.randint(1, 2)) for each in (first, draw_screening(dice), draw_screening(dice))
        )
    inner = first.unsampled
    kinds = [S(inner.sigma * (1 + apart * k), inner.threshold, inner.max_votes, inner.min_votes) for k in range(3)]
    rate = first.sampling_rate
    return ac.Composition((each if rate == 1.0 else P(each, rate), dice.randint(1, 2)) for each in kinds)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0), apart=st.sampled_from([1e-8, 0.01, None]))
def test_one_kind_between_two_bounds_every_interleaving(seed, share, apart):
    """However little alike the kinds are."""
    run = draw_kinds(seed, apart)
    epsilon = share * float(run.renyi(math.inf))
    one = ac.Composition([(NearScreenings(list(run.entries)), run.releases)])
    bounds = [solve_game(one, way, delta=1e-3, tolerance=1.0).delta(epsilon) for way in DIRECTIONS]
    with mp.workdps(60):
        assert max(each.lower for each in bounds) <= play(run, epsilon) <= max(each.upper for each in bounds)


@pytest.mark.parametrize("apart", [1e-8, 0.01, None])
@pytest.mark.parametrize("seed", range(5))
def test_every_kind_lies_between_both(seed, apart):
    run = draw_kinds(seed, apart)
    both = family_of(NearScreenings(list(run.entries)))
    for event in run.entries:
        own = family_of(event)
        for up, down in zip(*own.above, strict=True):
            assert ((both.above.up >= up) & (both.above.down >= down)).any()
        for up, down in zip(*both.played, strict=True):
            assert ((own.played.up >= up) & (own.played.down >= down)).any()


def test_what_is_gathered():
    near = list(near_run(1e-8))
    assert [(type(each), count) for each, count in gather_near(near, 5.0, 1e-3)] == [(NearScreenings, 52)]
    assert gather_near(near, 5.0, 0.0) == near
    far = list(near_run(0.1))
    assert gather_near(far, 5.0, 1e-3) == far
    both = gather_near([*near, *list(near_run(1e-8, (3, 4), votes=9))], 5.0, 1e-3)
    assert sorted(count for _, count in both) == [7, 52]


def test_the_price_is_that_of_one_kind():
    """Six and nine kinds that a game of all, and groups of them, knew within 2 to 4 % only."""
    for run, one, delta in (
        (near_run(1e-8), 52 * S(10.7404, 2.3670078532745116, 2), 0.19409546),
        (
            ac.Composition((S(1.5 * (1 + 1e-8 * k), -1.5, 1), n) for k, n in enumerate((2, 1, 1, 20, 1, 3, 20, 8, 1))),
            57 * S(1.5, -1.5, 1),
            0.11,
        ),
    ):
        found, same = tight(run, delta), tight(one, delta)
        assert found.source == "dynamic programme"
        assert found.epsilon == pytest.approx(same.epsilon, rel=1e-5)
        assert found.lower == pytest.approx(same.lower, rel=1e-5)
        assert ac.delta(run, found.epsilon, method="tight").lower <= delta
        assert ac.delta(run, found.lower, method="tight").delta >= delta


def test_beside_another_release_and_many_of_them():
    beside = ac.Gaussian(20.0)
    for counts in ((20, 2, 8, 1, 1, 20), (300, 200, 100)):
        found = tight(near_run(1e-7, counts) + beside, 1e-3)
        same = tight(sum(counts) * S(10.7404, 2.3670078532745116, 2) + beside, 1e-3)
        assert max(found.lower, same.lower) <= min(found.epsilon, same.epsilon)
        assert found.epsilon == pytest.approx(same.epsilon, rel=1e-3)


def test_kinds_that_are_not_near_enough_are_priced_as_before(monkeypatch):
    """Where they are taken as one and that is too wide, all else is tried."""
    run = near_run(0.02, (6, 6, 6))
    known = tight(run, 0.05)
    monkeypatch.setattr("accountant.tight.near_kinds.SHARE", 1e3)
    found = tight(run, 0.05)
    assert max(found.lower, known.lower) <= min(found.epsilon, known.epsilon)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon


@pytest.mark.audit
def test_few_kinds_share_a_game_on_a_clock_where_groups_are_too_wide(monkeypatch):
    run = ac.Composition((S(20 * (1 + 0.03 * k), 30.0, 60), 20) for k in range(6))
    found = tight(run, 1e-5, tolerance=4e-3)
    assert found.epsilon - found.lower <= 4e-3 * found.epsilon
    monkeypatch.setattr(block_answers.Blocks, "_ask_few_clocks", lambda *asked: None)
    wider = tight(run, 1e-5, tolerance=0.02)
    assert max(found.lower, wider.lower) <= min(found.epsilon, wider.epsilon)


@pytest.mark.audit
def test_a_refusal_names_a_tolerance_where_one_is_certified():
    counts = (2, 1, 1, 20, 1, 3, 20, 8, 1)
    run = ac.Composition((S(1.5095 * (1 + 0.02 * k), -1.4837, 1), count) for k, count in enumerate(counts))
    with pytest.raises(ToleranceUnreachable) as refusal:
        tight(run, 0.1101, tolerance=1e-3)
    named = re.search(r"accepted: tolerance = (\S+) or more", str(refusal.value))
    assert tight(run, 0.1101, tolerance=float(named[1])).epsilon >= refusal.value.found[0]


def test_a_kind_of_near_kinds_is_the_worst_of_them():
    kinds = [S(3.0, 1.0, 4), S(3.01, 1.2, 4)]
    both, orders = NearScreenings(kinds), np.array([1.0, 2.0, 30.0, math.inf])
    assert (both.renyi(orders) == np.max([each.renyi(orders) for each in kinds], axis=0)).all()
    points = np.array([0.0, 0.1, 0.3])
    for way in ("remove", "add"):
        own = np.max([getattr(each.profile(points), way) for each in kinds], axis=0)
        assert getattr(both.profile(points), way) == pytest.approx(own, rel=1e-12)
    assert both == NearScreenings(kinds) != NearScreenings(kinds[::-1])
    assert len({both, NearScreenings(kinds)}) == 1
    assert "2 near kinds" in repr(both)
