"""Samples with replacement: against enumeration of all samples, the definition at 60 digits, limits, refusals."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.events import drawn_gaussians
from accountant.events.drawn_gaussians import log_expm1_ratio
from accountant.events.fixed_size import DrawnGroup
from accountant.events.numbers_of_draws import MOST_SIZES, draws_by_size
from accountant.events.with_replacement import how_many_apart, mean_divergence
from accountant.numerics import mills
from accountant.numerics.special import divergence_from_log_mean
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE
ORDERS = np.array([1.5, 2.0, 8.0, 60.0])
PURE = ac.PureDP(1.0, REPLACE)


def released(data, batch, mechanism):
    """Probabilities of the answers of a mechanism on all sequences of draws from the data."""
    rows = [mechanism(tuple(sorted(draws))) for draws in itertools.product(data, repeat=batch)]
    return [sum(row[i] for row in rows) / len(rows) for i in range(len(rows[0]))]


def hockey_stick(p, q, u):
    return sum((max(x - u * y, Fraction(0)) for x, y in zip(p, q, strict=True)), Fraction(0))


def distance(one, other):
    """Records in which two samples of one size differ, as multisets."""
    left = list(other)
    for record in one:
        if record in left:
            left.remove(record)
    return len(left)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_theorem_for_any_mechanism_in_rationals(data):
    """H(e') <= sum of b_k H_k(e), where H_k is the largest over all pairs of samples that differ in k records."""
    records, batch = data.draw(st.sampled_from([(2, 2), (3, 2), (2, 3), (1, 3)]))
    universe = range(records + 1)  # the last two are each other's replacement
    samples = list(itertools.combinations_with_replacement(universe, batch))
    weights = {sample: [data.draw(st.integers(1, 9)) for _ in range(3)] for sample in samples}
    table = {sample: [Fraction(w, sum(row)) for w in row] for sample, row in weights.items()}
    chance = Fraction(1, records)
    rate = 1 - (1 - chance) ** batch
    p, q = (released([*range(records - 1), own], batch, table.__getitem__) for own in (records - 1, records))
    for u in (Fraction(1), Fraction(6, 5), Fraction(2)):
        bound = Fraction(0)
        for k in range(1, batch + 1):
            b = math.comb(batch, k) * chance**k * (1 - chance) ** (batch - k)
            pairs = [(a, c) for a in samples for c in samples if distance(a, c) <= k]
            bound += b * max(hockey_stick(table[a], table[c], u) for a, c in pairs)
        outer = 1 + rate * (u - 1)
        assert hockey_stick(p, q, outer) <= bound
        assert hockey_stick(q, p, outer) <= bound


@pytest.mark.parametrize(("records", "batch"), [(2, 2), (3, 3), (4, 2), (1, 3), (5, 1)])
def test_noisy_counts_cost_no_more(records, batch):
    """Integers that move by 1 with each record of the sample, with two-sided geometric noise, cut off far out."""
    fall, width = Fraction(2), 12

    def mechanism(sign):
        def noisy(sample):
            count = sign * sum(1 if record == 10 else -1 if record == 11 else 0 for record in sample)
            logs = [fall ** -abs(i - count) for i in range(-width, width + 1)]
            # what is beyond the ends belongs to them
            ends = [fall ** -(width + 1 + side * count) / (1 - 1 / fall) for side in (1, -1)]
            return [x / (sum(logs) + sum(ends)) for x in (ends[0], *logs, ends[1])]

        return noisy

    event = ac.SampledWithReplacement(ac.DiscreteLaplace(1 / math.log(2), 2, adjacency=REPLACE), batch, records)
    curves = event.renyi(ORDERS).tolist()
    p, q = (released([*range(records - 1), own], batch, mechanism(1)) for own in (10, 11))
    for t in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = float(hockey_stick(p, q, Fraction(math.exp(t))))
        assert exact <= float(event.profile(t).worst) * (1 + 1e-9)
    for order, curve in zip(ORDERS.tolist(), curves, strict=True):
        moment = sum(float(x) * (x / y) ** (order - 1) for x, y in zip(p, q, strict=True))
        assert math.log(moment) / (order - 1) <= curve * (1 + 1e-9)


def chances_of(batch, records):
    """Probabilities of 1, 2, ... draws of one record, and of any."""
    chance = mp.mpf(1) / records
    found = [(1 - chance) ** batch]
    for k in range(1, min(batch, 400) + 1):
        found.append(found[-1] * mp.mpf(batch - k + 1) / k * chance / (1 - chance))
    return found[1:], 1 - (1 - chance) ** batch


@pytest.mark.each_run(6)
@pytest.mark.parametrize(
    ("sigma", "batch", "records"), [(1.0, 3, 100), (4.0, 256, 60000), (0.7, 20, 10), (30.0, 10**6, 10**5)]
)
@pytest.mark.parametrize("epsilon", audit_after(3, [0.0, 0.4, 2.0, 0.03, 6.0]))
def test_the_profile_of_gaussian_noise_at_60_digits(sigma, batch, records, epsilon):
    event = ac.SampledWithReplacement(ac.ClippedSum(sigma, adjacency=REPLACE), batch, records)
    with mp.workdps(60):
        mu = 2 / mp.mpf(sigma)
        chances, rate = chances_of(batch, records)
        e = mp.log1p(mp.expm1(mp.mpf(epsilon)) / rate)
        pairs = [(b, k * mu) for k, b in enumerate(chances, 1)]
        apart = mp.fsum(b * (mp.ncdf(s / 2 - e / s) - mp.exp(e) * mp.ncdf(-s / 2 - e / s)) for b, s in pairs)

        def mixed(e, least=0):
            """Rate times H_e of all numbers of draws together, none of them nearer than `least` draws are."""
            moved = [(b, max(s, least * mu)) for b, s in pairs]

            def loss(y):
                return mp.log(mp.fsum(b * mp.exp(s * y - s * s / 2) for b, s in moved) / rate) - e

            y = mp.findroot(loss, (-50 / mu - 50, e / mu + mu), solver="ridder", maxsteps=200, verify=False)
            return mp.fsum(b * mp.ncdf(s - y) for b, s in moved) - rate * mp.exp(e) * mp.ncdf(-y)

        share = mp.exp(epsilon - e)
        total = (1 - share) * mixed(e) + share * apart
        for few in how_many_apart(batch, records):  # what is drawn more often from Q is left out
            parts = [1 - share, *(share * b / rate for b, _ in pairs[:few])]
            inner = e + mp.log(mp.fsum(parts))
            if inner >= 1e-9:
                heights = mp.fsum(part * mixed(inner, j) for j, part in enumerate(parts)) / mp.fsum(parts)
                total = min(total, heights)
    found = float(event.profile(epsilon).add)
    assert float(total) * (1 - 2e-12) <= found <= float(total) * (1 + 1e-11) + 1e-33


@pytest.mark.parametrize(("batch", "records"), [(2, 9), (100, 5000), (40, 8)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.5])
def test_the_profile_of_bounded_losses_at_60_digits(batch, records, epsilon):
    found = ac.SampledWithReplacement(ac.Laplace(2.0, adjacency=REPLACE), batch, records).profile(epsilon).remove
    with mp.workdps(60):
        chances, rate = chances_of(batch, records)
        e = mp.log1p(mp.expm1(mp.mpf(epsilon)) / rate)
        total = mp.fsum(b * -mp.expm1((e - k / mp.mpf(2)) / 2) for k, b in enumerate(chances, 1) if k / mp.mpf(2) > e)
    assert float(found) == pytest.approx(float(total), rel=2e-12)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("sigma", "batch", "records", "order"), audit_after(2, [(1.0, 3, 10, 1.7), (5.0, 4, 4, 3.0), (2.0, 2, 50, 6.0)])
)
def test_the_curve_against_the_definition(sigma, batch, records, order):
    """1 + a (a-1) int (e^{(a-1)t} + e^{-at}) H dt over the sum of profiles."""
    curve = float(ac.SampledWithReplacement(ac.ClippedSum(sigma, adjacency=REPLACE), batch, records).renyi(order))
    with mp.workdps(18):
        chance = mp.mpf(1) / records
        g = 1 - (1 - chance) ** batch
        chances = [mp.binomial(batch, k) * chance**k * (1 - chance) ** (batch - k) for k in range(batch + 1)]
        mus = [(b, 2 * k / mp.mpf(sigma)) for k, b in enumerate(chances)][1:]

        def integrand(e):
            u = 1 + g * mp.expm1(e)
            height = mp.fsum(b * (mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)) for b, mu in mus)
            return (u ** (order - 1) + u**-order) * height * g * mp.exp(e) / u

        top = order * mus[-1][1] ** 2 + 14 * mus[-1][1] + 2
        moment = 1 + order * (order - 1) * mp.quad(integrand, mp.linspace(0, top, 12))
        exact = float(mp.log(moment) / (order - 1))
    assert curve == pytest.approx(exact, rel=1e-7)


def sums(data, batch, sigma, x):
    """Density, on a grid, of the sum of a sample with noise."""
    found = [np.exp(-(((x - sum(draws)) / sigma) ** 2) / 2) for draws in itertools.product(data, repeat=batch)]
    return sum(found) / (len(found) * sigma * math.sqrt(2 * math.pi))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_sum_with_gaussian_noise_costs_more(data):
    """Any numbers in [-1, 1] as the records, and both as the replaced one."""
    records, batch = data.draw(st.sampled_from([(1, 3), (2, 2), (2, 3), (3, 2), (3, 3)]))
    numbers = st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-1.0, 1.0)
    others = data.draw(st.lists(numbers, min_size=records - 1, max_size=records - 1))
    sigma = data.draw(st.floats(0.7, 5.0))
    x = np.linspace(-batch - 9 * sigma, batch + 9 * sigma, 40_001)
    p, q = (sums([*others, own], batch, sigma, x) for own in (data.draw(numbers), data.draw(numbers)))
    event = ac.SampledWithReplacement(ac.ClippedSum(sigma, adjacency=REPLACE), batch, records)
    for epsilon in (0.0, 0.2, 1.0, 3.0, 6.0):
        real = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
        assert real <= float(event.profile(epsilon).worst) * (1 + 1e-6) + 1e-12


def test_both_ends():
    """The lower end is a sum to which one record contributes 2, or nothing; of one draw or record both ends meet."""
    sigma, batch, records, epsilon = 2.0, 3, 4, 0.5
    event = ac.SampledWithReplacement(ac.ClippedSum(sigma, adjacency=REPLACE), batch, records)
    x = np.linspace(-30, 30, 400_001)
    p, q = (sums([0.0, 0.0, 0.0, own], batch, sigma, x) for own in (2.0, 0.0))
    real = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
    found = ac.delta(event, epsilon, method="tight")
    assert found.lower == pytest.approx(real, rel=1e-8)  # alone it is exact
    assert real <= found.delta < 1.2 * real
    for other in (ac.SampledWithReplacement(event.event, 1, 4), ac.SampledWithReplacement(event.event, 3, 1)):
        ends = ac.delta(other, epsilon, method="tight", tolerance=0.02)
        assert ends.lower <= float(other.profile(epsilon).worst) <= ends.delta <= ends.lower * 1.03
    pure = ac.epsilon(ac.SampledWithReplacement(PURE, 2, 10), 0.0, method="tight")
    assert pure.lower == pytest.approx(math.log1p(0.19 * math.expm1(1.0)), rel=1e-6)  # of who tells presence only
    assert pure.epsilon == pytest.approx(math.log1p(0.19 * math.expm1(2.0)), rel=1e-9)


def test_limits():
    noise = ac.ClippedSum(1.3, adjacency=REPLACE)
    for records in (1, 7, 10**6):  # one draw is a sample without replacement
        one, other = ac.SampledWithReplacement(noise, 1, records), ac.FixedSizeSampled(noise, 1, records)
        assert one.renyi(ORDERS) == pytest.approx(other.renyi(ORDERS), rel=1e-12)
        assert one.profile(0.3).worst == pytest.approx(other.profile(0.3).worst, rel=1e-11)
    group = ac.Group(noise, 9)  # one record is drawn nine times
    assert ac.SampledWithReplacement(noise, 9, 1).renyi(ORDERS) == pytest.approx(group.renyi(ORDERS), rel=1e-12)
    rare = ac.SampledWithReplacement(noise, 2, 10**12)
    assert float(rare.profile(0.0).worst) < 2e-12
    assert float(rare.renyi(2.0)) < 1e-10
    # a record that may come twice costs more than one that may not, and more draws cost more
    heights = [float(ac.SampledWithReplacement(noise, m, 100).profile(0.1).worst) for m in (5, 10, 20, 200)]
    assert heights == sorted(heights)
    repeated, distinct = ac.SampledWithReplacement(noise, 10, 100), ac.FixedSizeSampled(noise, 10, 100)
    assert float(repeated.profile(1.0).worst) > float(distinct.profile(1.0).worst)
    assert (repeated.renyi(ORDERS) > distinct.renyi(ORDERS)).all()


@pytest.mark.parametrize(("batch", "records"), [(1, 5), (300, 300), (10**6, 1000), (10**12, 10**11), (7, 10**12)])
def test_numbers_of_draws_sum_up(batch, records):
    sizes, logs = zip(*draws_by_size(batch, records), strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= MOST_SIZES + 1
    assert sizes[-1] <= batch
    drawn = -math.expm1(batch * math.log1p(-1 / records))
    assert math.fsum(map(math.exp, logs)) == pytest.approx(drawn, rel=1e-11)
    # counted as more draws, never as fewer
    assert sum(size * math.exp(log) for size, log in zip(sizes, logs, strict=True)) >= batch / records * (1 - 1e-11)


@pytest.mark.audit
def test_prices_agree():
    noise = ac.ClippedSum(6.0, adjacency=REPLACE)
    run = 20 * ac.SampledWithReplacement(noise, 3, 2000)
    tight = ac.epsilon(run, 1e-6, method="tight", tolerance=0.03)
    assert tight.lower <= tight.epsilon <= ac.epsilon(run, 1e-6, method="renyi").epsilon
    without = ac.epsilon(20 * ac.FixedSizeSampled(noise, 3, 2000), 1e-6, method="tight", tolerance=0.03)
    assert without.lower < tight.epsilon < 1.3 * without.epsilon


def test_plans(tmp_path):
    run = 3 * ac.SampledWithReplacement(ac.ClippedSum(1.1, adjacency="replace"), 100, 5000)
    path = tmp_path / "plan.toml"
    path.write_text(run.to_toml())
    assert ac.load_plan(path).run == run


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ac.SampledWithReplacement(ac.Gaussian(1.0), 1, 2), ac.SubsamplingError, "nothing is proven; accepted"),
        (
            lambda: ac.SampledWithReplacement(PURE, 3000, 2),
            ac.ParameterError,
            r"draws = 3000 of 2 .*accepted: \[1, 2000",
        ),
        (lambda: ac.SampledWithReplacement(PURE, 0, 2), ac.ParameterError, "draws = 0"),
        (lambda: ac.SampledWithReplacement(ac.ApproximateDP(1.0, 0.1, REPLACE), 2, 9), ac.ParameterError, "no proven"),
        (lambda: ac.SampledWithReplacement(ac.Collision(1.0, 2, 8), 2, 9), ac.ParameterError, "accepted"),
        (lambda: ac.SampledWithReplacement(3, 1, 2), ac.ParameterError, "event = 3; accepted: an event"),
        (
            lambda: ac.SampledWithReplacement(ac.FixedSizeSampled(ac.ClippedSum(1.0, 1.0, REPLACE), 5, 10), 1, 10),
            ac.SubsamplingError,
            "for 10 records, and a sample has 1",
        ),
        (lambda: ac.PoissonSubsampled(ac.SampledWithReplacement(PURE, 1, 2), 0.1), ac.SubsamplingError, "accepted"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.each_run(5)
@pytest.mark.parametrize(
    ("draws", "population", "sigma"), [(5, 100, 1.0), (39, 50, 0.3), (300, 1000, 50.0), (500, 30, 20.0)]
)
@pytest.mark.parametrize("order", [1.0, 1 + 1e-9, 1.5, 30.0, 1e5])
def test_the_mean_of_the_moments_is_that_of_all_parts(draws, population, sigma, order):
    event = ac.SampledWithReplacement(ac.Gaussian(sigma, 1.0, ac.Adjacency.REPLACE), draws, population)
    logs = [float(part._log_mean(np.array([order]))[0]) + log_weight for part, log_weight in event._parts()]
    whole = divergence_from_log_mean(order - 1.0, float(np.logaddexp.reduce(logs)))
    assert float(event._mean_curve(np.array([order]))[0]) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("order", [1.0, 1.5, 30.0])
def test_parts_that_are_left_out_are_in_no_float(order):
    event = ac.SampledWithReplacement(PURE, 39, 500)
    logs = [float(part._log_mean(np.array([order]))[0]) + log_weight for part, log_weight in event._parts()]
    whole = divergence_from_log_mean(order - 1.0, float(np.logaddexp.reduce(logs)))
    assert mean_divergence(event, order) == pytest.approx(whole, rel=1e-14)


@pytest.mark.parametrize(("sigma", "draws", "population"), [(2.0, 10, 10), (4.0, 40, 10), (0.7, 3, 5)])
def test_opposite_contributions_reach_the_bound_at_no_epsilon_and_one_record_alone_does_not(sigma, draws, population):
    """A record and its replacement at either end of the ball: their sums' signs tell most, however often they come."""
    run = ac.SampledWithReplacement(ac.ClippedSum(sigma, 1.0, adjacency="replace"), draws, population)
    share = mp.mpf(1) / population
    weights = [mp.binomial(draws, k) * share**k * (1 - share) ** (draws - k) for k in range(draws + 1)]
    opposite = mp.fsum(b * (1 - 2 * mp.ncdf(-k / mp.mpf(sigma))) for k, b in enumerate(weights))
    bound = math.exp(run._log_profile(np.zeros(1))[0][0])
    assert bound == pytest.approx(float(opposite), rel=1e-9)
    alone = max(
        float(mp.fsum(b * mp.ncdf(2 * k / mp.mpf(sigma) - t) for k, b in enumerate(weights)) - mp.ncdf(-t))
        for t in np.linspace(0.0, 5.0, 51)
    )
    assert alone < 0.99 * bound


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("sigma", "draws", "population"), [(1.0, 10, 10), (1.0, 5, 20), (2.0, 30, 10)])
def test_how_often_a_record_is_drawn_is_hidden_on_both_sides(sigma, draws, population):
    run = ac.SampledWithReplacement(ac.Gaussian(sigma, adjacency=REPLACE), draws, population)
    found = ac.epsilon(run, 1e-5, method="tight")
    assert 0 < found.epsilon - found.lower <= 0.02 * found.epsilon


@pytest.mark.parametrize("sigma", [1e12, 1e30])
@pytest.mark.parametrize(("draws", "population"), [(10, 1000), (1000, 1000), (3, 10**9)])
def test_much_noise_costs_what_the_mean_square_of_the_draws_does(sigma, draws, population):
    """a g E(k^2) mu^2/2 is left of the mean of the moments; rare numbers of draws count for no more than unsampled."""
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-6, 100.0, 30)])
    found = ac.SampledWithReplacement(ac.Gaussian(sigma, adjacency=REPLACE), draws, population).renyi(orders)
    rate, share = -math.expm1(draws * math.log1p(-1 / population)), draws / population
    square = share + share * (draws - 1) / population
    assert found == pytest.approx(orders * rate * square / sigma**2 / 2, rel=1e-5)
    assert (np.diff(found) >= 0).all()


@pytest.mark.audit
def test_many_draws_of_a_record_leave_patience_for_the_lower_end():
    """295 numbers of draws, on average ten of a record: orders of their curve are counted for what they take."""
    found = ac.epsilon(
        100 * ac.SampledWithReplacement(ac.Gaussian(1.0, adjacency=REPLACE), 1000, 100), 1e-5, method="tight"
    )
    assert 6960.0 < found.lower < found.epsilon < 7140.0


@pytest.mark.parametrize("noise", [ac.Gaussian(0.02, adjacency=REPLACE), ac.Gaussian(22.6, adjacency=REPLACE)])
def test_all_numbers_of_draws_at_once_are_as_each_by_itself(noise, monkeypatch):
    """345 of them were a call each, so that a price took 2 s at a patience of 0.2 s."""
    sampled, calls = ac.SampledWithReplacement(noise, 345, 5), []
    at = np.array([0.0, 1e-3, 0.7, 20.0, 400.0])
    each = np.stack([log_weight + part._log_height(at) for part, log_weight in sampled._parts()])
    assert drawn_gaussians.log_heights(sampled._gaussians(), at) == pytest.approx(each, rel=1e-14, abs=1e-14)
    monkeypatch.setattr(mills, "_log_density", lambda x, known=mills._log_density: calls.append(x.size) or known(x))
    sampled._log_profile(at[:3])
    assert len(calls) <= 30


@pytest.mark.parametrize("sigma", [1e8, 1e49, 1e50])
def test_noise_that_hides_all_has_a_price(sigma):
    """From below the shift is too small to be a parameter."""
    event = ac.SampledWithReplacement(ac.Gaussian(sigma, adjacency=ac.Adjacency.REPLACE), 1, 2)
    for run in (event, 10 * event):
        assert ac.epsilon(run, 1e-5).epsilon == 0.0
        found = ac.delta(run, 0.1)
        assert found.lower == 0.0
        assert found.delta < 1e-300
    assert 0.0 < float(event.renyi(2.0)) < 1e-15


@pytest.mark.parametrize(
    ("noise", "draws", "population"),
    [
        (ac.RandomizedResponse(1.0, bits=1, adjacency="replace"), 10, 100),
        (ac.RandomizedResponse(1.0, bits=1, adjacency="replace"), 5, 1000),
        (ac.Laplace(2.0, adjacency="replace"), 20, 2000),
    ],
)
@pytest.mark.parametrize("order", [2.0, 6.0, 20.0])
def test_the_curve_is_the_integral_of_the_profile(noise, draws, population, order):
    """Seldom many draws of a record counted as if it were in every sample: 1.15 for 0.049 at order 6 of 10 of 100."""
    sampled = ac.SampledWithReplacement(noise, draws, population)
    knots = [0.0, *(each for each in sampled._profile_knots() if each > 0.0)]
    if len(knots) == 1:
        knots += np.linspace(0.0, float(sampled.renyi(math.inf)), 200)[1:].tolist()

    def moment(epsilon):
        weights = np.exp((order - 1) * epsilon) + np.exp(-order * epsilon)
        return weights * np.exp(sampled._log_profile(epsilon)[0])

    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for low, high in itertools.pairwise(knots):
        half = (high - low) / 2
        total += half * float(weights @ moment(low + half * (nodes + 1)))
    exact = math.log1p(order * (order - 1) * total) / (order - 1)
    assert float(sampled.renyi(order)) == pytest.approx(exact, rel=1e-6)


def curve_of_laplace(scale, draws, population, order):
    """log(1 + a (a-1) int (u^(a-1) + u^-a) S dt) / (a-1) at 40 digits, cell by cell of the losses of Laplace noise."""
    with mp.workdps(40):
        t, chance, a = 1 / mp.mpf(scale), mp.mpf(1) / population, mp.mpf(order)
        g = 1 - (1 - chance) ** draws
        weights = [mp.binomial(draws, k) * chance**k * (1 - chance) ** (draws - k) for k in range(draws + 1)]
        total = kept = fallen = mp.mpf(0)
        for j in range(draws, 0, -1):
            kept, fallen = kept + weights[j], fallen + weights[j] * mp.exp(-j * t / 2)

            def integrand(e, kept=kept, fallen=fallen):
                u = 1 + g * mp.expm1(e)
                return (u ** (a - 1) + u**-a) * (kept - mp.exp(e / 2) * fallen) * g * mp.exp(e) / u

            total += mp.quad(integrand, [(j - 1) * t, (j - mp.mpf(1) / 2) * t, j * t], maxdegree=4)
        return float(mp.log(1 + a * (a - 1) * total) / (a - 1))


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    ("scale", "draws", "population"),
    [
        (2.0, 32, 1000),
        (2.0, 33, 1000),
        (20.0, 40, 1000),
        (0.3, 33, 1000),
        (2.0, 70, 1000),
        (2.0, 40, 40),
        (20.0, 36, 10),
    ],
)
@pytest.mark.parametrize("order", [2, 8, 64])
def test_the_curve_does_not_leap_where_numbers_of_draws_are_rare(scale, draws, population, order):
    """From 33 numbers of draws on those that are rare counted as in every sample: 12.9 for 9.44 at order 64."""
    found = float(
        ac.SampledWithReplacement(ac.Laplace(scale, adjacency=REPLACE), draws, population).renyi(float(order))
    )
    exact = curve_of_laplace(scale, draws, population, order)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("rate", [1e-6, 0.03, 0.9])
@pytest.mark.parametrize("order", [1.0, 1.3, 2.0, 8.0, 64.0, 1000.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 20.0])
def test_a_rare_part_is_bounded_from_above(rate, order, epsilon):
    """By no less than its integral, and no more than without a sample."""
    exact = DrawnGroup(ac.PureDP(epsilon, REPLACE), 1, 1, rate)
    found, known = (replace(exact, rare=rare)._log_mean(np.array([order]))[0] for rare in (True, False))
    without = log_expm1_ratio(np.array([order - 1.0]), np.array([float(exact.event.renyi(order))]))[0]
    assert known <= found + 1e-9 * abs(found)
    assert found <= math.log(rate) + np.logaddexp(without, 0.0) + 1e-12
