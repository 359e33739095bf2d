"""(epsilon, delta)-DP against sums over all outcomes of compositions, sampled or not."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
from accountant.cli import main
from accountant.guarantee import format_down, format_up
from tests.cases import audit_after
from tests.soak.exact import BITS, chain_of, screening_pairs, value_by_recursion

EVENT = ac.ApproximateDP(0.5, 1e-3)


def pair(event, rate=1.0):
    """P and Q from the definition: delta tells, the rest is randomized response; Poisson sampling mixes."""
    odds, told, rate = mp.exp(mpf(event.epsilon)), mpf(event.delta), mpf(rate)
    p = [told, (1 - told) * odds / (1 + odds), (1 - told) / (1 + odds), mpf(0)]
    q = p[::-1]
    return [rate * a + (1 - rate) * b for a, b in zip(p, q, strict=True)], q


def powers(law, count):
    return [mp.fprod(each) for each in product(law, repeat=count)]


def hockey_stick(p, q, epsilon):
    return mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, mpf(0)) for a, b in zip(p, q, strict=True))


@pytest.mark.each_run(7)
@pytest.mark.parametrize("rate", [1.0, 0.1, 0.7])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_compositions_are_sums_over_all_outcomes(count, rate):
    event = EVENT if rate == 1.0 else ac.PoissonSubsampled(EVENT, rate)
    p, q = (powers(law, count) for law in pair(EVENT, rate))
    # 1e-5 is below what the infinite losses shift the others by
    for epsilon in (0.0, 1e-5, 0.1, 0.4, 3.0):
        exact = float(max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)))
        found = ac.delta(count * event, epsilon, method="tight", tolerance=1e-4)
        assert found.lower * (1 - 1e-9) <= exact <= found.delta * (1 + 1e-9)
        assert found.delta - found.lower <= 1e-4 * found.delta
        if 0.05 < epsilon < 1.0 and exact > (1 - (1 - rate * EVENT.delta) ** count) * 1.001:
            back = ac.epsilon(count * event, exact, method="tight", tolerance=1e-4)
            assert back.lower - 1e-6 <= epsilon <= back.epsilon + 1e-6


@pytest.mark.parametrize(("event", "rate"), [(ac.ApproximateDP(0.5, 1e-6), 0.5187), (ac.ApproximateDP(1.0, 0.1), 0.5)])
def test_an_epsilon_of_0_of_samples_is_0(event, rate):
    """Losses that are not infinite lie lower by -n log(1 - g d) in one direction: epsilon is not that there."""
    p, q = (powers(law, 3) for law in pair(event, rate))
    distance, run = float(hockey_stick(p, q, 0.0)), 3 * ac.PoissonSubsampled(event, rate)
    assert ac.epsilon(run, distance * 1.01).epsilon == 0.0
    delta = distance * (1 - rate * event.delta / 8)
    found = ac.epsilon(run, delta)
    assert 0.0 < found.lower <= found.epsilon <= 1.05 * found.lower
    for epsilon, below in ((found.epsilon, True), (found.lower, False)):
        exact = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        assert (exact <= delta) is below


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_true_positive_rates_of_a_composition(rate):
    event = EVENT if rate == 1.0 else ac.PoissonSubsampled(EVENT, rate)
    p, q = (powers(law, 3) for law in pair(EVENT, rate))
    for direction, first, second in (("remove", p, q), ("add", q, p)):
        ranked = sorted(zip(first, second, strict=True), key=lambda each: each[1] / each[0] if each[0] else mp.inf)
        fprs = [1e-6, 1e-3, 0.05, 0.6, 0.9995]
        found = ac.true_positive_rate(3 * event, [0.0, *fprs], direction=direction, tolerance=1e-4)
        assert found.upper[0] == pytest.approx(float(sum(a for a, b in ranked if b == 0)), abs=1e-13)
        for fpr, lower, upper in zip(fprs, found.lower[1:], found.upper[1:], strict=True):
            left, reached = mpf(fpr), mpf(0)
            for a, b in ranked:
                share = min(left / b, 1) if b else mpf(1)
                reached, left = reached + share * a, left - share * b
            assert lower * (1 - 1e-9) <= float(reached) <= upper * (1 + 1e-9)


def test_many_releases_are_a_binomial():
    count, event = 500, ac.ApproximateDP(0.1, 1e-8)
    with mp.workdps(40):
        keep, odds = (1 - mpf(1e-8)) ** count, mp.exp(mpf(0.1))
        exact = 1 - keep
        for k in range(count + 1):
            mass = mp.binomial(count, k) * odds**k / (1 + odds) ** count
            exact += keep * mass * max(1 - mp.exp(3 - (2 * k - count) * mpf(0.1)), mpf(0))
    found = ac.delta(count * event, 3.0, method="tight")
    assert found.source == "binomial of 500 bits"
    assert found.delta == pytest.approx(float(exact), rel=1e-10)
    assert found.lower == pytest.approx(float(exact), rel=1e-10)


def test_it_composes_with_other_releases_and_falls_with_the_rate():
    others = 20 * ac.PoissonSubsampled(ac.Gaussian(2.0), 0.05)
    prices = [
        ac.epsilon(others + 5 * ac.PoissonSubsampled(ac.ApproximateDP(0.5, 1e-7), rate), 1e-5, method="tight").epsilon
        for rate in (0.01, 0.1, 0.99, 1.0)
    ]
    assert prices == sorted(prices)
    assert ac.epsilon(others, 1e-5, method="tight").lower < prices[0]
    assert prices[2] == pytest.approx(prices[3], rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_the_mass_of_infinite_losses_is_the_next_float(seed):
    """1 - prod (1 - d)^n in rationals; at the sum of all epsilons nothing else is left."""
    rng = np.random.default_rng(seed)
    entries = [
        (ac.ApproximateDP(float(rng.uniform(0, 2)), float(10.0 ** -rng.uniform(0.5, 12))), int(rng.integers(1, 6)))
        for _ in range(int(rng.integers(1, 5)))
    ]
    run = ac.Composition(entries)
    lost = 1 - math.prod((1 - Fraction(event.delta)) ** count for event, count in entries)
    most = math.fsum(event.epsilon * count for event, count in entries) * (1 + 1e-15)
    found = ac.delta(run, most, method="tight")
    assert Fraction(found.lower) <= lost <= Fraction(found.delta)
    assert found.delta <= math.nextafter(found.lower, 1)
    assert ac.epsilon(run, found.delta, method="tight").epsilon <= most
    with pytest.raises(ac.NoGuarantee, match="accepted: above"):
        ac.epsilon(run, math.nextafter(found.lower, 0), method="tight")


@pytest.mark.parametrize("delta", [1e-225, 1e-20, 1e-12])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_limit_of_finite_losses_is_no_price_beside_infinite_ones(count, delta):
    """At tiny deltas several samples were priced at the largest finite loss, although another may be infinite."""
    for event in (ac.ApproximateDP(0.1, 1e-7), ac.ProfilePoints((0.1,), (1e-7,))):
        with pytest.raises((ac.NoGuarantee, ac.ToleranceUnreachable)):
            ac.epsilon(count * ac.PoissonSubsampled(event, 0.5), delta)


def test_infinite_losses_have_no_price():
    run = 10 * ac.PoissonSubsampled(EVENT, 0.1)
    lost = 1 - (1 - 1e-4) ** 10
    assert np.isinf(run.renyi([1.0, 2.0, math.inf])).all()
    for delta in (0.0, lost * (1 - 1e-6)):
        with pytest.raises(ac.NoGuarantee, match=r"accepted: above 0\.00099955"):
            ac.epsilon(run, delta, method="tight")
    assert ac.epsilon(run, lost * (1 + 1e-6), method="auto").epsilon < 10 * 0.5
    assert ac.delta(run, 1e300, method="tight").delta == pytest.approx(lost, rel=1e-9)
    with pytest.raises(ac.NoGuarantee, match="infinite"):
        ac.epsilon(run, 1e-2, method="renyi")


@pytest.mark.each_run(1)
@pytest.mark.parametrize("epsilon", audit_after(2, [0.0, 0.2, 0.02, 0.7]))
@pytest.mark.parametrize(("told", "rate"), audit_after(2, [(1e-3, 0.1), (1e-7, 0.9), (0.2, 0.6)]))
@pytest.mark.parametrize("screening", [ac.NoisyScreening(2.0, 1.0, 3), ac.NoisyScreening(0.7, 2.0, 2, 1)])
def test_screenings_beside_infinite_losses_of_one_direction(screening, told, rate, epsilon):
    """An adversary who chooses what comes next and which count, by recursion over all outcomes."""
    event = ac.ApproximateDP(0.5, told)
    run = 2 * ac.PoissonSubsampled(event, rate) + 2 * screening
    with mp.workdps(30):
        p, q = pair(event, rate)
        both = []
        for way in (1, -1):
            single = [list(zip(*(p, q)[::way], strict=True))]
            family = [[each[::way] for each in outcomes] for outcomes in screening_pairs(screening)]
            both.append(float(value_by_recursion([single, family], (2, 2), mp.exp(epsilon))))
    found = ac.delta(run, epsilon, method="tight")
    assert found.lower <= max(both) * (1 + 1e-12)
    assert max(both) <= found.delta * (1 + 1e-12)
    assert found.delta - found.lower <= 0.011 * found.delta
    priced = ac.epsilon(run, found.delta, method="tight")
    assert priced.lower <= epsilon * (1 + 1e-9) + 1e-9
    assert ac.epsilon(run, max(both) * (1 - 1e-9), method="tight").epsilon >= epsilon * (1 - 1e-9)
    advantage = ac.advantage(run, method="tight")
    if epsilon == 0.0:
        assert (advantage.lower, advantage.upper) == (found.lower, found.delta)


def corners(chain, direction):
    """False- and true-positive rates of the best tests, from one that rejects all to one that accepts all."""
    edges = chain if direction == "remove" else [(p, q) for q, p in reversed(chain)]
    places, rates = [mpf(0)], [mpf(0)]
    for q, p in edges:
        places.append(places[-1] + mp.ldexp(q, -BITS))
        rates.append(rates[-1] + mp.ldexp(p, -BITS))
    return places, rates


def rate_at(fpr, places, rates):
    """The largest true-positive rate at a false-positive rate, between corners."""
    k = max(i for i, place in enumerate(places) if place <= fpr)
    if k + 1 == len(places):
        return rates[k]
    return rates[k] + (rates[k + 1] - rates[k]) * (fpr - places[k]) / (places[k + 1] - places[k])


@pytest.mark.audit
@pytest.mark.parametrize(("told", "rate"), audit_after(1, [(0.2, 0.6), (1e-3, 0.1), (1e-7, 0.9)]))
@pytest.mark.parametrize(
    "screening", audit_after(1, [ac.NoisyScreening(0.7, 2.0, 2, 1), ac.NoisyScreening(2.0, 1.0, 3)])
)
def test_attacks_on_screenings_beside_infinite_losses_of_one_direction(screening, told, rate):
    """All tests of an adversary who chooses what comes next and which count lie below a chain of corners."""
    event, floor = ac.ApproximateDP(0.5, told), 1e-4
    run, fprs, worst = 2 * ac.PoissonSubsampled(event, rate) + 2 * screening, [0.0, 1e-5, 1e-3, 0.05, 0.6, 0.9995], 0
    with mp.workdps(60):
        chain = chain_of([[list(zip(*pair(event, rate), strict=True))], screening_pairs(screening)], (2, 2))
        for direction in ("remove", "add"):
            places, rates = corners(chain, direction)
            found = ac.true_positive_rate(run, fprs, direction=direction, method="tight")
            for fpr, lower, upper in zip(fprs, found.lower, found.upper, strict=True):
                exact = rate_at(mpf(fpr), places, rates)
                assert lower <= exact * (1 + mpf("1e-12"))
                assert exact <= upper * (1 + mpf("1e-12")) + mpf("1e-13")
                assert upper - lower <= 0.03 * upper + (fpr == 0.0)
            tests = [*zip(places, rates, strict=True), (mpf(floor), rate_at(mpf(floor), places, rates))]
            scores = [score(b) - score(a) for a, b in tests if a == floor or (a >= floor and 1 - b >= floor)]
            worst = max(worst, *scores)
        mu = ac.gaussian_dp(run, floor, method="tight")
        assert mu.lower <= worst * (1 + mpf("1e-9"))
        assert worst <= mu.upper * (1 + mpf("1e-9"))
        assert mu.upper - mu.lower < 0.05 * mu.upper


def score(rate):
    """The standard normal's quantile."""
    return mp.sqrt(2) * mp.erfinv(2 * rate - 1)


def test_without_a_delta_it_is_pure_dp_and_without_an_epsilon_a_coin():
    orders, epsilons = [1.0, 3.0, math.inf], [0.0, 0.3, 2.0]
    plain = ac.ApproximateDP(0.5, 0.0)
    assert plain.renyi(orders) == pytest.approx(ac.PureDP(0.5).renyi(orders), rel=1e-15)
    sampled = [ac.PoissonSubsampled(event, 0.3).renyi(orders) for event in (plain, ac.PureDP(0.5))]
    assert sampled[0] == pytest.approx(sampled[1], rel=1e-15)
    coin = ac.ApproximateDP(0.0, 0.01)
    assert coin.profile(epsilons).worst == pytest.approx([0.01] * 3, rel=1e-15)
    assert ac.delta(3 * coin, 0.0, method="tight").delta == pytest.approx(1 - 0.99**3, rel=1e-10)
    assert ac.epsilon(3 * coin, 0.03, method="tight").epsilon == 0.0


@pytest.mark.parametrize("parameters", [(-1.0, 1e-5), (1.0, 1.0), (1.0, -1e-9), (1.0, 1e-320), (float("nan"), 0.1)])
def test_bad_parameters(parameters):
    with pytest.raises(ac.ParameterError, match="accepted: "):
        ac.ApproximateDP(*parameters)


def test_plans_price_it_on_the_tight_route_and_say_so_on_the_other(tmp_path, capsys):
    path = tmp_path / "plan.toml"
    lines = [
        "delta = 1e-3",
        *('[[release]]\nevent = "approximate-dp"\nepsilon = 0.2\ndelta = 1e-6\ncount = 10',) * 2,
        "sampling_rate = 0.1",
        '[[release]]\nevent = "gaussian"\nsigma = 20',
    ]
    path.write_text("\n".join(lines))
    assert main(["epsilon", str(path), "--method", "tight"]) == 0
    found = capsys.readouterr().out
    assert "50.0%" in found  # beside infinite curves the others are nothing
    assert main(["epsilon", str(path), "--method", "renyi"]) == 2
    assert "infinite at every order; accepted: method = 'tight'" in " ".join(capsys.readouterr().err.split())


# --- intervals that are wider than was asked ------------------------------------------------------------------


def both_directions(pairs, epsilon):
    """Delta of a composition of (P, Q), each once: sums over all outcomes."""
    p, q = ([mp.fprod(each) for each in product(*laws)] for laws in zip(*pairs, strict=True))
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def check_what_is_known(run, pairs, epsilon, delta, **options):
    """Both prices by "auto" hold, and are wider than was asked; so says the refusal of the tight route."""
    for ask, point in ((ac.epsilon, delta), (ac.delta, epsilon)):
        with pytest.raises(ac.ToleranceUnreachable, match="certified so far: ") as refusal:
            ask(run, point, method="tight", **options)
        found, which = ask(run, point, **options), 0 if ask is ac.epsilon else 1
        ends = found.lower, (found.epsilon, found.delta)[which]
        assert ends == pytest.approx(refusal.value.found, rel=1e-4), "on the way both ask different grids"
        low, high = refusal.value.found
        assert f"[{format_down(low)}, {format_up(high)}]" in str(refusal.value)
        assert both_directions(pairs, found.epsilon) <= found.delta
        if which == 0:
            assert found.lower == 0.0 or both_directions(pairs, found.lower) >= delta
        else:
            assert found.lower <= both_directions(pairs, epsilon)


@pytest.mark.audit
def test_a_wider_interval_counts_infinite_losses_and_both_directions():
    """Of infinite losses in one direction: what is known of the finite ones alone, in one direction, is no price."""
    told, noise = ac.ApproximateDP(0.5, 1e-2), ac.RandomizedResponse(0.4)
    run = 3 * ac.PoissonSubsampled(told, 0.1) + 2 * ac.PoissonSubsampled(noise, 0.3)
    with mp.workdps(40):
        likely = 1 / (1 + mp.exp(-mpf(noise.epsilon)))
        rr = [likely, 1 - likely]
        mixed = [mpf(0.3) * a + (1 - mpf(0.3)) * b for a, b in zip(rr, rr[::-1], strict=True)]
        pairs = 3 * [pair(told, 0.1)] + 2 * [(mixed, rr[::-1])]
        check_what_is_known(run, pairs, 0.1, 0.05, tolerance=1e-6)


def test_a_release_known_by_a_curve_beside_infinite_losses_has_a_price_from_above():
    """Its interval never becomes narrow, and holds what infinite losses cost, 3e-3 here."""
    told = ac.ApproximateDP(0.5, 1e-2)
    run = 3 * ac.PoissonSubsampled(told, 0.1) + 2 * ac.ZeroConcentratedDP(0.01)
    with mp.workdps(40):
        found = ac.delta(run, 1.0)
        assert both_directions(3 * [pair(told, 0.1)], 1.0) <= found.delta < 0.004
        # Gaussian noise has that curve: what infinite losses tell, and what it says of the rest
        lost = 1 - (1 - mpf(0.1) * mpf(0.01)) ** 3
        assert lost + (1 - lost) * mpf(ac.delta(2 * ac.Gaussian(math.sqrt(50)), 1.0).lower) <= found.delta
    assert ac.epsilon(run, 0.05).epsilon >= ac.epsilon(2 * ac.Gaussian(math.sqrt(50)), 0.05).lower
