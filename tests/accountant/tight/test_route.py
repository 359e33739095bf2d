"""The tight route, end to end: closed forms, certified intervals, and which route `auto` takes."""

import json
import math

import mpmath
import numpy as np
import pytest

import accountant as ac
from accountant.cli import main
from accountant.tight.closed_forms import closed_form, inverse_profile
from tests.cases import audit_after

SCREENING = ac.NoisyScreening(85, 210, 300)
SAMPLED = ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01)


def tight(run, delta, **options):
    found = ac.epsilon(run, delta, method="tight", **options)
    assert found.method == "tight"
    assert found.conversion is found.order is None
    assert found.source
    assert 0 <= found.lower <= found.epsilon
    return found


def gaussian_epsilon(mu, delta):
    """Balle & Wang 2018, Thm 8, solved in high precision."""
    with mpmath.workdps(40):
        mu = mpmath.mpf(mu)

        def log_excess(e):
            value = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
            return mpmath.log(value) - mpmath.log(mpmath.mpf(delta))

        low, high = mpmath.mpf(0), mu * mu / 2 + mu * 60
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if log_excess(middle) > 0 else (low, middle)
        return float(high)


# --- closed forms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "mu", "delta"),
    [
        (8192 * ac.Gaussian(85.0), math.sqrt(8192) / 85, 1e-5),
        (20_000 * ac.Gaussian(20.0), math.sqrt(20_000) / 20, 1e-14),
        (
            ac.Gaussian(3.0, 2.0) + 7 * ac.GaussianDP(0.25) + 2 * ac.GNMax(5.0),
            math.sqrt(4 / 9 + 7 / 16 + 4 / 25),
            1e-100,
        ),
        (1 * ac.PoissonSubsampled(ac.Gaussian(1.0), 1.0), 1.0, 0.1),
        (1 * ac.GaussianDP(1e-6), 1e-6, 1e-9),
        (10**9 * ac.Gaussian(1e3), math.sqrt(1e9) / 1e3, 1e-5),
    ],
)
def test_gaussian_runs_by_their_mu(run, mu, delta):
    found = tight(run, delta)
    truth = gaussian_epsilon(mu, delta)
    assert found.lower <= truth * (1 + 1e-12)
    assert truth <= found.epsilon * (1 + 1e-12)
    assert found.epsilon - found.lower <= 1e-9 * found.epsilon + 1e-14
    assert "Gaussian" in found.source
    back = ac.delta(run, found.epsilon, method="tight")
    assert back.delta == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "budget"), [(0.5, 0.010112), (1.0, 0.035926), (2.0, 0.125777)])
def test_individual_filters_are_gaussian_dp(epsilon, budget):
    """Section 8's table: a budget of B is mu-GDP with mu^2/2 = B."""
    found = ac.calibrate(
        lambda b: ac.GaussianDP(math.sqrt(2 * b)), epsilon, 1e-5, bounds=(1e-6, 10), start=0.01, method="tight"
    )
    assert found == pytest.approx(budget, abs=6e-7)


def binomial_delta(epsilon, bits, at):
    """Sum over the bits told truly, in high precision."""
    with mpmath.workdps(40):
        p = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
        return float(
            sum(
                mpmath.binomial(bits, k) * p**k * (1 - p) ** (bits - k) * -mpmath.expm1(at - (2 * k - bits) * epsilon)
                for k in range(bits + 1)
                if (2 * k - bits) * epsilon > at
            )
        )


@pytest.mark.parametrize("run", [100 * ac.PureDP(1.0), ac.RandomizedResponse(1.0, 60) + 40 * ac.PureDP(1.0)])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-40])
def test_randomized_response_by_the_binomial(run, delta):
    found = tight(run, delta)
    assert "binomial of 100 bits" in found.source
    assert binomial_delta(1.0, 100, found.lower) >= delta * (1 - 1e-9)
    assert binomial_delta(1.0, 100, found.epsilon) <= delta * (1 + 1e-9)
    assert found.epsilon - found.lower < 1e-8


@pytest.mark.parametrize(
    "event", [ac.Laplace(2.0), SAMPLED, SCREENING, ac.Collision(1.0, 2, 8), ac.Laplace(3.0, 1.0, 5)]
)
def test_one_release_by_its_profile(event):
    for delta in (1e-3, 1e-7):
        found = tight(1 * event, delta)
        worst = event.profile([found.lower, found.epsilon]).worst
        assert worst[1] <= delta * (1 + 1e-10)
        assert found.epsilon == 0 or worst[0] >= delta * (1 - 1e-10)
        at = float(ac.delta(1 * event, 0.01, method="tight").delta)
        assert at == pytest.approx(float(event.profile(0.01).worst), rel=1e-10, abs=1e-300)


def test_inverse_of_a_profile_at_its_edges():
    known = closed_form(1 * ac.Laplace(1.0))
    assert inverse_profile(known, math.log(0.9)) == (0.0, 0.0)  # delta(0) is about 0.39
    low, high = inverse_profile(known, math.log(1e-300))
    assert 0.99 < low <= high <= 1.0 + 1e-12
    flat = known._replace(log_profile=lambda points: np.full(points.shape, -1.0))
    assert inverse_profile(flat, -2.0).upper == math.inf


# --- certified intervals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "truth"),
    [
        (10_000 * SAMPLED, 6.18771),
        (1000 * ac.PoissonSubsampled(ac.Gaussian(0.6), 0.256), 248.43376),
        (1000 * ac.Laplace(1.0), 474.30245),
        (8192 * ac.PoissonSubsampled(ac.Gaussian(20.0), 0.25), 5.05964),
    ],
)
def test_known_values_to_a_thousandth(run, truth):
    found = tight(run, 1e-5, tolerance=1e-3)
    assert found.lower <= truth * (1 + 2e-6)
    assert truth * (1 - 2e-6) <= found.epsilon
    assert found.epsilon - found.lower <= 1e-3 * found.epsilon
    at = ac.delta(run, truth, method="tight", tolerance=1e-2)
    assert at.lower <= 1e-5 * 1.001
    assert at.delta >= 1e-5 * 0.999
    assert at.delta - at.lower <= 1e-2 * at.delta


def test_screenings_and_votes_in_one_run():
    votes = 40 * ac.PoissonSubsampled(ac.GNMax(20), 0.2)
    run = 200 * ac.PoissonSubsampled(SCREENING, 0.2) + votes
    found, alone = tight(run, 1e-5), tight(votes, 1e-5)
    assert alone.lower <= found.epsilon <= ac.epsilon(run, 1e-5, method="renyi").epsilon
    # one count repeated is an adversary of its own, and composes as a single pair
    worst = ac.PoissonSubsampled(OnePair(210), 0.2)
    single = tight(200 * worst + votes, 1e-5)
    assert single.lower <= found.epsilon
    assert found.lower <= single.epsilon * 1.02
    at = ac.delta(run, found.epsilon, method="tight")
    assert at.lower <= 1e-5 <= at.delta * 1.2


def OnePair(count):  # stands for an event
    """The screening as if only one count could occur."""
    return Pair(count)


class Pair(ac.NoisyScreening):
    """A screening whose counts are `count` and its successor alone; a single dominating pair."""

    family = False

    def __init__(self, count):
        super().__init__(85, 210, 300)
        object.__setattr__(self, "count", count)

    def _screening(self):
        return super()._screening()._replace(low=self.count, high=self.count + 1)

    def _log_profile(self, epsilons):
        up = _first(self._screening().pairs(1.0))
        return up.log_profile(epsilons), up.reversed().log_profile(epsilons)


def _first(pairs):
    """Of the pairs (t, t+1) and (t+1, t), the first."""
    return type(pairs)(*(field[:1] for field in pairs))


def test_screening_at_least_one_pair_at_most_renyi():
    run = 500 * ac.PoissonSubsampled(SCREENING, 0.25)
    found = tight(run, 1e-5)
    assert found.source == "dynamic programme"
    assert found.epsilon <= ac.epsilon(run, 1e-5, method="renyi").epsilon * 1.01
    at = ac.delta(run, found.epsilon, method="tight")
    assert at.lower <= 1e-5 * 1.01
    assert at.delta >= 1e-5 * 0.8


@pytest.mark.parametrize(
    "run",
    [
        50 * SAMPLED,
        9 * ac.Gaussian(4.0),
        20 * ac.PoissonSubsampled(SCREENING, 0.25) + 20 * SAMPLED,
        20 * ac.Laplace(3.0),
    ],
)
def test_whole_curves(run):
    epsilons = [0.0, 0.01, 0.1, 0.3, 7.0]
    found = ac.curve(run, epsilons, tolerance=0.02)
    assert found.method == "tight"
    assert found.epsilons.tolist() == epsilons
    assert (np.diff(found.upper) <= 1e-12).all()
    for i, epsilon in enumerate(epsilons):
        one = ac.delta(run, epsilon, method="tight", tolerance=0.02)
        assert found.lower[i] <= one.delta
        assert one.lower <= found.upper[i]
    renyi = ac.curve(run, epsilons, method="renyi")
    assert (found.lower <= renyi.upper).all()
    assert (renyi.lower == 0).all()
    plain = ac.curve(1 * ac.ZeroConcentratedDP(0.1), [0.5], method="auto")
    assert plain.method == "renyi"


# --- routes --------------------------------------------------------------------------------------------


def test_auto_says_which_route_it_took():
    assert ac.epsilon(9 * ac.Gaussian(2.0), 1e-5, method="auto").source.startswith("Gaussian")
    assert ac.epsilon(100 * SAMPLED, 1e-5, method="auto").source == "privacy-loss distribution"
    assert ac.epsilon(3 * ac.Laplace(1.0), 0.0, method="auto").epsilon == 3
    sampled = 2 * ac.PoissonSubsampled(ac.ZeroConcentratedDP(0.1), 0.5)
    for run, source in (
        (sampled, None),
        (2 * ac.ZeroConcentratedDP(0.1), "ZeroConcentratedDP is known between two bounds only"),
    ):
        plain = ac.epsilon(run, 1e-5, method="auto")
        assert (plain.method, plain.source) == ("renyi", source)
    # one release that dwarfs the rest: Rényi's upper end is near enough to what that one costs alone
    both = 1 * ac.PureDP(50.0) + 1 * ac.Laplace(1e4)
    found = ac.epsilon(both, 1e-5, method="auto", tolerance=0.1)
    assert found.method == "renyi"
    assert 0.9 * found.epsilon <= found.lower <= found.epsilon


def test_tight_refuses_what_it_cannot_price():
    with pytest.raises(ac.ProfileUnavailable, match="accepted: method = 'renyi' or 'auto'"):
        tight(2 * ac.ZeroConcentratedDP(0.1) + ac.Selection(ac.ZeroConcentratedDP(0.1), ac.Poisson(2.0)), 1e-5)
    with pytest.raises(ac.NoGuarantee, match="delta = 0"):
        tight(2 * SAMPLED, 0.0)
    with pytest.raises(ac.ParameterError, match="tolerance = 0 is out of range"):
        tight(2 * SAMPLED, 1e-5, tolerance=0.0)
    with pytest.raises(ac.ParameterError, match="method = 'exact'; accepted: renyi, tight, auto"):
        ac.epsilon(SAMPLED, 1e-5, method="exact")


def test_nothing_costs_nothing():
    assert tight(ac.Composition(), 1e-5).epsilon == 0
    assert tight(5 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.0), 1e-5).epsilon == 0
    assert ac.delta(ac.Composition(), 1.0, method="tight").delta == 0


def test_pure_limit():
    found = tight(3 * ac.PoissonSubsampled(ac.Laplace(1.0), 0.5), 0.0)
    assert found.epsilon == pytest.approx(3 * math.log(1 + 0.5 * math.expm1(1)))
    assert found.lower == pytest.approx(found.epsilon, rel=1e-8)
    assert ac.delta(3 * ac.Laplace(1.0), 3.0, method="tight").delta == 0


@pytest.mark.audit
def test_tight_is_never_above_renyi_by_more_than_the_tolerance():
    rng = np.random.default_rng(0)
    for _ in range(4):
        run = ac.Composition()
        for _ in range(int(rng.integers(1, 4))):
            sigma, rate, count = 10 ** rng.uniform(-0.2, 1.5), 10 ** rng.uniform(-3, 0), int(10 ** rng.uniform(0, 3))
            kind = rng.choice(["gaussian", "laplace", "pure"])
            event = {"gaussian": ac.Gaussian, "laplace": ac.Laplace, "pure": lambda s: ac.PureDP(1 / s)}[kind](sigma)
            run = run + count * ac.PoissonSubsampled(event, rate)
        delta = 10 ** rng.uniform(-12, -2)
        found, renyi = tight(run, delta, tolerance=0.02), ac.epsilon(run, delta)
        assert found.epsilon <= renyi.epsilon * 1.02 + 1e-12, run
        assert found.lower <= renyi.epsilon


def test_calibration_on_the_tight_route():
    sigma = ac.calibrate(
        lambda s: 1000 * ac.PoissonSubsampled(ac.Gaussian(s), 0.01), 1.0, 1e-5, method="tight", tolerance=1e-3
    )
    assert tight(1000 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01), 1e-5, tolerance=1e-3).epsilon <= 1.0
    assert sigma < ac.calibrate(lambda s: 1000 * ac.PoissonSubsampled(ac.Gaussian(s), 0.01), 1.0, 1e-5, method="renyi")
    smaller = 1000 * ac.PoissonSubsampled(ac.Gaussian(sigma * 0.995), 0.01)
    assert tight(smaller, 1e-5, tolerance=1e-3).epsilon > 1.0


@pytest.mark.audit
@pytest.mark.parametrize(
    ("run", "delta"),
    audit_after(
        1,
        [
            (10**6 * ac.PoissonSubsampled(ac.Gaussian(1.0), 1e-4), 1e-8),
            (10_000 * ac.PoissonSubsampled(ac.Gaussian(0.7), 1e-3), 1e-6),
        ],
    ),
)
def test_heavy_tails(run, delta):
    """Where rare samples cost much, Rényi overstates by half; what a saddle point suggests would be a huge window."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    ((event, count),) = run
    found = tight(run, delta, tolerance=0.01)
    theirs = pld.from_gaussian_mechanism(
        event.event.sigma, sampling_prob=event.rate, value_discretization_interval=3e-5
    ).self_compose(count)
    pessimistic = theirs.get_epsilon_for_delta(delta)
    assert found.lower <= pessimistic
    assert pessimistic <= found.epsilon * 1.05
    assert found.epsilon < 0.7 * ac.epsilon(run, delta, method="renyi").epsilon


# --- command line --------------------------------------------------------------------------------------

PLAN = 'delta = 1e-5\n\n[[release]]\nname = "steps"\nevent = "gaussian"\nsigma = 2\nsampling_rate = 0.1\ncount = 50\n'


def test_command_line(capsys, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    assert main(["epsilon", str(path), "--method", "tight", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "tight"
    assert found["order"] is None
    assert 0 < found["lower"] <= found["epsilon"] <= found["lower"] * 1.011
    assert found["releases"][0]["share"] == 1.0
    assert main(["epsilon", str(path), "--method", "auto", "--tolerance", "1e-4"]) == 0
    assert "privacy-loss distribution, certified from below at" in capsys.readouterr().out
    assert main(["delta", str(path), "--epsilon", "1", "--method", "tight"]) == 0
    assert "tight" in capsys.readouterr().out
    assert main(["curve", str(path), "--epsilons", "0:2:5", "--method", "tight", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epsilon"] == [0, 0.5, 1, 1.5, 2]
    assert all(low <= high for low, high in zip(found["lower"], found["delta"], strict=True))
    assert main(["curve", str(path), "--epsilons", "0:2:5"]) == 0
    assert "at least" in capsys.readouterr().out
    for wrong in ("0:2", "0:2:0", "a:b:c", "-1:2:3"):
        assert main(["curve", str(path), f"--epsilons={wrong}"]) == 2
        assert "accepted" in capsys.readouterr().err
    assert main(["calibrate", str(path), "--vary", "steps.sigma", "--epsilon", "0.5", "--method", "tight"]) == 0
    assert "steps.sigma = " in capsys.readouterr().out
    assert main(["epsilon", str(path), "--method", "tight", "--tolerance", "2"]) == 2
    assert "tolerance = 2 is out of range; accepted: [1e-06, 1]" in capsys.readouterr().err


def test_guarantee_in_words_rounds_both_ends_outwards():
    text = str(tight(10 * SAMPLED, 1e-5))
    assert "(tight, privacy-loss distribution, certified from below at" in text
    found = ac.Guarantee(1.00000049, 1e-5, None, "tight", None, None, lower=0.99999951, source="x")
    assert "(1.00001, 1e-05)-DP" in str(found)
    assert "below at 0.999999)" in str(found)
    assert found.as_dict()["lower"] == 0.99999951


# --- peers ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "parts",
    [
        [(1.0, 0.01, 2000)],
        [(20.0, 0.25, 8192)],
        [(1.0, 0.02, 300), (0.8, 0.005, 700)],
    ],
)
def test_prv_accountant_agrees(parts):
    """Its interval is (estimate - error, estimate + error); where it works, both hold the truth."""
    prv = pytest.importorskip("prv_accountant")
    mechanism = pytest.importorskip("prv_accountant.privacy_random_variables").PoissonSubsampledGaussianMechanism
    counts = [count for _, _, count in parts]
    accountant = prv.PRVAccountant(
        prvs=[mechanism(noise_multiplier=sigma, sampling_probability=rate) for sigma, rate, _ in parts],
        max_self_compositions=counts,
        eps_error=0.1,
        delta_error=1e-9,
    )
    low, _, high = accountant.compute_epsilon(delta=1e-5, num_self_compositions=counts)
    run = sum((n * ac.PoissonSubsampled(ac.Gaussian(sigma), rate) for sigma, rate, n in parts), ac.Composition())
    found = tight(run, 1e-5, tolerance=1e-3)
    assert low <= found.epsilon
    assert found.lower <= high


@pytest.mark.parametrize("spacing", [1e-3])
def test_dp_accounting_agrees_on_mixtures(spacing):
    """Its pessimistic estimate is above the truth where delta is not tiny, and close to it."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    options = {"value_discretization_interval": spacing}
    theirs = (
        pld.from_gaussian_mechanism(1.0, sampling_prob=0.02, **options)
        .self_compose(200)
        .compose(pld.from_laplace_mechanism(4.0, **options).self_compose(30))
        .compose(pld.from_gaussian_mechanism(9.0, **options).self_compose(50))
    )
    run = 200 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.02) + 30 * ac.Laplace(4.0) + 50 * ac.Gaussian(9.0)
    for delta in (1e-3, 1e-6):
        found = tight(run, delta, tolerance=1e-3)
        pessimistic = theirs.get_epsilon_for_delta(delta)
        assert found.lower <= pessimistic
        assert pessimistic <= found.epsilon * 1.01


# --- found by attack -------------------------------------------------------------------------------------


def test_a_closed_form_holds_where_its_profile_ends():
    """Next to the end a profile computed in floats is relatively as wrong as 1e-16 is large next to the gap."""
    g, t = 0.3, 1.0
    run = 1 * ac.PoissonSubsampled(ac.Laplace(1.0), g)
    for gap in (1e-6, 1e-9, 1e-12):
        epsilon = math.log1p(g * math.expm1(t)) * (1 - gap)
        with mpmath.workdps(60):
            inner = mpmath.log1p(mpmath.expm1(mpmath.mpf(epsilon)) / mpmath.mpf(g))
            truth = mpmath.mpf(g) * -mpmath.expm1((inner - t) / 2)
        found = ac.delta(run, epsilon, method="tight")
        assert found.lower <= truth <= found.delta


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (ac.PoissonSubsampled(ac.Laplace(12.7), 1e-8) + ac.PureDP(0.0515), 6e-232),
        # what is tiny does not dictate the grid
        (ac.PureDP(2.5629891261819533) + ac.PoissonSubsampled(ac.RandomizedResponse(0.4255, 2), 1.56e-7), 7.9e-12),
    ],
)
def test_near_the_pure_limit(run, delta):
    found = tight(run, delta, tolerance=0.01)
    assert 0 < found.lower <= found.epsilon <= float(run.renyi(math.inf)) * (1 + 1e-12)
    assert found.epsilon - found.lower <= 0.01 * found.epsilon


def test_zero_epsilon_is_seen_from_total_variation():
    assert tight(30 * ac.PoissonSubsampled(ac.PureDP(3.5e-6), 0.999999), 1e-3, tolerance=1e-3).epsilon == 0


# --- many coordinates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("many", "one", "count"),
    [
        (ac.Laplace(20.0, coordinates=2000), ac.Laplace(20.0), 2000),
        (ac.DiscreteLaplace(20.0, 3, 2000), ac.DiscreteLaplace(20.0, 3), 2000),
        (ac.DiscreteLaplace(20.0, coordinates=2000), ac.RandomizedResponse(1 / 20.0), 2000),
        (ac.DiscreteGaussian(1.0, coordinates=2000), ac.DiscreteGaussian(1.0), 2000),
        (ac.DiscreteGaussian(40.0, coordinates=2000), ac.DiscreteGaussian(40.0), 2000),
        (ac.PoissonSubsampled(ac.Laplace(20.0, coordinates=65), 1.0), ac.Laplace(20.0), 65),
    ],
    ids=repr,
)
def test_coordinates_are_composed_releases(many, one, count):
    for delta in (1e-3, 1e-20):
        found, composed = tight(1 * many, delta), tight(count * one, delta)
        assert (found.epsilon, found.lower, found.source) == (composed.epsilon, composed.lower, composed.source)
        assert found.epsilon <= ac.epsilon(many, delta, method="renyi").epsilon
    assert ac.delta(many, found.epsilon, method="tight").delta == pytest.approx(1e-20, rel=0.5)


def test_coordinates_add_up_over_a_run():
    """3 releases of 700 coordinates and 2 of one are 2102 releases."""
    run = 3 * ac.Laplace(20.0, coordinates=700) + 2 * ac.Laplace(20.0)
    assert tight(run, 1e-6).epsilon == tight(2102 * ac.Laplace(20.0), 1e-6).epsilon
    # at 100 coordinates a profile of all and a composition of singles are two computations of one number
    bits, few = 100 * ac.RandomizedResponse(0.1), tight(1 * ac.Laplace(20.0, coordinates=64), 1e-6)
    singles = tight(64 * ac.Laplace(20.0), 1e-6, tolerance=1e-4)
    assert singles.lower <= few.epsilon <= singles.epsilon * (1 + 1e-9)
    assert tight(bits, 1e-6).epsilon == tight(1 * ac.DiscreteLaplace(10.0, coordinates=100), 1e-6).epsilon


@pytest.mark.parametrize(
    "event",
    [ac.Laplace(1e3, coordinates=10**6 + 1), ac.RandomizedResponse(1e-3, 10**6 + 1)],
    ids=repr,
)
def test_very_many_coordinates_are_taken_in_blocks(event):
    """In the limit a Gaussian with as much variance of the loss: mu = sqrt(m) t."""
    found = tight(1 * event, 1e-6)
    assert found.lower * 0.999 <= gaussian_epsilon(math.sqrt(10**6 + 1) / 1e3, 1e-6) <= found.epsilon * 1.001


def test_what_cannot_be_taken_apart_is_refused():
    shared = ac.PoissonSubsampled(ac.DiscreteGaussian(1.0, coordinates=2000), 0.1)
    with pytest.raises(ac.ProfileUnavailable, match=r"coordinates = 2000 .* \(all coordinates share one .*renyi"):
        tight(1 * shared, 1e-6)
    assert ac.epsilon(shared, 1e-6, method="auto").method == "renyi"
    with pytest.raises(ac.ProfileUnavailable, match="coordinates = 1000000000 "):
        tight(10**30 * ac.Laplace(1e20, coordinates=10**9), 1e-6)
    with pytest.raises(ac.ProfileUnavailable, match="coordinates = 100000 "):
        tight(1 * ac.DiscreteGaussian(1.0, coordinates=10**5), 1e-6)


def test_discrete_gaussians_of_one_sigma_are_one_sum():
    run = 7 * ac.DiscreteGaussian(20.0, 2, 30) + 5 * ac.DiscreteGaussian(20.0, 2)
    found = tight(run, 1e-9)
    assert found.source == "215 discrete Gaussians"
    assert found.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(215) * 2 / 20, 1e-9), rel=1e-5)
    mixed = tight(run + ac.DiscreteGaussian(10.0, 1, 4), 1e-9, tolerance=1e-3)
    assert mixed.source == "privacy-loss distribution"
    truth = gaussian_epsilon(math.sqrt(215 * 4 / 400 + 4 / 100), 1e-9)
    assert mixed.lower * 0.9999 <= truth <= mixed.epsilon * 1.0001


@pytest.mark.parametrize("nothing", [ac.PureDP(0.0), ac.KaryRandomizedResponse(0.0, 3, "add-remove")], ids=repr)
def test_what_costs_nothing_beside_screenings(nothing):
    screenings = 2 * ac.PoissonSubsampled(ac.NoisyScreening(12.4, 1.1, 1), 0.37)
    assert ac.epsilon(screenings + nothing, 0.01, method="tight") == ac.epsilon(screenings, 0.01, method="tight")
    assert ac.delta(screenings + nothing, 0.01, method="tight") == ac.delta(screenings, 0.01, method="tight")


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("run", "end"), [(10 * ac.NoisyScreening(20.0, 30.0, 60), 1.0), (20 * ac.ExponentialMechanism(0.3), 3.0)]
)
def test_games_are_known_as_nearly_at_all_points_of_a_curve(run, end):
    epsilons = np.linspace(0.0, end, 9)
    found = ac.curve(run, epsilons, method="tight")
    assert (found.upper - found.lower <= 0.01 * np.maximum(found.upper, 1e-12)).all()
    alone = [ac.delta(run, epsilon, method="tight") for epsilon in epsilons.tolist()]
    for at, each in enumerate(alone):
        assert max(each.lower, found.lower[at]) <= min(each.delta, found.upper[at])


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("run", "tolerance", "patience"),
    [
        (100 * ac.NoisyScreening(85.0, 210.0, 300), 1e-4, 0.5),
        (5 * ac.NoisyScreening(20.0, 30.0, 60) + ac.Laplace(2.0), 1e-6, 0.1),
    ],
)
def test_a_curve_keeps_what_is_certified_where_it_is_wider_than_was_asked(run, tolerance, patience):
    epsilons, asked = np.array([0.1, 0.3, 0.5]), {"tolerance": tolerance, "patience": patience}
    with pytest.raises(ac.OutOfPatience):
        ac.curve(run, epsilons, method="tight", **asked)
    found, renyi = (ac.curve(run, epsilons, method=method, **asked) for method in ("auto", "renyi"))
    assert found.method == "tight"
    assert (found.upper <= renyi.upper).all()
    assert (found.upper < 0.9 * renyi.upper).sum() >= 2
    assert (found.lower > 0.99 * found.upper).sum() >= 2
    for at, epsilon in enumerate(epsilons.tolist()):
        alone = ac.delta(run, epsilon, method="tight")
        assert alone.lower <= found.upper[at]
        assert found.lower[at] <= alone.delta
