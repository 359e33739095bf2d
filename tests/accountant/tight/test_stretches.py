"""Stretches of pairs lie below mixtures of two anchors, and covers of them are above every pair."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import accountant as ac
from accountant.tight import cover_kernels
from accountant.tight.cover_kernels import TILE, make_covers, raise_window
from accountant.tight.game_setup import family_of
from accountant.tight.pairs import Family, Pairs
from accountant.tight.screening_game import gather, make_lattice
from accountant.tight.stretches import MOST, choices_of, cut_in_stretches, halve

S, P = ac.NoisyScreening, ac.PoissonSubsampled
FAMILIES = [S(8.0, 21.0, 40), S(1.0, 0.0, 2), S(85.0, 210.0, 300), P(S(2.0, 20.0, 40), 1e-3), S(0.02, 3.0, 9)]


def value(up, down, share, kinks, u):
    """E[W(u Q/P)] of a pair that happens with a probability `share`, for a mean W of hockey sticks; in 40 digits."""
    up, down, share = mpmath.mpf(float(up)), mpmath.mpf(float(down)), mpmath.mpf(float(share))
    p = mpmath.expm1(-down) / mpmath.expm1(-(up + down))

    def stick(v):
        return sum(weight * max(1 - v / kink, mpmath.mpf(0)) for weight, kink in kinks)

    moved = p * stick(u * mpmath.exp(-up)) + (1 - p) * stick(u * mpmath.exp(down))
    return share * moved + (1 - share) * stick(u)


def line_of(event):
    family = family_of(event)
    return gather(family, 1e-3), family


@pytest.mark.parametrize("event", FAMILIES, ids=str)
def test_every_pair_of_a_stretch_lies_below_its_anchors(event):
    """By the definition of a step, at values W that are means of few hockey sticks: these are the hardest."""
    family = family_of(event)
    pairs = Pairs(
        family.above.up[:: max(family.above.up.size // 60, 1)], family.above.down[:: max(family.above.up.size // 60, 1)]
    )
    share = np.linspace(0.5, 1.0, pairs.up.size)
    line, places, rng = cut_in_stretches(pairs, share, 1e-3), halve(pairs.up.size), np.random.default_rng(0)
    checked = 0
    with mpmath.workdps(40):
        for stretch in rng.permutation(np.flatnonzero(places[:, 1] >= 0))[:40]:
            first, last = places[stretch]
            one, other = line.ends[stretch]
            for i in {int(first), int(last), int(rng.integers(first, last + 1))}:
                spread = 2 * float(max(pairs.up[i], pairs.down[i]))
                for kinks in ([(1, 1)], [(0.5, math.exp(rng.normal() * min(spread, 50))), (0.5, 1)]):
                    for u in np.exp(
                        np.append(
                            rng.uniform(-1, 1, 3) * min(spread, 300),
                            [0.0, *np.clip([-pairs.down[i], pairs.up[i]], -300, 300)],
                        )
                    ):
                        u = mpmath.mpf(float(u))
                        own = value(pairs.up[i], pairs.down[i], share[i], kinks, u)
                        above = max(
                            value(line.anchors.up[k], line.anchors.down[k], line.share[k], kinks, u)
                            for k in (one, other)
                        )
                        assert own <= above * (1 + mpmath.mpf("1e-20")), (stretch, i, u)
                        checked += 1
    assert checked > 100


@given(
    st.lists(st.tuples(st.floats(-280, 2.8), st.floats(-280, 2.8), st.floats(0.0, 1.0)), min_size=1, max_size=20),
    st.floats(1e-6, 0.1),
)
def test_stretches_of_any_pairs_hold_all_of_them(logs, slack):
    """In whatever line they are, from 1e-280 to 600: where no mixture is above a stretch one corner is."""
    up, down, share = (np.array(each) for each in zip(*logs, strict=True))
    pairs = Pairs(10.0**up, 10.0**down)
    line, places = cut_in_stretches(pairs, share, slack), halve(up.size)
    assert line.anchors.up.max() <= pairs.up.max() * (1 + MOST)
    assert (line.own < line.share.size).all()
    for stretch in np.flatnonzero(places[:, 1] >= 0):
        first, last = places[stretch]
        one, other = line.ends[stretch]
        if one == other and first != last:
            assert (pairs.up[first : last + 1] <= line.anchors.up[one]).all()
            assert (pairs.down[first : last + 1] <= line.anchors.down[one]).all()
            peaks = (share * pairs.variation())[first : last + 1]
            assert (peaks <= line.share[one] * line.anchors.variation()[one] * (1 + 1e-15) + 1e-300).all()
        else:
            for end, anchor in ((first, one), (last, other)):
                assert pairs.up[end] <= line.anchors.up[anchor]
                assert pairs.down[end] <= line.anchors.down[anchor]
                assert share[end] == line.share[anchor]


def test_limits():
    """Equal pairs need no larger anchors; one pair is its own."""
    same = cut_in_stretches(Pairs(np.full(9, 0.3), np.full(9, 0.2)), np.ones(9), 1e-3)
    assert same.anchors.up.max() <= 0.3 * (1 + 1e-3)
    alone = cut_in_stretches(Pairs(np.array([0.3]), np.array([0.2])), np.ones(1), 1e-3)
    assert alone.ends[1].tolist() == [0, 0] == [alone.own[0], 0]
    near, far = (cut_in_stretches(*_fine_line(spread), 1e-3).anchors.up.max() for spread in (0.02, 2.0))
    assert near <= 0.1 * math.exp(0.01) * (1 + 5e-4)  # by the square of how far apart they are
    assert far >= 0.1 * math.exp(1.0)


def _fine_line(spread):
    skews = np.linspace(-spread, spread, 65)
    return Pairs(0.1 * np.exp(skews / 2), 0.1 * np.exp(-skews / 2)), np.ones(65)


def largest(family, old, base, step, known):
    """The best of all pairs at each grid point, with interpolation in u, by direction."""
    best = np.zeros((2, known + 1))
    for way, pairs in enumerate((family.above, Pairs(family.above.down, family.above.up))):
        x = np.arange(known + 1) * step
        for up, down in zip(*pairs, strict=True):
            p = math.expm1(-down) / math.expm1(-(up + down))
            moved = p * _between(old[way], base, step, x - up) + (1 - p) * _between(old[way], base, step, x + down)
            best[way] = np.maximum(best[way], moved + p * np.maximum(-np.expm1(x - up), 0.0))
    return best


def _between(values, base, step, x):
    x = np.clip(x, -base * step, (values.size - base - 2) * step)
    k = np.minimum(np.floor(x / step).astype(int), values.size - base - 2)
    low, high = np.exp(k * step), np.exp((k + 1) * step)
    share = (high - np.exp(x)) / (high - low)
    return share * values[base + k] + (1 - share) * values[base + k + 1]


@pytest.mark.parametrize("room", [None, 8])
@pytest.mark.parametrize("steps", [3.0, 500.0])
@pytest.mark.parametrize("event", FAMILIES[:4], ids=str)
def test_covers_are_above_every_pair(event, steps, room, monkeypatch):
    """Also covers that were made for other values, and where there is no room for more anchors."""
    if room is not None:
        monkeypatch.setattr(cover_kernels, "room_for", lambda covers, pairs: room)
    family, slack = family_of(event), 1e-3
    line = gather(Family(family.above, family.played), slack).stretches
    step = math.ldexp(round(float(family.above.deviation()) / 8 * 2**40), -40)
    known = 3 * TILE
    limit = line.limit(step, known)
    lattice, choices = make_lattice(limit, known, step), choices_of([line], step, limit, known)
    covers, policy = make_covers(choices, known + 1), np.zeros((2, known + 1), np.int64)
    for tick, width in ((0, 20), (1, 60), (2, 200)):
        x = (np.arange(lattice.size(known)) - lattice.base) * step
        mu = width * step
        right = stats.norm.cdf(mu / 2 - np.abs(x) / mu) - np.exp(np.abs(x)) * stats.norm.cdf(-mu / 2 - np.abs(x) / mu)
        values = np.maximum(right, 0.0) * np.exp(np.minimum(x, 0.0))  # V of Gaussian noise, whose W is convex
        old, new = np.stack([values, values]), np.zeros((2, lattice.size(known)))
        raise_window(old, new, choices, 0, covers, policy, lattice, known, (tick, steps, 8.0), slack)
        inside = new[:, lattice.base : lattice.base + known + 1]
        exact = largest(family, old, lattice.base, step, known)
        assert (inside >= exact * (1 - 1e-9)).all()
        if tick == 0 and room is None and steps < 10:
            gained = inside - old[:, lattice.base : lattice.base + known + 1]
            most = exact - old[:, lattice.base : lattice.base + known + 1]
            assert (gained <= most * 1.02 + 1e-9).all()
