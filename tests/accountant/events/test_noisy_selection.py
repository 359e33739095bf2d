"""Noisy comparisons against the distributions of their outputs, integrated over the noise; k-ary answers; trees."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import expon, gumbel_r, laplace, norm

import accountant as ac
from accountant.events.comparisons import least_of_lines, log_sequences
from accountant.events.laplace_maxima import LaplaceMaximum
from accountant.numerics.exact import round_up
from tests.accountant.events.test_exponential_mechanism import flip
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE


def renyi(p, q, order):
    return math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)


# --- report-noisy-max ----------------------------------------------------------------------------------

NOISES = {"laplace": laplace, "gumbel": gumbel_r, "exponential": expon}


def winners(scores, noise, scale):
    """Probability that each score wins: an integral over the noise of the winner, cut where its density jumps."""
    chances = []
    nodes, weights = np.polynomial.legendre.leggauss(40)
    cuts = np.unique([*scores, *(scores + scale * np.linspace(-40, 60, 401)[:, None]).ravel()])
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    x = (middle[:, None] + half[:, None] * nodes).ravel()
    w = (half[:, None] * weights).ravel()
    for i, score in enumerate(scores):
        others = np.prod([noise.cdf((x - other) / scale) for j, other in enumerate(scores) if j != i], axis=0)
        chances.append(np.sum(w * noise.pdf((x - score) / scale) / scale * others))
    return np.array(chances)


@pytest.mark.each_run(2)
@pytest.mark.parametrize("name", list(NOISES))
@pytest.mark.parametrize("monotone", [False, True])
def test_no_noisy_maximum_costs_more(name, monotone):
    rng, scale = np.random.default_rng(5), 1.3
    event = ac.ReportNoisyMax(scale, name, monotone=monotone)
    largest = 0.0
    for _ in range(12):
        scores = rng.choice([0.0, 0.5, 2.0, 3.0], 3)
        moved = scores + (rng.choice([0.0, 1.0], 3) if monotone else rng.choice([-1.0, 0.0, 1.0], 3))
        p, q = (winners(each, NOISES[name], scale) for each in (scores, moved))
        assert np.sum(p) == pytest.approx(1, abs=1e-9)
        for first, second in ((p, q), (q, p)):
            largest = max(largest, renyi(first, second, 3.0) / float(event.renyi(3.0)))
            assert renyi(first, second, 3.0) <= float(event.renyi(3.0)) * (1 + 1e-9)
            assert np.maximum(first - math.exp(0.3) * second, 0).sum() <= float(event.profile(0.3).worst) + 1e-9
    assert largest > 0.05


def test_gumbel_noise_is_the_exponential_mechanism_and_exponential_noise_permute_and_flip():
    scores, scale = np.array([0.0, 0.7, 2.0]), 1.7
    weights = np.exp(scores / scale)
    assert winners(scores, gumbel_r, scale) == pytest.approx(weights / weights.sum(), abs=1e-9)
    assert winners(scores, expon, scale) == pytest.approx(
        [float(x) for x in flip(scores.tolist(), 1 / scale)], abs=1e-9
    )
    orders = [1.0, 4.0, math.inf]
    kinds = ac.ExponentialMechanism, ac.PermuteAndFlip, LaplaceMaximum
    for name, kind in zip(("gumbel", "exponential", "laplace"), kinds, strict=True):
        for monotone, factor in ((False, 2.0), (True, 1.0)):
            event = ac.ReportNoisyMax(scale, name, 3.0, monotone)
            one = kind(round_up(Fraction(factor * 3.0) / Fraction(scale)))
            assert event.renyi(orders).tolist() == one.renyi(orders).tolist()
            assert event.family is kind(1.0).family


@pytest.mark.each_run(1)
@pytest.mark.parametrize("name", audit_after(1, ["exponential", "laplace"]))
@pytest.mark.parametrize("monotone", [False, True])
def test_noisy_maxima_tell_no_more_than_laplace_noise(name, monotone):
    """Of every set of winners: its chances on two data sets, by the trade-off of two Laplace variables."""
    rng, scale = np.random.default_rng(7), 0.8
    apart = (1.0 if monotone else 2.0) / scale
    nearest = math.inf
    for trial in range(12):
        scores = rng.choice([0.0, 0.4, 1.0, 2.5], 5) if trial else np.array([1.0, 0.0, -30.0, -30.0, -30.0])
        moves = rng.choice([0.0, 1.0] if monotone else [-1.0, 0.0, 1.0], 5) if trial else np.array([0.0, 1.0, 0, 0, 0])
        moves = moves if trial or monotone else np.array([-1.0, 1.0, 0.0, 0.0, 0.0])
        p, q = (winners(each, NOISES[name], scale) for each in (scores, scores + moves))
        for size in (1, 2, 3, 4):
            for chosen in itertools.combinations(range(5), size):
                for one, other in ((p, q), (q, p)):
                    kept = min(max(one[list(chosen)].sum(), 1e-15), 1 - 1e-15)
                    least = laplace.cdf(laplace.ppf(kept) - apart)
                    nearest = min(nearest, other[list(chosen)].sum() / least)
                    assert other[list(chosen)].sum() >= least - 1e-9
    assert nearest < 2.0


# --- sparse vector -------------------------------------------------------------------------------------


def stops(queries, threshold, threshold_noise, query_scale, query_noise=laplace):
    """Probability that each query is the first above, and that none is, integrated over the threshold."""
    z = np.linspace(-45, 45, 36_001)
    density = threshold_noise.pdf(z) * (z[1] - z[0])
    density /= density.sum()
    below, found = np.ones_like(z), []
    for query in queries:
        above = query_noise.sf((threshold + z - query) / query_scale)
        found.append(np.sum(density * below * above))
        below = below * (1 - above)
    return np.array([*found, np.sum(density * below)])


@pytest.mark.each_run(1)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_sparse_vector_costs_more(kind, monotone):
    rng = np.random.default_rng(2)
    noise = (laplace if kind == "laplace" else norm)(scale=2.0)
    event = ac.SparseVector(2.0, 4.0, monotone=monotone, threshold_noise=kind)
    largest = 0.0
    for trial in range(25):
        queries = rng.choice([-3.0, 0.0, 2.0], 6) if trial else np.array([-1.0] * 5 + [30.0])
        signs = [1.0] if monotone else [-1.0, 0.0, 1.0]
        moved = queries + (rng.choice(signs, 6) if trial else np.array([1.0] * 5 + [-1.0]) * (1 if not monotone else 0))
        p, q = (stops(each, 0.5, noise, 4.0) for each in (queries, moved))
        for first, second in ((p, q), (q, p)):
            kept = first > 1e-250
            for order in (1.5, 4.0):
                cost = renyi(first[kept], second[kept], order)
                largest = max(largest, cost / float(event.renyi(order)))
                assert cost <= float(event.renyi(order)) * (1 + 1e-6)
    assert largest > 0.02


@pytest.mark.each_run(1)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_gaussian_sparse_vector_costs_more(kind, monotone):
    """Also the stream of equal queries that all move, and one that has a single "above" in it."""
    rng = np.random.default_rng(4)
    noise = (laplace if kind == "laplace" else norm)(scale=2.0)
    streams = [rng.choice([-3.0, 0.0, 2.0], 6) for _ in range(10)] + [np.full(6, -4.0), np.array([-1.0] * 5 + [9.0])]
    largest = 0.0
    for queries in streams:
        for signs in ([1.0],) if monotone else ([1.0], [-1.0, 1.0], [-1.0, 0.0, 1.0]):
            moved = queries + (rng.choice(signs, 6) if len(signs) > 1 else 1.0)
            p, q = (stops(each, 0.5, noise, 4.0, norm) for each in (queries, moved))
            event = ac.SparseVector(2.0, 4.0, 1, 1.0, monotone, kind, "gaussian", len(queries))
            for first, second in ((p, q), (q, p)):
                kept = (first > 1e-250) & (second > 1e-250)
                for order in (1.5, 4.0, 30.0):
                    cost = renyi(first[kept], second[kept], order)
                    largest = max(largest, cost / float(event.renyi(order)))
                    assert cost <= float(event.renyi(order)) * (1 + 1e-6)
    assert largest > 0.01


def test_gaussian_sparse_vector_prices():
    """Neither the first nor the second bound, but the smaller; what has no limit is refused."""
    few, many = (ac.SparseVector(3.0, 6.0, query_noise="gaussian", queries=k) for k in (1, 10_000))
    assert few.renyi([1.0, 8.0]) == pytest.approx([1 / 72, 8 / 72])
    order = 50.0
    known = 1 / 3 + order * 4 / 72 + math.log(10_001) / (order - 1)
    assert float(many.renyi(order)) == pytest.approx(known, rel=1e-6)
    assert float(many.renyi(1.0)) == pytest.approx(float(many.renyi(1.5)), rel=1e-12)
    assert math.isinf(many.renyi(math.inf))
    with pytest.raises(ac.ParameterError, match="accepted: the most queries that the stream has"):
        ac.SparseVector(3.0, 6.0, query_noise="gaussian")


KINDS = [("laplace", "gaussian"), ("gaussian", "laplace"), ("gaussian", "gaussian")]


@pytest.mark.audit
@pytest.mark.parametrize(("kind", "query_kind"), KINDS)
@pytest.mark.parametrize("monotone", [False, True])
def test_no_sparse_vector_has_a_larger_profile(kind, query_kind, monotone):
    """Hockey-stick divergences of enumerated streams, alone and of two streams, in both directions."""
    rng = np.random.default_rng(7)
    noise, query_noise = ((laplace if each == "laplace" else norm) for each in (kind, query_kind))
    streams = [rng.choice([-3.0, 0.0, 2.0], 6) for _ in range(6)] + [np.full(6, -4.0), np.array([-1.0] * 5 + [9.0])]
    epsilons = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
    event = ac.SparseVector(2.0, 4.0, 1, 1.0, monotone, kind, query_kind, 6)
    once = event.profile(epsilons).remove
    twice = np.array([ac.delta(2 * event, e, method="tight", tolerance=0.05).delta for e in epsilons])
    largest = 0.0
    for queries in streams:
        for signs in ([1.0],) if monotone else ([1.0], [-1.0, 1.0], [-1.0, 0.0, 1.0]):
            moved = queries + (rng.choice(signs, 6) if len(signs) > 1 else 1.0)
            p, q = (stops(each, 0.5, noise(scale=2.0), 4.0, query_noise) for each in (queries, moved))
            for first, second in ((p, q), (q, p)):
                for laws, bound in (((first, second), once), ([np.outer(a, a) for a in (first, second)], twice)):
                    delta = np.array([np.maximum(laws[0] - np.exp(e) * laws[1], 0).sum() for e in epsilons])
                    assert (delta <= bound + 1e-9).all()
                    largest = max(largest, float((delta / bound).max()))
    assert largest > 0.05


@mp.workdps(20)
def loss_of_a_stream(event, epsilon):
    """E (1 - e^(eps - L - M))_+ as an integral over M's law, of the profile of the threshold alone.

    M is the loss of the largest of all queries; with several answers "above" a multiple of the largest loss.
    """
    mu = mpf(event.sensitivity) / event.threshold_scale
    step = mpf(event.sensitivity) * (1 if event.monotone else 2) / event.query_scale

    def threshold(x):  # at any real epsilon
        if event.threshold_noise == "gaussian":
            return mp.ncdf(mu / 2 - x / mu) - mp.exp(x) * mp.ncdf(-mu / 2 - x / mu)
        if abs(x) < mu:
            return 1 - mp.exp((x - mu) / 2)
        return max(1 - mp.exp(x), mpf(0))

    if event.query_noise == "laplace":
        return threshold(epsilon - event.tops * step)

    def density(x):  # of the largest of `queries` standard normal values
        return event.queries * mp.npdf(x) * mp.ncdf(x) ** (event.queries - 1)

    if event.tops == 1:

        def loss(x):
            return mp.log(density(x)) - mp.log(density(x + step))

        kinks = [mp.findroot(lambda x, y=y: loss(x) - y, 3) for y in (epsilon - mu, epsilon + mu)]
        places = (
            sorted([*mp.linspace(-6, 14, 41), *kinks])
            if event.threshold_noise == "laplace"
            else mp.linspace(-6, 14, 41)
        )
        return mp.quad(lambda x: density(x) * threshold(epsilon - loss(x)), places)

    none = mp.ncdf(-step / 2) ** event.queries
    places = mp.linspace(-step / 2, 14, 29)
    kinks = [(epsilon + sign * mu) / (event.tops * step) - step / 2 for sign in (-1, 1)]
    places = sorted([*places, *(each for each in kinks if places[0] < each < places[-1])])
    rest = mp.quad(lambda x: density(x) * threshold(epsilon - event.tops * step * (x + step / 2)), places)
    return none * threshold(mpf(epsilon)) + rest


STREAMS = [
    ac.SparseVector(2.0, 4.0, 1, 1.0, False, "gaussian", "laplace"),
    ac.SparseVector(20.0, 40.0, 1, 1.0, False, "gaussian", "gaussian", 100),
    ac.SparseVector(5.0, 10.0, 1, 1.0, True, "laplace", "gaussian", 1000),
    ac.SparseVector(5.0, 10.0, 3, 1.0, True, "laplace", "gaussian", 1000),
    ac.SparseVector(500.0, 1.0, 1, 1e-3, False, "gaussian", "gaussian", 50),
]


@pytest.mark.audit
@pytest.mark.parametrize(
    "event", [*STREAMS[:1], *(pytest.param(each, marks=pytest.mark.audit) for each in STREAMS[1:])]
)
def test_profiles_of_streams_are_their_definition(event):
    for epsilon in (0.0, 0.7) if event.sensitivity == 1 else (0.0, 0.005):
        exact = loss_of_a_stream(event, epsilon)
        found = event.profile(epsilon)
        assert found.remove == found.add
        assert float(exact) <= float(found.remove) * (1 + 1e-12)
        assert float(found.remove) <= float(exact) * 1.02 + 1e-290
        tight = ac.delta(event, epsilon, method="tight", tolerance=1e-3)
        assert tight.lower < tight.delta
        assert tight.lower > 0.0 or event.sensitivity < 1 or tight.delta < 1e-12
        assert float(exact) <= tight.delta * (1 + 1e-12) or tight.delta < float(found.remove)  # Rényi, or several


@pytest.mark.audit
def test_many_streams_cost_less_than_their_curve():
    """The tight route composes the pairs, one for every answer "above"."""
    event = ac.SparseVector(200.0, 400.0, 1, 1.0, True, "gaussian", "gaussian", 100_000)
    assert (
        ac.epsilon(1000 * event, 1e-6, method="tight").epsilon
        < 0.2 * ac.epsilon(1000 * event, 1e-6, method="renyi").epsilon
    )
    many = ac.SparseVector(5.0, 10.0, 5, 1.0, True, "gaussian", "gaussian", 1000)
    found, renyi = (ac.epsilon(many, 1e-6, method=route).epsilon for route in ("tight", "renyi"))
    assert found < 0.85 * renyi
    mixed = ac.epsilon(event + ac.Gaussian(5.0), 1e-6, method="tight")
    assert mixed.lower >= ac.epsilon(ac.Gaussian(5.0), 1e-6, method="tight").lower * 0.99
    sampled = ac.PoissonSubsampled(event, 0.1)
    assert float(sampled.profile(0.01).remove) < float(event.profile(0.01).remove)
    with pytest.raises(ac.ProfileUnavailable, match="bounds from above only"):
        ac.epsilon(sampled, 1e-6, method="tight")


@pytest.mark.audit
def test_streams_at_the_ends_of_their_parameters():
    """Noise on the queries that says nothing leaves nothing, or with it infinitely many; losses beyond floats."""
    quiet = ac.SparseVector(2.0, 1e12, 1, 1.0, False, "gaussian", "gaussian", 10**6)
    assert float(quiet.profile(0.3).remove) < 1e-300
    endless = ac.SparseVector(2.0, 1e5, 1, 1.0, False, "gaussian", "gaussian", 10**12)
    assert float(endless.profile(0.3).remove) == pytest.approx(float(ac.GaussianDP(0.5).profile(0.3).remove), rel=1e-3)
    loud = ac.SparseVector(1e12, 4.0, 1, 1.0, True, "gaussian", "gaussian", 1)
    most = float(ac.GaussianDP(0.25).profile(0.3).remove)
    assert float(loud.profile(0.3).remove) < 1e-300
    many = float(ac.SparseVector(1e12, 4.0, 1, 1.0, True, "gaussian", "gaussian", 50).profile(0.3).remove)
    assert most < many < 0.5
    for event in (
        ac.SparseVector(1e-3, 1e-3, 1, 1.0, True, "gaussian", "gaussian", 10),
        ac.SparseVector(1e12, 1e-4, 1, 1.0, True, "gaussian", "laplace"),
        ac.SparseVector(1e-50, 1e-50, 10**9, 1.0, False, "gaussian", "gaussian", 10**12),
        ac.SparseVector(1e50, 1e50, 10**9, 1e-50, False, "gaussian", "gaussian", 10**12),
    ):
        delta = float(event.profile(1.0).remove)
        assert 0 <= delta <= 1
        assert ac.epsilon(event, 1e-6, method="auto").epsilon <= ac.epsilon(event, 1e-6).epsilon


def turn(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@pytest.mark.parametrize(
    "case", [(2.0, 0.1, 0.3, 5.0), (0.4, 0.1, 0.0, 9.0), (1.0, 0.2, 2.0, 0.5), (0.5, 0.6, 1.0, 1.0)]
)
def test_the_touching_line_is_the_convex_hull(case):
    """Of the smaller of two bounds on (a - 1) D_a, on a fine grid: no lower than the hull, and no higher."""
    every, slope, constant, extra = case
    orders = np.linspace(1.0, 80.0, 60_001)
    with np.errstate(divide="ignore"):
        both = np.minimum(every * orders * (orders - 1), (orders - 1) * (slope * orders + constant) + extra)
    hull = []
    for point in zip(orders, both, strict=True):
        while len(hull) > 1 and turn(*hull[-2:], point) <= 0:
            hull.pop()
        hull.append(point)
    found = (orders - 1) * least_of_lines(every, slope, constant, extra, orders)
    np.testing.assert_allclose(found[:50_000], np.interp(orders, *np.transpose(hull))[:50_000], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("queries", "tops"), [(5, 1), (40, 3), (300, 149), (10**6, 12), (7, 9)])
def test_sequences_of_answers_are_counted_from_above(queries, tops):
    exact = math.log(sum(math.comb(queries, j) for j in range(min(tops, queries) + 1)))
    assert exact <= log_sequences(queries, tops) <= exact * 1.5 + 0.2


def test_sparse_vector_prices():
    # Lyu, Su & Li 2017: half of epsilon 1 for the threshold, half for three tops
    assert float(ac.SparseVector(2.0, 12.0, tops=3).renyi(math.inf)) == pytest.approx(1.0)
    assert float(ac.SparseVector(2.0, 6.0, tops=3, monotone=True).renyi(math.inf)) == pytest.approx(1.0)
    gaussian = ac.SparseVector(5.0, 20.0, tops=2, sensitivity=2.0, threshold_noise="gaussian")
    assert gaussian.renyi([1.0, 6.0]) == pytest.approx([0.08 + 0.4, 0.48 + 0.4])
    # noise on the threshold that says nothing leaves the queries
    assert ac.SparseVector(1e12, 4.0).renyi([2.0]) == pytest.approx(ac.PureDP(0.5).renyi([2.0]), rel=1e-9)
    assert (
        ac.epsilon(ac.PoissonSubsampled(gaussian, 0.01), 1e-6, method="renyi").epsilon
        < ac.epsilon(gaussian, 1e-6, method="renyi").epsilon
    )


def test_zcdp_with_xi():
    event = ac.ZeroConcentratedDP(0.2, xi=0.5)
    assert event.renyi([1.0, 3.0]) == pytest.approx([0.7, 1.1])
    assert (10 * event).renyi(2.0) == pytest.approx(10 * 0.9)
    assert float(ac.ZeroConcentratedDP(0.0, xi=0.5).renyi(math.inf)) == 0.5
    assert ac.Group(event, 3).renyi(2.0) == pytest.approx(0.5 * 3 * (1 + 1 / 2 + 1 / 3) + 9 * 0.4)
    # improved conversion of a line: least over orders, found by ternary search in high precision
    with mp.workdps(30):

        def cost(a):
            return mpf("0.5") + mpf("0.2") * a + mp.log((a - 1) / a) - (mp.log(mpf("1e-6")) + mp.log(a)) / (a - 1)

        low, high = mpf("1.01"), mpf(100)
        for _ in range(200):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if cost(left) < cost(right) else (left, high)
        assert ac.epsilon(event, 1e-6, method="renyi").epsilon == pytest.approx(float(cost(low)), rel=1e-9)


# --- k-ary randomized response -------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "k"), [(1e-6, 3), (0.5, 2), (2.0, 10), (30.0, 1000)])
def test_kary_answers_are_sums_over_all_answers(epsilon, k):
    event = ac.KaryRandomizedResponse(epsilon, k)
    with mp.workdps(60):
        other = 1 / (mp.exp(mpf(epsilon)) + k - 1)
        p = [other] * k
        p[0] *= mp.exp(mpf(epsilon))
        q = [p[1], p[0], *p[2:]]
        for order in (1.001, 2.0, 50.0):
            exact = mp.log(mp.fsum(a ** mpf(order) * b ** (1 - mpf(order)) for a, b in zip(p, q, strict=True)))
            assert float(event.renyi(order)) == pytest.approx(float(exact / (mpf(order) - 1)), rel=1e-11)
        for share in (0.0, 0.4, 0.95):
            u = mp.exp(mpf(share * epsilon))
            exact = mp.fsum(max(a - u * b, mpf(0)) for a, b in zip(p, q, strict=True))
            assert float(event.profile(share * epsilon).worst) == pytest.approx(float(exact), rel=1e-10)
    assert float(event.renyi(math.inf)) == epsilon
    assert event.adjacency is REPLACE


def test_two_answers_are_a_bit_and_many_cost_less():
    orders = [1.0, 3.0, math.inf]
    bit = ac.RandomizedResponse(0.7, adjacency=REPLACE)
    assert ac.KaryRandomizedResponse(0.7, 2).renyi(orders) == pytest.approx(bit.renyi(orders), rel=1e-12)
    prices = [ac.epsilon(20 * ac.KaryRandomizedResponse(0.7, k), 1e-5, method="tight").epsilon for k in (2, 5, 50)]
    assert prices == sorted(prices, reverse=True)
    sampled = ac.PoissonSubsampled(ac.KaryRandomizedResponse(0.7, 5, "add-remove"), 0.1)
    assert ac.epsilon(20 * sampled, 1e-5, method="tight").epsilon < 0.3 * prices[1]
    with pytest.raises(ac.SubsamplingError):
        ac.PoissonSubsampled(ac.KaryRandomizedResponse(0.7, 5), 0.1)


# --- trees ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 100, 1023, 1024])
def test_levels_are_the_most_intervals_that_contain_a_step(steps):
    counts = np.zeros(steps, dtype=int)
    size = 1
    while size <= steps:
        for start in range(0, steps - size + 1, size):
            counts[start : start + size] += 1
        size *= 2
    tree = ac.TreeAggregation(5.0, steps)
    assert tree.levels == counts.max()
    run = tree.levels * ac.Gaussian(5.0)
    assert ac.epsilon(tree, 1e-6, method="tight").epsilon == pytest.approx(
        ac.epsilon(run, 1e-6, method="tight").epsilon, rel=1e-9
    )
    assert tree.renyi(7.0) == pytest.approx(run.renyi(7.0), rel=1e-12)
    numbers = ac.TreeAggregation(5.0, steps, "laplace", 2.0)
    assert numbers.renyi(7.0) == pytest.approx((tree.levels * ac.Laplace(5.0, 2.0)).renyi(7.0), rel=1e-12)


def test_a_group_of_records_in_a_tree():
    for noise in ("gaussian", "laplace"):
        group = ac.Group(ac.TreeAggregation(9.0, 30, noise), 3)
        assert group.renyi(4.0) == pytest.approx(ac.TreeAggregation(9.0, 30, noise, 3.0).renyi(4.0), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.ReportNoisyMax(1.0, "cauchy"), "noise = 'cauchy'; accepted: 'laplace', 'gumbel', 'exponential'"),
        (lambda: ac.ReportNoisyMax(1.0, monotone="yes"), "monotone = 'yes'; accepted: true or false"),
        (lambda: ac.ReportNoisyMax(1e-9), "epsilon = 2000000000"),
        (lambda: ac.SparseVector(1.0, 1.0, threshold_noise="gumbel"), "accepted: 'laplace', 'gaussian'"),
        (lambda: ac.SparseVector(1.0, 0.0), "query_scale = 0"),
        (lambda: ac.SparseVector(1.0, 1.0, tops=0), "tops = 0"),
        (lambda: ac.TreeAggregation(1.0, 0), "steps = 0"),
        (lambda: ac.TreeAggregation(1.0, 8, "gumbel"), "accepted: 'gaussian', 'laplace'"),
        (lambda: ac.KaryRandomizedResponse(1.0, 1), "categories = 1"),
        (lambda: ac.ZeroConcentratedDP(1.0, xi=-1.0), "xi = -1"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ac.ParameterError, match=message):
        make()


# --- limits, to the last bit -----------------------------------------------------------------------------


def exact_limit(event):
    """The pure-DP limit in rationals; of groups what it is of one times their size."""
    if isinstance(event, ac.Group):
        return event.size * exact_limit(event.event)
    if isinstance(event, ac.ReportNoisyMax):
        return (1 if event.monotone else 2) * Fraction(event.sensitivity) / Fraction(event.scale)
    if isinstance(event, ac.SparseVector):
        moves = (1 if event.monotone else 2) * event.tops
        scales = 1 / Fraction(event.threshold_scale) + moves / Fraction(event.query_scale)
        return Fraction(event.sensitivity) * scales
    return Fraction(event.sensitivity) / Fraction(event.scale)


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("kind", ["laplace", "gumbel", "exponential", "sparse vector", "noise"])
def test_limits_are_rounded_up(kind, size):
    """Parameters that are rounded to nearest would make half of them too small by a last bit."""
    rng = np.random.default_rng(size)
    for _ in range(40):
        scale, other, sensitivity = np.exp(rng.uniform(-1, 5, 3)).tolist()
        if kind == "sparse vector":
            event = ac.SparseVector(scale, other, int(rng.integers(1, 5)), sensitivity, bool(rng.integers(2)))
        elif kind == "noise":
            event = ac.Laplace(scale, sensitivity)
        else:
            event = ac.ReportNoisyMax(scale, kind, sensitivity, bool(rng.integers(2)))
        event = event if size == 1 else ac.Group(event, size)
        limit = exact_limit(event)
        found = ac.epsilon(event, 0.0).epsilon
        assert limit <= Fraction(found) <= limit * (1 + Fraction(1, 2**50))
        if Fraction(below := math.nextafter(found, 0.0)) < limit:
            assert ac.delta(event, below).delta > 0.0


def test_odometers_read_no_less_than_the_sum():
    event = ac.SparseVector(3.1, 7.7, 2, 0.3)
    odometer = ac.Odometer()
    odometer.spend(event)
    odometer.spend(ac.Laplace(9.7), 3)
    exact = exact_limit(event) + 3 * exact_limit(ac.Laplace(9.7))
    assert exact <= Fraction(odometer.guarantee(0.0).epsilon) <= exact * (1 + Fraction(1, 2**50))
