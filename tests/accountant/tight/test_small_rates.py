"""Few releases of tiny samples: nearly all losses are next to 0, and the price is far below the first grid's step."""

from itertools import product

import mpmath as mp
import pytest

import accountant as ac


def delta_of_two(rates, sigma, shift, epsilon, reach=14):
    """The larger hockey stick of two sampled releases of integers with discrete Gaussian noise, by its definition."""
    with mp.workdps(40):
        density = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) for x in range(-4 * reach, 4 * reach + 1)}
        whole = mp.fsum(density.values())
        pairs = [
            [((1 - g) * density[x] + g * density[x - shift], density[x]) for x in range(-reach, reach + 1)]
            for g in map(mp.mpf, rates)
        ]
        factor = mp.exp(epsilon)
        outcomes = [(p * r / whole**2, q * s / whole**2) for (p, q), (r, s) in product(*pairs)]
        return max(
            mp.fsum(max(p - factor * q, 0) for p, q in outcomes), mp.fsum(max(q - factor * p, 0) for p, q in outcomes)
        )


@pytest.mark.parametrize(
    ("rates", "delta"), [((1e-9, 1e-9), 1e-12), ((5.7e-6, 1e-12), 1.0457550431498036e-09), ((1e-7, 1e-6), 1e-7)]
)
def test_two_releases_are_priced_to_the_tolerance(rates, delta):
    """Upper ends were up to 12000 times too large: grids were no longer refined while the lower end was 0."""
    run = ac.Composition((ac.PoissonSubsampled(ac.DiscreteGaussian(1.5, 2), rate), 1) for rate in rates)
    found = ac.epsilon(run, delta)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon
    assert delta_of_two(rates, 1.5, 2, found.epsilon) <= delta * (1 + 1e-9)
    assert delta_of_two(rates, 1.5, 2, found.lower) >= delta * (1 - 1e-9)
