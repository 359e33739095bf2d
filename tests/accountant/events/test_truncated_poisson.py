"""Truncated Poisson samples: odds against sums, prices against data sets, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import norm

import accountant as ac
from accountant.events.truncated_poisson import price_of_parts, truncation_odds
from accountant.events.truncated_readings import ANGLES, SIDES, BatchSeen, log_sum_of
from accountant.numerics.binomial_tails import log_binomial_tails
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE


def binomial(n, k, q):
    return mp.binomial(n, k) * q**k * (1 - q) ** (n - k)


@pytest.mark.parametrize(
    ("rate", "records", "largest"),
    [(0.5, 4, 2), (0.1, 1000, 110), (0.01, 400, 300), (0.9, 50, 3), (0.3, 60, 59), (1e-6, 30, 29), (0.25, 2, 1)],
)
def test_odds_by_their_sums(rate, records, largest):
    with mp.workdps(60):
        q, others = mpf(rate), range(records)
        room = mp.fsum(binomial(records - 1, k, q) for k in others if k < largest)
        full = mp.fsum(binomial(records - 1, k, q) for k in others if k >= largest)
        kept = mp.fsum(binomial(records - 1, k, q) * q * largest / (k + 1) for k in others if k >= largest)
        found = truncation_odds(rate, records, largest)
        for value, truth in zip(found, (mp.log(room), mp.log(full), kept / full), strict=True):
            assert value == pytest.approx(float(truth), rel=1e-11, abs=1e-14)


@pytest.mark.parametrize("adjacency", list(ac.Adjacency)[:2])
@pytest.mark.parametrize(
    ("rate", "records", "largest"),
    [
        (8.122865427457615e-09, 2032704367, 12),
        (4.050344657389769e-09, 2010570660, 6),
        (2e-9, 10**9, 1),
        (7.39874467699354e-09, 1313020739, 8),
    ],
)
def test_a_few_of_very_many_records(rate, records, largest, adjacency):
    """Noise that hides nothing: delta is the chance to be in the batch, of which eight digits were right."""
    with mp.workdps(50):
        q = mpf(rate)
        kept = mp.fsum(binomial(records - 1, k, q) * min(1, mpf(largest) / (k + 1)) for k in range(60 * largest + 60))
        true = float(q * kept)
    found = ac.delta(
        ac.TruncatedPoissonGaussian(0.05, rate, records, largest, adjacency=adjacency), 1.0, method="tight"
    )
    assert found.lower <= true * (1 + 1e-10)
    assert found.delta >= true * (1 - 1e-10)


@pytest.mark.parametrize(("n", "least", "rate"), [(10_000, 4_000, 0.1), (300, 299, 1e-3), (10**6, 2_000, 1e-4)])
def test_odds_below_the_range_of_floats(n, least, rate):
    with mp.workdps(60):
        q = mpf(rate)
        first = binomial(n, least, q)
        total, term, k = mpf(1), mpf(1), least
        while k < n and term > mpf("1e-30") * total:
            term *= mpf(n - k) / (k + 1) * q / (1 - q)
            total += term
            k += 1
        assert log_binomial_tails(n, least, rate)[1] == pytest.approx(float(mp.log(first * total)), rel=1e-12)


def releases(vectors, rate, largest):
    """Weights of the sums that a data set of numbers releases, by going through all samples and all batches."""
    weights = {}
    for joined in itertools.product((0, 1), repeat=len(vectors)):
        members = [value for value, bit in zip(vectors, joined, strict=True) if bit]
        chance = math.prod(rate if bit else 1 - rate for bit in joined)
        batches = list(itertools.combinations(members, min(largest, len(members))))
        for batch in batches:
            total = round(sum(batch), 9)
            weights[total] = weights.get(total, 0.0) + chance / len(batches)
    return weights


GRID = np.linspace(-30.0, 30.0, 24_001)
STEP = 60.0 / 24_000
COARSE = 1e-5
"""Error of sums over the grid where the integrand has a kink."""


def log_density(weights, sigma):
    logs = [math.log(w) - 0.5 * ((GRID - m) / sigma) ** 2 for m, w in weights.items() if w > 0]
    return np.logaddexp.reduce(logs) - math.log(sigma * math.sqrt(2 * math.pi))


def hockey_stick(p, q, sigma, epsilons):
    """H of two mixtures of normal distributions, by sums over a fine grid."""
    first, second = log_density(p, sigma), log_density(q, sigma)
    with np.errstate(under="ignore"):
        return np.array([STEP * np.maximum(np.exp(first) - np.exp(second + e), 0.0).sum() for e in epsilons])


def divergence(p, q, sigma, order):
    terms = order * log_density(p, sigma) + (1 - order) * log_density(q, sigma)
    return (np.logaddexp.reduce(terms) + math.log(STEP)) / (order - 1)


numbers = st.sampled_from([-1.0, -0.5, 0.0, 0.7, 1.0])
EPSILONS = [0.0, 0.2, 0.7, 1.5, 3.0]


@pytest.mark.audit
@settings(max_examples=20, deadline=None)
@given(
    st.lists(numbers, min_size=1, max_size=4),
    numbers,
    numbers,
    st.integers(1, 4),
    st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    st.sampled_from([0.7, 1.5]),
)
def test_no_data_sets_cost_more(others, own, instead, largest, rate, sigma):
    """Everything that small data sets release, under either adjacency and in both directions."""
    with_it = releases([*others, own], rate, largest)
    for other, adjacency in ((others, "add-remove"), ([*others, instead], "replace")):
        event = ac.TruncatedPoissonGaussian(sigma, rate, len(others) + 1, largest, adjacency=adjacency)
        without = releases(other, rate, largest)
        bound = event.profile(EPSILONS)
        assert (hockey_stick(with_it, without, sigma, EPSILONS) <= bound.remove + COARSE).all()
        assert (hockey_stick(without, with_it, sigma, EPSILONS) <= bound.add + COARSE).all()
        for order in (1.5, 4.0):
            worst = max(divergence(with_it, without, sigma, order), divergence(without, with_it, sigma, order))
            assert worst <= float(event.renyi(order)) + 1e-9


def test_a_batch_of_one_among_opposites_reaches_the_price():
    """All others at -1: none at 0, one at -1, the individual at 1 are the Gaussians of the best share."""
    event = ac.TruncatedPoissonGaussian(1.0, 0.9, 4, 1)
    pair = [releases(each, 0.9, 1) for each in ([-1.0] * 3 + [1.0], [-1.0] * 3)]
    for epsilon in (0.3, 1.0, 4.0):
        assert hockey_stick(*pair, 1.0, [epsilon])[0] == pytest.approx(float(event.profile(epsilon).remove), rel=1e-5)


FINE = np.linspace(-14.0, 16.0, 30_001)


def one_cell(mass, stay, moved, distance, factor, forward):
    """Sum over a fine grid of (P - e^e Q)_+ or of (Q - e^e P)_+, of weights of normal distributions."""
    p, q = stay * norm.pdf(FINE) + moved * norm.pdf(FINE - distance), mass * norm.pdf(FINE)
    excess = p - factor * q if forward else q - factor * p
    return np.maximum(excess, 0.0).sum() * (FINE[1] - FINE[0])


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("rate", "records", "largest", "sigma"), [(0.1, 100, 12, 1.1), (0.5, 30, 12, 2.0)])
def test_the_best_share_of_swaps_is_as_good_as_any(rate, records, largest, sigma):
    log_room, log_full, full_rate = truncation_odds(rate, records, largest)
    full, last = math.exp(log_full), float(binomial(records - 1, largest - 1, mpf(rate)))
    roomy, swapped = math.exp(log_room) - last, full * full_rate
    event = ac.TruncatedPoissonGaussian(sigma, rate, records, largest)
    for epsilon, forward in itertools.product((0.05, 0.5, 1.5), (True, False)):
        costs = []
        for share in np.linspace(0.0, 1.0, 21).tolist():
            cells = (
                (roomy, (1 - rate) * roomy, rate * roomy, 1 / sigma),
                (last, (1 - rate) * last, rate * last + (1 - share) * swapped, 1 / sigma),
                (full, full - swapped, share * swapped, 2 / sigma),
            )
            costs.append(math.fsum(one_cell(*cell, math.exp(epsilon), forward) for cell in cells))
        profile = event.profile(epsilon)
        ours = float(profile.remove if forward else profile.add)
        assert ours <= min(costs) * (1 + 1e-5) + 1e-12
        assert ours >= min(costs) * 0.98 - 1e-12


AXIS = np.linspace(-9.0, 9.0, 361)
AREA = (AXIS[1] - AXIS[0]) ** 2
PLANE = 3e-5
"""Error of sums over the plane, where the integrand has a kink."""


def plane(vectors, rate, largest):
    """Density of what a data set of vectors in the plane releases, sigma = 1."""
    weights = {}
    for joined in itertools.product((0, 1), repeat=len(vectors)):
        members = [value for value, bit in zip(vectors, joined, strict=True) if bit]
        chance = math.prod(rate if bit else 1 - rate for bit in joined)
        batches = list(itertools.combinations(members, min(largest, len(members))))
        for batch in batches:
            total = round(sum(v.real for v in batch), 9), round(sum(v.imag for v in batch), 9)
            weights[total] = weights.get(total, 0.0) + chance / len(batches)
    return sum(w * np.outer(norm.pdf(AXIS - x), norm.pdf(AXIS - y)) for (x, y), w in weights.items())


def in_the_plane(first, second, epsilon):
    return AREA * np.maximum(first - math.exp(epsilon) * second, 0.0).sum()


@pytest.mark.each_run(1)
@pytest.mark.parametrize("adjacency", list(ac.Adjacency))
def test_no_data_sets_in_the_plane_cost_more(adjacency):
    rng = np.random.default_rng(3)
    for _ in range(12):
        others, rate, largest = rng.integers(1, 5), rng.choice([0.2, 0.6, 0.9]), rng.integers(1, 4)
        vectors = np.exp(1j * rng.choice([0.0, 1.6, 2.3, 3.1, 4.0], others)) * rng.choice([0.5, 1.0], others)
        data = [*vectors.tolist(), 1.0 + 0j], vectors.tolist()
        if adjacency is REPLACE:
            data[1].append(np.exp(1j * rng.choice([1.0, 2.0, math.pi])))
        event = ac.TruncatedPoissonGaussian(1.0, rate, int(others) + 1, int(largest), adjacency=adjacency)
        first, second = (plane(each, rate, largest) for each in data)
        for epsilon in (0.0, 0.4, 1.5, 3.0):
            bound = event.profile(epsilon)
            assert in_the_plane(first, second, epsilon) <= bound.remove + PLANE
            assert in_the_plane(second, first, epsilon) <= bound.add + PLANE


def test_no_record_that_adds_nothing_in_its_place_costs_more():
    rng = np.random.default_rng(4)
    for _ in range(8):
        others, rate, largest = rng.integers(1, 5), rng.choice([0.2, 0.6, 0.9]), rng.integers(1, 4)
        vectors = np.exp(1j * rng.choice([0.0, 1.6, 2.3, 3.1], others)).tolist()
        first, second = (plane([*vectors, last], rate, largest) for last in (1.0 + 0j, 0j))
        release = ac.TruncatedPoissonGaussian(1.0, rate, int(others) + 1, int(largest))
        bound = price_of_parts(release, ac.Adjacency.ADD_REMOVE, REPLACE).profile(EPSILONS)
        for i, epsilon in enumerate(EPSILONS):
            assert in_the_plane(first, second, epsilon) <= bound.remove[i] + PLANE
            assert in_the_plane(second, first, epsilon) <= bound.add[i] + PLANE


@pytest.mark.parametrize(("rate", "largest"), [(0.4, 2), (0.9, 1), (0.7, 4)])
def test_what_is_read_of_the_batch_is_what_the_sum_tells(rate, largest):
    """Others' vectors at one angle: a reading tells a little less than the sum, at each of its angles."""
    event = ac.TruncatedPoissonGaussian(1.0, rate, 5, largest)
    readings = event._certain(0).readings
    for angle, cells in zip(ANGLES, readings, strict=True):
        other = complex(math.cos(angle), math.sin(angle))
        first, second = (plane([other] * 4 + more, rate, largest) for more in ([1.0 + 0j], []))
        for epsilon in (0.0, 0.3, 1.0):
            for ordered, forward in (((first, second), True), ((second, first), False)):
                told = math.exp(log_sum_of(cells, np.array([epsilon]), forward)[0])
                reached = in_the_plane(*ordered, epsilon)
                assert 0.96 * reached - 2e-4 <= told <= reached + PLANE


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("rate", "largest"), [(0.4, 2), (0.9, 1), (0.7, 4)])
def test_what_is_read_of_replaced_records_is_what_the_sum_tells(rate, largest):
    """The record in the individual's place is one more like all others, or stands on their other side."""
    event = ac.TruncatedPoissonGaussian(1.0, rate, 5, largest, adjacency=REPLACE)
    readings = event._certain(0).readings
    cases = [*((angle, -angle) for angle in SIDES), *((angle, 0.0) for angle in ANGLES)]
    for (one, other), cells in zip(cases, readings, strict=True):
        # turned, so that no kink follows the grid
        data = [np.exp(1j * np.array([0.7] * 4 + [0.7 + each])).tolist() for each in (one, other)]
        first, second = (plane(each, rate, largest) for each in data)
        for epsilon in (0.0, 0.3, 1.0):
            for ordered, forward in (((first, second), True), ((second, first), False)):
                told = math.exp(log_sum_of(cells, np.array([epsilon]), forward)[0])
                reached = in_the_plane(*ordered, epsilon)
                assert 0.93 * reached - 4e-4 <= told <= reached + PLANE


@pytest.mark.audit
@pytest.mark.parametrize(
    ("event", "times"),
    audit_after(
        1,
        [
            (ac.TruncatedPoissonGaussian(1.0, 0.1, 1000, 100), 3),
            (ac.TruncatedPoissonGaussian(2.0, 0.5, 100, 40, adjacency=REPLACE), 100),
        ],
    ),
)
def test_the_reading_of_a_run_is_about_the_best(event, times):
    seen = event._certain(0)
    alone = [BatchSeen((cells,), seen.above, seen.adjacency) for cells in seen.readings]
    prices = [ac.epsilon(times * each, 1e-5, method="tight", tolerance=0.05).lower for each in alone]
    assert ac.epsilon(times * event, 1e-5, method="tight").lower >= 0.96 * max(prices)


@pytest.mark.parametrize("rate", [1e-3, 0.2, 0.7])
@pytest.mark.parametrize("u", [0.05, 0.7, 2.5])
def test_full_batches_by_their_definition(rate, u):
    """Of a record in the batch of others at -1: the individual at 1, and -1 or 0 in its place."""
    release = ac.TruncatedPoissonGaussian(1 / u, 0.3, 30, 8)
    replaced, special = (price_of_parts(release, own, REPLACE) for own in (REPLACE, ac.Adjacency.ADD_REMOVE))

    def found(event, epsilon):
        return [math.exp(event._log_swapped(np.array([rate]), np.array([epsilon]), way)[0]) for way in (True, False)]

    def reached(first, second, epsilon):
        p, q = ((1 - rate) * norm.pdf(FINE) + rate * norm.pdf(FINE - place) for place in (first, second))
        return np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (FINE[1] - FINE[0])

    for epsilon in (0.01, 0.3, 1.2):
        with mp.workdps(40):
            t = mp.log1p(mp.expm1(mpf(epsilon)) / mpf(rate))
            beta = mp.exp(epsilon - t)
            far, near = (mp.ncdf(d / 2 - t / d) - mp.exp(t) * mp.ncdf(-d / 2 - t / d) for d in (2 * mpf(u), mpf(u)))
            forward, backward = (float(rate * each) for each in ((1 - beta) * far + beta * near, near))
        assert found(replaced, epsilon) == pytest.approx([float(rate * far)] * 2, rel=1e-9, abs=1e-300)
        assert found(special, epsilon) == pytest.approx([forward, backward], rel=1e-9, abs=1e-300)
        assert reached(2 * u, 0, epsilon) == pytest.approx(found(replaced, epsilon)[0], rel=1e-3, abs=1e-7)
        for event, other in ((replaced, 0), (special, u)):
            for (first, second), bound in zip(((2 * u, other), (other, 2 * u)), found(event, epsilon), strict=True):
                assert reached(first, second, epsilon) <= bound * (1 + 1e-3) + 1e-7


def test_records_that_are_hardly_ever_cut_cost_what_the_sample_does():
    plain = ac.PoissonSubsampled(ac.ClippedSum(0.7), 0.001)
    cut = ac.epsilon(1000 * ac.TruncatedPoissonGaussian(0.7, 0.001, 10**6, 1200), 1e-5, method="tight")
    known = ac.epsilon(1000 * plain, 1e-5, method="tight")
    assert known.lower * 0.999 <= cut.lower <= cut.epsilon <= known.epsilon * 1.005


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("event", "steps", "low", "high"),
    audit_after(
        3,
        [
            (ac.TruncatedPoissonGaussian(0.7, 0.001, 10**6, 1100), 1000, 0.60, 0.66),
            (ac.TruncatedPoissonGaussian(0.6, 0.9, 5, 2), 5, 34.4, 38.8),
            (ac.TruncatedPoissonGaussian(4.0, 0.1, 1000, 70, adjacency=REPLACE), 1000, 5.3, 6.3),
            (ac.TruncatedPoissonGaussian(1.1, 0.1, 1000, 110), 1, 1.43, 2.53),
            (ac.TruncatedPoissonGaussian(0.8, 0.01, 60_000, 650, adjacency=REPLACE), 1000, 4.2, 5.2),
        ],
    ),
)
def test_prices_are_known_within(event, steps, low, high):
    found = ac.epsilon(steps * event, 1e-5, method="tight")
    assert low <= found.lower <= found.epsilon <= high


def test_best_shares_where_records_keep_their_place():
    """Between golden sections the profile is as low as at any of many shares, and convex in e^epsilon."""
    event = ac.TruncatedPoissonGaussian(2.0, 0.5, 30, 12, adjacency=REPLACE)._price()
    points = np.linspace(0.0, 4.0, 57)
    found = event._log_profile(points)[0]
    tried = [event._log_sum(np.full_like(points, share), points, True) for share in np.linspace(0.0, 1.0, 201)]
    assert (found <= np.min(tried, axis=0) + 1e-4).all()
    slopes = np.diff(np.exp(found)) / np.diff(np.exp(points))
    assert (np.diff(slopes) >= -1e-12).all()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_limits(adjacency):
    """No record is ever cut: the sampled sum. All are drawn: a sample without replacement out of n."""
    plain = ac.PoissonSubsampled(ac.ClippedSum(1.3, 2.0, adjacency), 0.2)
    roomy = ac.TruncatedPoissonGaussian(1.3, 0.2, 30, 30, 2.0, adjacency)
    full = ac.TruncatedPoissonGaussian(1.3, 1.0, 30, 6, 2.0, adjacency)
    fixed = ac.PoissonSubsampled(ac.ClippedSum(1.3, 4.0), 0.2)
    if adjacency == "replace":  # the vectors are no more than 4 apart
        fixed = ac.FixedSizeSampled(ac.ClippedSum(1.3, 2.0, adjacency), 6, 30)
    for event, known in ((roomy, plain), (full, fixed)):
        np.testing.assert_allclose(event.renyi([1, 1.5, 8, np.inf]), known.renyi([1, 1.5, 8, np.inf]), rtol=1e-12)
        np.testing.assert_allclose(event.profile(EPSILONS), known.profile(EPSILONS), rtol=1e-12)


@pytest.mark.audit
def test_the_larger_data_set_may_be_the_cheaper():
    costs = [ac.epsilon(ac.TruncatedPoissonGaussian(1.0, 0.5, n, 4), 1e-5, method="tight").epsilon for n in (4, 5, 400)]
    assert costs[0] < costs[1]
    assert costs[2] < costs[1]


def test_routes_agree_and_plans_take_it(tmp_path):
    event = ac.TruncatedPoissonGaussian(1.1, 0.1, 1000, 110)
    tight = ac.epsilon(300 * event, 1e-5, method="tight")
    assert tight.lower <= tight.epsilon <= ac.epsilon(300 * event, 1e-5, conversion="optimal").epsilon
    path = tmp_path / "plan.toml"
    path.write_text((300 * event).to_toml(delta=1e-5))
    assert ac.load_plan(path).run == 300 * event


def test_what_has_no_price_is_refused():
    event = ac.TruncatedPoissonGaussian(1.0, 0.1, 100, 20)
    with pytest.raises(ac.SubsamplingError, match="number of records that is known"):
        ac.PoissonSubsampled(event, 0.5)
    with pytest.raises(ac.ParameterError, match="no proven price for a group"):
        ac.Group(event, 2)


@pytest.mark.parametrize(
    "take",
    [
        lambda event: ac.PoissonSubsampled(event, 0.5),
        lambda event: ac.HeterogeneousPoisson(event, (0.5, 0.1)),
        lambda event: ac.RandomAllocation(event, 5),
        lambda event: ac.Group(event, 2),
    ],
)
@pytest.mark.parametrize(("rate", "population", "largest"), [(1.0, 100, 10), (0.01, 10**5, 64), (0.1, 10**6, 1000)])
def test_a_batch_that_is_surely_full_is_sampled_no_further(take, rate, population, largest):
    """Of half of the records it keeps more: the individual is in it as often as before, not half as often."""
    event = ac.TruncatedPoissonGaussian(1.0, rate, population, largest)
    with pytest.raises((ac.SubsamplingError, ac.ParameterError), match="accepted"):
        take(event)


@pytest.mark.parametrize("times", [1, 20])
def test_a_batch_that_is_surely_full_of_opposite_vectors_reaches_the_price(times):
    """The individual takes another's place with probability 1/10, and moves the sum by twice the clipping norm."""
    price = ac.epsilon(times * ac.TruncatedPoissonGaussian(1.0, 1.0, 100, 10), 1e-5)
    data = ac.epsilon(times * ac.PoissonSubsampled(ac.Gaussian(0.5), 0.1), 1e-5)
    assert price.lower <= data.epsilon
    assert data.lower <= price.epsilon <= 1.01 * price.lower


def test_a_sample_of_what_is_never_cut_down_is_a_smaller_sample():
    whole = ac.TruncatedPoissonGaussian(1.0, 0.5, 100, 100)
    once = ac.PoissonSubsampled(ac.ClippedSum(1.0), 0.05)
    assert ac.epsilon(ac.PoissonSubsampled(whole, 0.1), 1e-5).epsilon == pytest.approx(ac.epsilon(once, 1e-5).epsilon)
