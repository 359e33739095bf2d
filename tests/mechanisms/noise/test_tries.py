"""The number of tries is drawn from the distribution that prices it."""

import itertools

import numpy as np
import pytest
from mpmath import mp

import accountant as ac
from mechanisms.noise.source import as_randomness
from mechanisms.noise.tries import _table, draw_tries

TRIES = [ac.Poisson(0.3), ac.Poisson(40.0), ac.Geometric(7.0), *(ac.NegativeBinomial(5.0, h) for h in (0.0, 0.4, 3.0))]


def probabilities(tries):
    """What the table draws, as numbers of mpmath."""
    table = _table(tries)
    cumulative = [(int(high) << 64) + int(low) for high, low in zip(table.high, table.low, strict=True)]
    ends = [0, *cumulative, 2**128]
    return table.first, [mp.mpf(b - a) / 2**128 for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("tries", TRIES, ids=repr)
def test_generating_function(tries):
    """f'(1 - x), by which the price is computed, and f(0), against the sum over what is drawn."""
    with mp.workdps(40):
        first, drawn = probabilities(tries)
        for x in (0.0, 0.1, 0.7, 1.0):
            slope = mp.fsum(k * p * mp.mpf(1 - x) ** (k - 1) for k, p in enumerate(drawn, first) if k > 0)
            assert float(mp.log(slope)) == pytest.approx(float(tries.log_slope(np.array([x]))[0]), abs=1e-12)
        none = drawn[0] if first == 0 else mp.mpf(0)
        assert float(none) == pytest.approx(np.exp(tries.log_none), rel=1e-12)
        assert abs(mp.fsum(drawn) - 1) < mp.mpf(2) ** -120


def test_limits_of_the_negative_binomial():
    assert draw_tries(ac.NegativeBinomial(1.0, 2.0), as_randomness(0)) == 1
    with mp.workdps(40):
        first, drawn = probabilities(ac.Geometric(4.0))
        assert first == 1
        for k in (1, 2, 5, 30):
            assert float(drawn[k - 1]) == pytest.approx(float(mp.mpf("0.25") * mp.mpf("0.75") ** (k - 1)), rel=1e-12)


@pytest.mark.parametrize(
    "shape", [5e-324, *(10.0**-e for e in (300, 200, 62, 59, 57, 55, 40, 25, 19, 6)), 0.4, 37.0, 1e3]
)
@pytest.mark.parametrize("mean", [1.0 + 2**-52, 10.0])
def test_every_shape_is_drawn_as_it_is_priced(mean, shape):
    """Total variation against as many digits as the shape needs, with g from the price."""
    tries = ac.NegativeBinomial(mean, shape)
    with mp.workdps(700):
        first, drawn = probabilities(tries)
        log_g, s = mp.mpf(tries.log_g), mp.mpf(shape)
        front = 1 / mp.expm1(-s * log_g) * s * -mp.expm1(log_g)
    with mp.workdps(60):
        missed, off, exact = -mp.expm1(log_g), mp.mpf(0), +front
        for k, p in enumerate(drawn, first):
            off += abs(p - exact)
            exact *= missed * (k + s) / (k + 1)
        assert off / 2 < mp.mpf(2) ** -100
        # the limit where the shape is next to nothing
        if shape < 1e-25:
            assert abs(drawn[0] / (missed / -log_g) - 1) < mp.mpf(10) ** -20


@pytest.mark.parametrize("seed", [None, 3])
def test_draws(seed):
    source, tries = as_randomness(seed), ac.Geometric(3.0)
    drawn = np.array([draw_tries(tries, source) for _ in range(3000)])
    assert drawn.min() == 1
    # within 7 standard deviations: chance below 1e-10
    assert abs(drawn.mean() - 3.0) < 7 * np.sqrt(6 / 3000)  # variance mean (mean - 1)
    assert abs((drawn == 1).mean() - 1 / 3) < 7 * np.sqrt(2 / 9 / 3000)


@pytest.mark.parametrize("tries", [10, ac.Geometric(1001.0), None])
def test_refusals(tries):
    with pytest.raises(ac.ParameterError, match=r"tries = .*; accepted: ac\.Poisson"):
        draw_tries(tries, as_randomness(0))
