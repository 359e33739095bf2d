"""The costliest pair of counts: its cost is the event's, and no other pair's is larger."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import accountant as ac
from accountant.plots.worst_pairs import has_pairs, worst_pairs

ORDERS = [1.0, 1.001, 1.5, 2.0, 17.3, 400.0]


def divergence(event, votes: int, step: int, order: float) -> float:
    """D_a of the sampled screening with the individual against that without, worse direction; by definition."""
    inner, rate = event.unsampled, event.sampling_rate
    with mp.workdps(300):

        def bit(t: int) -> tuple[mpf, mpf]:
            x = (mpf(t) - inner.threshold) / mpf(inner.sigma)
            return mp.ncdf(x), mp.ncdf(-x)

        without = bit(votes)
        joined = tuple((1 - mpf(rate)) * y + mpf(rate) * x for x, y in zip(bit(votes + step), without, strict=True))
        a = mpf(order)

        def directed(p: tuple[mpf, ...], q: tuple[mpf, ...]) -> mpf:
            pairs = list(zip(p, q, strict=True))
            if a == 1:
                return sum(x * mp.log(x / y) for x, y in pairs)
            return mp.log(sum(x**a * y ** (1 - a) for x, y in pairs)) / (a - 1)

        return float(max(directed(joined, without), directed(without, joined)))


@pytest.mark.audit
@settings(max_examples=25, deadline=None)  # the first one compiles
@given(
    st.floats(1, 50), st.floats(-10, 30), st.integers(1, 12), st.sampled_from([1.0, 0.3, 1e-4]), st.sampled_from(ORDERS)
)
def test_no_pair_costs_more_than_the_one_that_is_told(sigma, threshold, most, rate, order):
    event = ac.PoissonSubsampled(ac.NoisyScreening(sigma, threshold, most), rate)
    (votes,), (step,), (cost,), _ = worst_pairs(event, [order])
    assert 0 <= votes <= most
    assert 0 <= votes + step <= most
    assert cost == pytest.approx(divergence(event, int(votes), int(step), order), rel=1e-9)
    every = [(t, s) for t in range(most + 1) for s in (1, -1) if 0 <= t + s <= most]
    assert cost >= max(divergence(event, t, s, order) for t, s in every) * (1 - 1e-9)


@pytest.mark.parametrize(
    "event",
    [
        ac.NoisyScreening(85, 210, 300),
        ac.PoissonSubsampled(ac.NoisyScreening(85, 210, 300), 0.25),
        ac.NoisyScreening(3, 10.5, 40, min_votes=8),
        ac.NoisyScreening(1e6, 0, 100_000),
        ac.NoisyScreening(0.5, 3, 10),
        ac.DataDependentScreening(85, 210, 120),
    ],
)
def test_the_cost_is_the_events_curve(event):
    found = worst_pairs(event, ORDERS)
    np.testing.assert_allclose(found.divergence, event.renyi(ORDERS), rtol=1e-8)


def test_of_mirror_images_the_lower_is_told():
    # a threshold in the middle of the counts: (t, t + 1) costs what (2T - t, 2T - t - 1) does
    found = worst_pairs(ac.NoisyScreening(10, 15, 30), np.linspace(1.01, 40, 50))
    assert (found.votes <= 15).all()
    assert (np.diff(found.votes) <= 0).all()


def test_sampled_at_rate_1_is_the_screening_itself():
    event = ac.NoisyScreening(10, 20, 30)
    one, other = worst_pairs(event, ORDERS), worst_pairs(ac.PoissonSubsampled(event, 1.0), ORDERS)
    assert one.votes.tolist() == other.votes.tolist()


@pytest.mark.parametrize(
    ("event", "orders", "words"),
    [
        (ac.Gaussian(3.0), [2.0], "Gaussian"),
        (ac.PoissonSubsampled(ac.NoisyScreening(3, 2, 5), 0.0), [2.0], "accepted: a noisy screening"),
        (ac.NoisyScreening(3, 2, 5), [0.5], "order = 0.5"),
        (ac.NoisyScreening(3, 2, 5), [np.inf], "order = inf"),
    ],
)
def test_bad_input_is_refused(event, orders, words):
    with pytest.raises(ac.ParameterError, match=words):
        worst_pairs(event, orders)
    assert has_pairs(event) == isinstance(event, ac.NoisyScreening)
