"""Curves, profiles and conversions against values computed from definitions in high precision (tests/reference)."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant.events.generic_subsampling import generic_subsampled_curve
from accountant.renyi.conversion import CONVERSIONS, epsilon_from_renyi, log_delta_from_renyi
from tests.reference.events import MAKE, load

PUBLIC, HARD = load("public"), load("hard")
KINDS = sorted({entry["event"] for entry in PUBLIC["renyi"] + HARD["renyi"]})


def relative_error(value: float, true: float) -> float:
    return abs(value - true) / abs(true) if true else abs(value)


@pytest.mark.parametrize("kind", KINDS)
def test_renyi_curve_to_1e_11(kind, record_property):
    entries = [entry for entry in PUBLIC["renyi"] + HARD["renyi"] if entry["event"] == kind]
    errors = [
        (relative_error(float(MAKE[kind](entry).renyi(float(entry["order"]))), float(entry["renyi"])), entry)
        for entry in entries
    ]
    worst = max(errors, key=lambda pair: pair[0])
    record_property("worst_relative_error", worst[0])
    print(f"{kind}: worst relative error {worst[0]:.2e} of {len(entries)}, at {worst[1]}")
    assert worst[0] < 1e-11, worst


@pytest.mark.parametrize("kind", sorted({entry["event"] for entry in HARD["profile"]}))
def test_profile_to_1e_11(kind):
    worst = (0.0, None)
    for entry in HARD["profile"]:
        if entry["event"] == kind:
            profile = MAKE[kind](entry).profile(float(entry["epsilon"]))
            for half in ("remove", "add"):
                error = relative_error(float(getattr(profile, half)), float(entry[half]))
                worst = max(worst, (error, (half, entry)), key=lambda pair: pair[0])
    print(f"{kind}: worst relative error {worst[0]:.2e}")
    assert worst[0] < 1e-11, worst


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_conversion_to_1e_11(conversion):
    for entry in HARD["conversion"]:
        b, curve = np.array([float(entry["order"]) - 1]), np.array([float(entry["renyi"])])
        value = epsilon_from_renyi(conversion, b, curve, math.log(float(entry["delta"])))[0]
        assert relative_error(value, float(entry[conversion])) < 1e-11, (value, entry)


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_delta_inverts_epsilon(conversion):
    for entry in HARD["conversion"]:
        b, curve = np.array([float(entry["order"]) - 1]), np.array([float(entry["renyi"])])
        log_delta = math.log(float(entry["delta"]))
        epsilon = epsilon_from_renyi(conversion, b, curve, log_delta)[0]
        if epsilon > 0 and b[0] > 0.01:  # at orders next to 1, delta hardly moves epsilon
            back = log_delta_from_renyi(conversion, b, curve, epsilon)[0]
            assert back == pytest.approx(log_delta, rel=1e-7), entry


def _composed(entry):
    makers = {
        "gaussian": lambda s, d: ac.Gaussian(s, d),
        "laplace": lambda b, d: ac.Laplace(b, d),
        "sgm": lambda s, g: ac.PoissonSubsampled(ac.Gaussian(s), g),
        "screening": lambda s, t, low, high: ac.NoisyScreening(s, t, int(high), int(low)),
        "sscreening": lambda s, t, low, high, g: ac.PoissonSubsampled(ac.NoisyScreening(s, t, int(high), int(low)), g),
    }
    return sum(count * makers[parts[0]](*map(float, parts[1:])) for count, parts in entry["composition"])


@pytest.mark.parametrize("entry", PUBLIC["epsilon"], ids=lambda entry: entry["name"])
@pytest.mark.parametrize("conversion", ["classic", "improved"])
def test_epsilon_to_all_digits_shown(entry, conversion):
    price = ac.epsilon(_composed(entry), float(entry["delta"]), conversion=conversion)
    assert price.epsilon == pytest.approx(float(entry[conversion]["epsilon"]), rel=6e-12)
    assert price.order == pytest.approx(float(entry[conversion]["order"]), rel=1e-5)
    assert not price.order_at_edge


@pytest.mark.parametrize("entry", PUBLIC["gaussian_dp"] + HARD["gaussian_dp"], ids=str)
def test_gaussian_profile_gives_the_exact_delta(entry):
    mu, delta, epsilon = (float(entry[key]) for key in ("mu", "delta", "epsilon"))
    # the printed epsilon has 15 digits; its rounding moves delta by |dH/de| de
    assert float(ac.GaussianDP(mu).profile(epsilon).remove) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("entry", PUBLIC["gaussian_dp"] + HARD["gaussian_dp"], ids=str)
def test_renyi_route_is_never_below_the_exact_gaussian(entry):
    mu, delta, exact = (float(entry[key]) for key in ("mu", "delta", "epsilon"))
    for conversion in CONVERSIONS:
        assert ac.epsilon(ac.GaussianDP(mu), delta, conversion=conversion).epsilon >= exact * (1 - 1e-12)


class TestScreenings:
    """The Rényi rows of a table for 8192 screenings, k = 300, T = 210, sigma = 85, rate 0.25.

    Its screening rows were minimised over integer orders only (public.json has the real-order minimum, which
    is smaller and just as valid); its first row is rounded up. Both are reproduced to all digits shown.
    """

    screening = ac.NoisyScreening(85, 210, 300)
    sampled = ac.PoissonSubsampled(screening, 0.25)

    @pytest.mark.parametrize(
        ("event", "conversion", "integer_orders", "shown", "real_orders"),
        [
            (ac.Gaussian(85), "classic", False, 5.677, 5.67648497007864),
            (ac.PoissonSubsampled(ac.Gaussian(85), 0.25), "classic", False, 1.3132, 1.31316530504),
            (sampled, "classic", True, 1.0422, 1.04200415645),
            (sampled, "improved", True, 0.8483, 0.848089311522),
            (screening, "classic", True, 4.445, 4.43797686711),
        ],
        ids=["gaussian", "subsampled gaussian", "subsampled screening", "the same, improved", "screening"],
    )
    def test_row(self, event, conversion, integer_orders, shown, real_orders):
        value = ac.epsilon(8192 * event, 1e-5, conversion=conversion).epsilon
        assert value == pytest.approx(real_orders, rel=6e-12)
        if integer_orders:
            b = np.arange(1.0, 300.0)
            curve = (8192 * event).renyi(1 + b)
            value = epsilon_from_renyi(conversion, b, curve, math.log(1e-5)).min()
        digits = len(str(shown).partition(".")[2])
        assert 0 <= shown - value < 10.0**-digits or round(value, digits) == shown

    def test_optimal_is_at_most_improved_at_most_classic(self):
        optimal, improved, classic = (
            ac.epsilon(8192 * self.sampled, 1e-5, conversion=conversion).epsilon
            for conversion in ("optimal", "improved", "classic")
        )
        assert optimal < improved < classic


def test_generic_bound_equals_the_integral_for_one_pair_at_integer_orders():
    """Two independent routes: Steinke's sum over binomials, and the integral over the profile."""
    orders = np.array([2.0, 3.0, 8.0, 33.0, 200.0])
    for event, rate in [
        (ac.Laplace(1), 0.1),
        (ac.Laplace(3, coordinates=4), 0.01),
        (ac.RandomizedResponse(2.0, 3), 0.3),
    ]:
        generic = generic_subsampled_curve(event, rate, orders)
        exact = ac.PoissonSubsampled(event, rate).renyi(orders)
        np.testing.assert_allclose(exact, generic, rtol=1e-12)


def test_generic_bound_dominates_the_exact_curve_at_every_real_order():
    orders = 1 + np.geomspace(1e-6, 300, 200)
    generic = generic_subsampled_curve(ac.Laplace(1), 0.1, orders)
    exact = ac.PoissonSubsampled(ac.Laplace(1), 0.1).renyi(orders)
    assert np.all(exact <= generic * (1 + 1e-12))
