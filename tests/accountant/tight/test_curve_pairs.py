"""Releases known by a Rényi curve beside others: never below a truth; above the Rényi price by its rounding at most."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.tight.curve_pairs import CurvePair, KnownByCurve
from tests.cases import audit_after

G, P, Z = ac.Gaussian, ac.PoissonSubsampled, ac.ZeroConcentratedDP
S = ac.NoisyScreening
RESTS = {
    "noise": 9 * G(5.0),
    "samples": 100 * P(G(2.0), 0.1),
    "pure": 3 * ac.Laplace(2.0),
    "screenings": 20 * S(2.0, 3.0, 5),
    "kinds": 10 * S(2.0, 3.0, 5) + 10 * S(3.0, 2.0, 5) + G(4.0),
}


def tight(run, delta, **options):
    return ac.epsilon(run, delta, method="tight", **options)


@pytest.mark.each_run(2)
@pytest.mark.parametrize("rest", RESTS.values(), ids=RESTS)
@pytest.mark.parametrize("rho", audit_after(2, [1e-4, 0.5, 0.01]))
def test_gaussian_noise_said_as_zcdp(rest, rho):
    """rho-zCDP may be Gaussian noise, whose price with the rest is known."""
    true = tight(rest + G(1 / math.sqrt(2 * rho)), 1e-5, tolerance=0.003)
    run = rest + Z(rho)
    found, renyi = tight(run, 1e-5), ac.epsilon(run, 1e-5, method="renyi")
    assert true.lower <= found.epsilon <= renyi.epsilon
    assert found.lower <= true.epsilon
    assert found.lower >= 0.98 * true.lower
    # what is lost is a part of what the conversion loses of the whole
    assert found.epsilon <= true.epsilon * 1.012 + 0.9 * (renyi.epsilon - true.epsilon)
    assert "; ZeroConcentratedDP by Rényi curve" in found.source
    at = ac.delta(run, true.lower, method="tight")
    renyi = ac.delta(run, true.lower, method="renyi")
    assert 0.98e-5 <= at.delta <= renyi.delta


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    rho=st.floats(-6.0, 2.0).map(lambda e: 10.0**e),
    xi=st.sampled_from([0.0, 1e-3, 0.2]),
    log_lost=st.floats(-200.0, -20.0),
    e=st.floats(0.0, 1.0),
)
def test_the_pair_is_above_every_profile_with_that_curve(rho, xi, log_lost, e):
    """Gaussian noise and randomized response have smaller curves, and must have smaller profiles."""
    pair = CurvePair(KnownByCurve(((Z(rho, xi), 2),)), log_lost)
    epsilons = np.array([0.0, e, 0.1 * e, 10 * e]) * (rho + math.sqrt(rho) + xi)
    above = pair._log_profile(epsilons)[0]
    orders = 1 + np.geomspace(1e-4, 1e4, 200)
    curve = 2 * (xi + rho * orders)
    for one in (
        G(1 / math.sqrt(4 * rho)),
        ac.PureDP(math.sqrt(4 * rho)),
        ac.Laplace(max(1 / math.sqrt(4 * rho), 1e-3)),
    ):
        if (one.renyi(orders) <= curve).all():
            for below in one._log_profile(epsilons):
                assert (below <= np.logaddexp(above, log_lost) + 1e-9).all()


@pytest.mark.audit
def test_laplace_noise_of_votes_as_they_were_seen():
    """The part that depends on the votes has pairs of its own; noise of known size stands beside it."""
    seen = ac.DataDependentLNMax(20.0, (200, 40, 10))
    run = 5 * seen + 200 * P(G(2.0), 0.02)
    found, renyi = tight(run, 1e-5), ac.epsilon(run, 1e-5, method="renyi")
    assert found.epsilon < 0.97 * renyi.epsilon
    assert found.data_dependent
    assert found.source == "privacy-loss distribution before a dynamic programme"
    assert ac.epsilon(run, 1e-5, method="auto") == found


def test_several_curves_are_added_first():
    run = 3 * Z(0.01) + Z(0.02) + 9 * G(5.0)
    together, one = tight(run, 1e-5), tight(Z(0.05) + 9 * G(5.0), 1e-5)
    assert together.epsilon == pytest.approx(one.epsilon, rel=1e-6)
    selected = ac.Selection(Z(0.01), ac.Poisson(3.0))
    found = tight(selected + 9 * G(5.0), 1e-5)
    assert tight(9 * G(5.0), 1e-5).lower <= found.epsilon <= ac.epsilon(selected + 9 * G(5.0), 1e-5).epsilon


def test_limits():
    rest = 9 * G(5.0)
    assert tight(rest + Z(0.0), 1e-5).epsilon == pytest.approx(tight(rest, 1e-5).epsilon, rel=0.01)
    assert tight(rest + Z(1e-300), 1e-5).epsilon == pytest.approx(tight(rest, 1e-5).epsilon, rel=0.01)
    assert tight(rest + Z(1e-12), 1e-5).epsilon == pytest.approx(tight(rest, 1e-5).epsilon, rel=0.01)
    huge = rest + Z(1e5)
    with pytest.raises(ac.ToleranceUnreachable, match="by itself; accepted: method = 'renyi'"):
        tight(huge, 1e-5)
    assert ac.epsilon(huge, 1e-5, method="auto").method == "renyi"
    large = rest + Z(100.0)
    assert tight(large, 1e-5).epsilon <= ac.epsilon(large, 1e-5, method="renyi").epsilon
    with pytest.raises(ac.ProfileUnavailable, match=r"Rényi bound only; .*accepted: method = 'renyi' or 'auto'"):
        tight(3 * Z(0.1) + P(G(1.0), 0.0), 1e-5)
    with pytest.raises(ac.NoGuarantee, match="delta = 0"):
        tight(rest + Z(0.1), 0.0)
    curve = ac.curve(rest + Z(0.01), [0.5, 1.0, 3.0])
    assert curve.method == "tight"
    assert (np.diff(curve.upper) < 0).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_beside_a_probable_infinite_loss(direction):
    run = ac.ApproximateDP(0.1, 1e-6) + 9 * G(5.0) + Z(0.005)
    true = tight(ac.ApproximateDP(0.1, 1e-6) + 9 * G(5.0) + G(10.0), 1e-5, tolerance=0.003)
    assert true.lower <= tight(run, 1e-5).epsilon <= 1.1 * true.epsilon


@pytest.mark.parametrize(
    "releases",
    [((Z(0.3), 1),), ((Z(0.01, 0.5), 3), (Z(1e-9), 7)), ((Z(0.2), 2), (ac.Selection(G(5.0), ac.Geometric(10.0)), 1))],
)
def test_the_noise_from_below_has_no_larger_curve(releases):
    known = KnownByCurve(releases)
    noise, orders = known._certain(), 1 + np.geomspace(1e-6, 1e6, 50)
    said = [(event, count) for event, count in releases if isinstance(event, Z)]
    assert (noise.renyi(orders) <= ac.Composition(said).renyi(orders)).all()
    assert noise.mu**2 == pytest.approx(sum(2 * event.rho * count for event, count in said), rel=1e-12)


def test_nothing_is_known_from_below_of_a_selection():
    chosen = KnownByCurve(((ac.Selection(G(5.0), ac.Geometric(10.0)), 1),))._certain()
    assert chosen.renyi(np.array([2.0, 50.0])).tolist() == [0.0, 0.0]
