"""Shuffled reports: references, the bounds' order and limits, their definitions in high precision, and exact
enumeration of small shuffles over all neighbouring data."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant import shuffling
from accountant.events import shuffled, shuffled_prices
from accountant.events.blanket import blanket, clones, log_shortfall, log_shuffled_delta
from accountant.events.shuffled import grid_pair
from accountant.events.shuffled_rounds import log_round_delta, work_ahead
from accountant.patience import OPERATIONS_PER_SECOND, tally_work
from accountant.testing import check_event
from tests.cases import audit_after

METHODS = ("variation-ratio", "clones", "closed-form")


# --- references ------------------------------------------------------------------------------------------


def test_closed_form_references():
    assert ac.shuffled_epsilon(1.0, 60_000, 1e-5, "closed-form") == pytest.approx(0.08575397507814196, rel=1e-13)
    inverse = ac.local_epsilon_for(0.1, 60_000, 1e-5, "closed-form")
    assert inverse == pytest.approx(1.125033850669656, rel=1e-13)
    assert ac.shuffled_epsilon(inverse, 60_000, 1e-5, "closed-form") <= 0.1


@pytest.mark.parametrize(
    ("local", "n", "delta", "method", "published", "value", "least"),
    [
        # published values are upper bounds by coarser sums: ours are below them, and not by much
        (4.0, 10**6, 1e-8, "closed-form", 0.227131, 0.2263684, 0.98),
        (4.0, 10**6, 1e-8, "clones", 0.065279, 0.06419685, 0.98),
        (ac.Collision(4.0, 4, 225), 10**6, 1e-8, "variation-ratio", 0.031696, 0.0315371, 0.98),
        (1.0, 10**5, 1e-6, "clones", 0.015509, 0.01528207, 0.98),
        # of any randomizer more is known than the published pair says, and data reach 0.04465 and 0.01091
        (4.0, 10**6, 1e-8, "variation-ratio", 0.045296, 0.04468964, 0.04465 / 0.045296),
        (1.0, 10**5, 1e-6, "variation-ratio", 0.012431, 0.01092741, 0.01091 / 0.012431),
    ],
)
def test_numerical_references(local, n, delta, method, published, value, least):
    found = ac.shuffled_epsilon(local, n, delta, method)
    assert least * published < found < published
    assert found == pytest.approx(value, rel=3e-5)


@pytest.mark.parametrize(
    ("local", "n", "delta", "published", "value"),
    [(4.0, 10**6, 1e-8, 0.045296, 0.04507297), (1.0, 10**5, 1e-6, 0.012431, 0.01242990)],
)
def test_numerical_references_of_the_general_pair(local, n, delta, published, value):
    assert 0.98 * published < value < published
    at = [log_shuffled_delta(blanket(local), n, epsilon) for epsilon in (value * (1 - 3e-5), value * (1 + 3e-5))]
    assert at[0] > math.log(delta) > at[1]


# --- the definitions, in high precision --------------------------------------------------------------------


def exact_delta(epsilon0, epsilon, n, *, changed, others):
    """H of the multiset of reports: one is distributed as `changed` (P, Q), n - 1 as `others`; the rest are known.

    Summed over all counts of +, - and 0, with the probability that exactly so many are seen.
    """
    p, q = ([mpmath.mpf(x) for x in distribution] for distribution in changed)
    kinds, u = len(others), mpmath.e**epsilon
    left = 1 - sum(others)
    total = mpmath.mpf(0)
    for seen in itertools.product(range(n + 1), repeat=kinds):
        if not 1 <= sum(seen) <= n:
            continue
        masses = [mpmath.mpf(0), mpmath.mpf(0)]
        for kind in range(kinds):
            if seen[kind]:
                rest = [count - (i == kind) for i, count in enumerate(seen)]
                ways = mpmath.factorial(n - 1) / mpmath.factorial(n - 1 - sum(rest))
                for count in rest:
                    ways /= mpmath.factorial(count)
                mass = ways * left ** (n - 1 - sum(rest))
                for count, share in zip(rest, others, strict=True):
                    mass *= share**count
                masses[0] += mass * p[kind]
                masses[1] += mass * q[kind]
        total += max(masses[0] - u * masses[1], mpmath.mpf(0))
    return total


@pytest.mark.each_run(11)
@pytest.mark.parametrize("method", ["clones", "variation-ratio"])
@pytest.mark.parametrize("epsilon0", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_two_valued_pairs_match_their_definition(method, epsilon0, n):
    with mpmath.workdps(40):
        p = mpmath.e**epsilon0
        changed = [(p / (p + 1), 1 / (p + 1)), (1 / (p + 1), p / (p + 1))]
        others = [1 / (2 * p)] * 2 if method == "clones" else [1 / (p + 1)] * 2
        for share in (0.0, 0.1, 0.5, 0.999):
            exact = exact_delta(epsilon0, share * epsilon0, n, changed=changed, others=others)
            pair = clones(epsilon0) if method == "clones" else blanket(epsilon0)
            found = math.exp(log_shuffled_delta(pair, n, share * epsilon0))
            assert 1 - 1e-12 < found / exact < 1 + 2e-8


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("n", "epsilon"), audit_after(3, [(500, 1.2), (500, 1.9), (2000, 1.0), (2000, 0.6)]))
def test_clones_match_their_definition_where_delta_is_tiny(n, epsilon):
    """Feldman et al. 2021: (A + D, C - A + 1 - D) with C ~ Bin(n-1, e^-eps0), A ~ Bin(C, 1/2), D ~ Bern(p/(p+1))."""
    with mpmath.workdps(40):
        p, u = mpmath.e**2, mpmath.e**epsilon
        told = p / (p + 1)
        total, log2 = mpmath.mpf(0), mpmath.log(2)
        for c in range(0, min(n, int(n / 2))):
            weight = mpmath.exp(
                mpmath.loggamma(n)
                - mpmath.loggamma(c + 1)
                - mpmath.loggamma(n - c)
                - 2 * c
                + (n - 1 - c) * mpmath.log1p(-1 / p)
            )
            if weight < 1e-45:
                continue
            inner, binomial = mpmath.mpf(0), mpmath.exp(-c * log2)
            for b in range(c + 2):  # b of c + 1 on the other side
                here = (c + 1 - b) * binomial  # in units of 1/(c+1): ways with D = 1
                there = b * binomial
                gain = told * here + (1 - told) * there - u * ((1 - told) * here + told * there)
                if gain <= 0:
                    break
                inner += gain / (c + 1)
                binomial *= mpmath.mpf(c + 1 - b) / (b + 1)
            total += weight * inner
    found = ac.shuffled_delta(2.0, n, epsilon, "clones")
    assert total < 1e-9
    assert 1 - 1e-12 < found / total < 1 + 2e-8


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    "local", [ac.Collision(1.5, 2, 9), ac.Collision(1.5, 3, 5), ac.RandomizedResponse(0.7, 3)], ids=str
)
def test_three_valued_pairs_match_their_definition(local):
    pair, n = blanket(local), 14
    p = math.exp(pair.epsilon)
    alpha = pair.scale * pair.r
    changed = [(p * alpha, alpha, 1 - (p + 1) * alpha), (alpha, p * alpha, 1 - (p + 1) * alpha)]
    assert pair.weight == pytest.approx(changed[0][2] / pair.neutral / p, rel=1e-9)
    assert pair.rest == pytest.approx(1 - 2 * pair.r - pair.neutral, rel=1e-9)
    for share in (0.0, 0.2, 0.6, 0.95):
        epsilon = share * pair.epsilon
        exact = exact_delta(pair.epsilon, epsilon, n, changed=changed, others=[pair.r, pair.r, pair.neutral])
        assert 1 - 1e-9 < math.exp(log_shuffled_delta(pair, n, epsilon)) / exact < 1 + 1e-7


@pytest.mark.parametrize(
    ("n", "p"), [(5, 0.5), (40, 0.5), (4000, 0.5), (10**6, 0.5), (3000, 0.01), (3000, 0.93), (10**10, 1e-6)]
)
def test_shortfall(n, p):
    mean, deviation = n * p, math.sqrt(n * p * (1 - p))
    for away in (0.0, 0.3, 1.0, 5.0, 12.0, 30.0, 45.0):
        x = mean - away * deviation + 0.25
        if x <= 0:
            continue
        with mpmath.workdps(40):
            j = math.ceil(x) - 1
            q = 1 - mpmath.mpf(p)
            mass = mpmath.binomial(n, j) * mpmath.mpf(p) ** j * q ** (n - j)
            exact = mpmath.mpf(0)
            for k in range(j, -1, -1):
                exact += (mpmath.mpf(x) - k) * mass
                mass *= k * q / ((n - k + 1) * mpmath.mpf(p))
                if mass < exact * 1e-25:
                    break
            exact = float(mpmath.log(exact))
        found = float(log_shortfall(np.array([float(n)]), p, 1 - p, np.array([x]))[0])
        # past the range of floats a geometric series bounds the tail
        assert -2e-9 < found - exact < (2e-9 if exact > -600 else 0.01)


# --- exact enumeration --------------------------------------------------------------------------------------


def k_ary(p, k):
    distributions = np.ones((k, k)) + (p - 1) * np.eye(k)
    return distributions / distributions.sum(axis=1, keepdims=True)


def bits(epsilon, m):
    told = [math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))]
    words = list(itertools.product((0, 1), repeat=m))
    return np.array([[math.prod(told[a ^ b] for a, b in zip(x, z, strict=True)) for z in words] for x in words])


def collision(epsilon, c, l):  # noqa: E741
    """Laws of all inputs, by the sets of 1 to c buckets that they hit."""
    omega, distributions = c * math.exp(epsilon) + l - c, []
    for m in range(1, c + 1):
        for hit in itertools.combinations(range(l), m):
            distribution = np.full(l, (omega - m * math.exp(epsilon)) / ((l - m) * omega))
            distribution[list(hit)] = math.exp(epsilon) / omega
            distributions.append(distribution)
    return np.array(distributions)


def with_report(distribution, report):
    """Law of the counts of outputs after one more report."""
    after = {}
    for seen, mass in distribution.items():
        for z, share in enumerate(report):
            now = (*seen[:z], seen[z] + 1, *seen[z + 1 :])
            after[now] = after.get(now, 0.0) + mass * share
    return after


def exact_worst(distributions, n, epsilons):
    """The largest delta of the shuffled reports over all neighbouring data sets of n users."""
    u, worst = np.exp(epsilons)[:, None], np.zeros(len(epsilons))
    for others in itertools.combinations_with_replacement(distributions, n - 1):
        counts = {(0,) * distributions.shape[1]: 1.0}
        for report in others:
            counts = with_report(counts, report)
        each = [np.array([mass for _, mass in sorted(with_report(counts, report).items())]) for report in distributions]
        for first, second in itertools.permutations(each, 2):
            worst = np.maximum(worst, np.maximum(first - u * second, 0.0).sum(axis=1))
    return worst


ENUMERATED = [
    # randomizer, distributions of its reports, users, and how far above the exact delta the bound may be
    (ac.RandomizedResponse(2.0), k_ary(math.exp(2.0), 2), 1, 1.0),
    (ac.RandomizedResponse(2.0), k_ary(math.exp(2.0), 2), 2, 1.0),
    (ac.RandomizedResponse(0.5), k_ary(math.exp(0.5), 2), 5, 1.25),
    (ac.RandomizedResponse(2.0), k_ary(math.exp(2.0), 2), 6, 1.15),
    (ac.Collision(2.0, 1, 3), k_ary(math.exp(2.0), 3), 4, 1.05),
    (ac.Collision(math.log(10), 1, 4), k_ary(10.0, 4), 2, 1.0),
    (ac.Collision(2.0, 1, 4), k_ary(math.exp(2.0), 4), 3, 1.05),
    (ac.RandomizedResponse(1.0, 2), bits(1.0, 2), 2, 1.7),
    (ac.RandomizedResponse(1.0, 2), bits(1.0, 2), 3, 2.8),
    (ac.Collision(2.0, 2, 3), collision(2.0, 2, 3), 2, 2.0),
    (ac.Collision(1.0, 2, 4), collision(1.0, 2, 4), 3, 1.1),
    (ac.Collision(2.0, 2, 5), collision(2.0, 2, 5), 2, 1.1),
    (ac.Collision(1.0, 3, 5), collision(1.0, 3, 5), 2, 1.35),
]


def delta_of_two(epsilon, bits, point):
    """Two users, of whom one changes all bits: the largest delta over what the other has, by definition."""
    with mpmath.workdps(60):
        odds = mpmath.exp(mpmath.mpf(epsilon))
        words = range(2**bits)

        def chance(report, word):
            return odds ** (bits - (report ^ word).bit_count()) / (1 + odds) ** bits

        def seen(word, other, pair):
            both = {pair, pair[::-1]}
            return mpmath.fsum(chance(a, word) * chance(b, other) for a, b in both)

        pairs = list(itertools.combinations_with_replacement(words, 2))
        u = mpmath.exp(mpmath.mpf(point))
        return max(
            mpmath.fsum(max(seen(0, other, pair) - u * seen(2**bits - 1, other, pair), 0) for pair in pairs)
            for other in words
        )


@pytest.mark.parametrize(("epsilon", "bits"), [(5.3, 3), (0.1, 3), (8.1, 2)])
@pytest.mark.parametrize("ulps", [-2, -1, 0, 1])
def test_next_to_the_local_epsilon_nothing_is_rounded_down(epsilon, bits, ulps):
    """A product of epsilon and bits is rounded, and may be below the loss itself."""
    point = epsilon * bits
    for _ in range(abs(ulps)):
        point = math.nextafter(point, math.inf if ulps > 0 else 0.0)
    exact = delta_of_two(epsilon, bits, point)
    assert ac.shuffled_delta(ac.RandomizedResponse(epsilon, bits), 2, point) >= exact - mpmath.mpf(10) ** -50
    end = ac.shuffled_epsilon(ac.RandomizedResponse(epsilon, bits), 2, 0.0)
    assert delta_of_two(epsilon, bits, end) < 1e-50


@pytest.mark.each_run(7)
@pytest.mark.parametrize(("local", "distributions", "n", "room"), ENUMERATED, ids=lambda value: str(value)[:45])
def test_never_below_exact_enumeration(local, distributions, n, room):
    end = blanket(local).epsilon
    epsilons = np.linspace(0, 0.995, 24) * end
    exact = exact_worst(distributions, n, epsilons)
    own, general, cloned = (
        np.array([ac.shuffled_delta(what, n, epsilon, method) for epsilon in epsilons])
        for what, method in ((local, "variation-ratio"), (end, "variation-ratio"), (end, "clones"))
    )
    assert np.all(own >= exact * (1 - 1e-13))
    assert np.all(own[:20] <= exact[:20] * (room + 2e-8))
    assert np.all(general >= own * (1 - 1e-7))
    assert np.all(cloned >= general * (1 - 1e-7))
    assert np.all(ac.Shuffled(local, n).profile(epsilons).worst >= exact * (1 - 1e-13))


def test_all_others_are_not_a_crowd_to_hide_in():
    """A changed user who reports neither + nor - hides among equal reports only, not among all that are not + or -."""
    p, k, u = 10.0, 4, 8.0
    exact = exact_worst(k_ary(p, k), 2, [math.log(u)])[0]
    alpha = 1 / (p + k - 1)
    r, w = alpha, 1 - alpha * (p + 1)
    merged = alpha * r * (p - u) + max(p * alpha * (1 - 2 * r) + w * r - u * (alpha * (1 - 2 * r) + w * r), 0.0)
    assert merged < 0.7 * exact
    assert ac.shuffled_delta(ac.Collision(math.log(p), 1, k), 2, math.log(u)) == pytest.approx(exact, rel=2e-8)


def test_composed_rounds_are_above_exact_enumeration():
    """Two rounds, each with the data that is worst for one."""
    distributions, n, end = k_ary(math.exp(1.0), 2), 3, 1.0
    counts = with_report(with_report({(0, 0): 1.0}, distributions[1]), distributions[1])
    first, second = (
        np.array([mass for _, mass in sorted(with_report(counts, distribution).items())])
        for distribution in distributions
    )
    event = ac.Shuffled(ac.RandomizedResponse(end), n)
    for epsilon in (0.0, 0.3, 0.9, 1.5):
        exact = np.maximum(np.outer(second, second) - math.exp(epsilon) * np.outer(first, first), 0.0).sum()
        assert exact < ac.delta(2 * event, epsilon, method="tight").delta < 1.55 * exact


# --- order, monotonicity, limits ------------------------------------------------------------------------------

LOCALS = st.one_of(
    st.floats(0.01, 8.0),
    st.builds(ac.RandomizedResponse, st.floats(0.01, 2.0), st.integers(1, 5)),
    st.builds(
        lambda epsilon, c, more: ac.Collision(epsilon, c, c + more),
        st.floats(0.01, 5.0),
        st.integers(1, 6),
        st.integers(1, 60),
    ),
)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(LOCALS, st.integers(1, 10_000), st.floats(-14, -0.3))
def test_order_of_the_methods(local, n, exponent):
    delta = 10**exponent
    end = blanket(local).epsilon
    own, general, cloned = (
        ac.shuffled_epsilon(local, n, delta),
        ac.shuffled_epsilon(end, n, delta),
        ac.shuffled_epsilon(local, n, delta, "clones"),
    )
    slack = 1e-6 * end + 1e-12
    assert 0 <= own <= general + slack
    assert general <= cloned + slack
    assert max(own, general, cloned) <= end
    assert cloned == ac.shuffled_epsilon(end, n, delta, "clones")
    try:
        closed = ac.shuffled_epsilon(local, n, delta, "closed-form")
    except ac.ParameterError:
        return
    assert cloned <= closed + slack
    assert closed <= end


@settings(max_examples=15, deadline=None, derandomize=True)
@given(LOCALS, st.integers(1, 5000), st.floats(-12, -1), st.floats(1.0, 3.0), st.sampled_from(METHODS[:2]))
def test_monotone_in_users_and_delta(local, n, exponent, factor, method):
    # races of small crowds vary by some tenths of a percent with their times, and are searched less finely
    races = method == "variation-ratio" and work_ahead(local, n)[0] > 0
    fine, varies = (1e-5, 0.01) if races else (1e-7, 1e-5)
    base = ac.shuffled_epsilon(local, n, 10**exponent, method)
    assert ac.shuffled_epsilon(local, math.ceil(n * factor), 10**exponent, method) <= base * (1 + varies) + 1e-12
    assert ac.shuffled_epsilon(local, n, min(10**exponent * factor, 1.0), method) <= base * (1 + varies / 10) + 1e-12
    delta = ac.shuffled_delta(local, n, base, method)
    assert delta <= 10**exponent
    if 0 < base < blanket(local).epsilon * (1 - 1e-6):
        assert ac.shuffled_delta(local, n, base * (1 - fine), method) > 10**exponent


@pytest.mark.audit
@pytest.mark.parametrize("method", METHODS)
def test_monotone_in_the_local_epsilon(method):
    values = [ac.shuffled_epsilon(float(end), 10**4, 1e-6, method) for end in np.linspace(0.0, 3.0, 31)]
    assert values[0] == 0
    assert np.all(np.diff(values) > 0)


@pytest.mark.parametrize(
    "local", [2.0, ac.RandomizedResponse(0.5, 4), ac.Collision(2.0, 2, 3), ac.Collision(2.0, 3, 20)], ids=str
)
@pytest.mark.parametrize("method", METHODS[:2])
def test_limits(local, method):
    for delta in (1e-3, 1e-9, 0.0):  # alone there is nothing to hide among: log(p - delta/alpha), the local profile
        alone = ac.shuffled_epsilon(local, 1, delta, method)
        assert 2.0 - 30 * delta - 1e-9 <= alone <= 2.0
    assert ac.shuffled_epsilon(local, 1000, 0.0, method) == 2.0
    assert ac.shuffled_epsilon(local, 1000, 1.0, method) == 0.0
    assert ac.shuffled_epsilon(local, 1000, 0.9, method) == 0.0
    assert ac.shuffled_delta(local, 1000, 2.0, method) == 0.0
    assert 0 < ac.shuffled_delta(local, 1000, 1.9, method) < 1e-30


@pytest.mark.parametrize("method", METHODS[:2])
def test_no_local_epsilon_costs_nothing(method):
    for local in (0.0, ac.RandomizedResponse(0.0, 3), ac.Collision(0.0, 2, 5), ac.PureDP(0.0)):
        assert ac.shuffled_epsilon(local, 100, 1e-9, method) == 0.0
        assert ac.shuffled_epsilon(local, 100, 0.0, method) == 0.0
        assert ac.shuffled_delta(local, 100, 0.0, method) == 0.0


def test_huge_inputs():
    assert 3.6e-5 < ac.shuffled_epsilon(4.0, 10**9, 1e-8) / math.sqrt(10**3) < 3.8e-5
    # hardly ever one of 1e9 users hides a report that is e^50 times likelier under one input
    for local in (50.0, ac.Collision(50.0, 4, 10**10), ac.RandomizedResponse(12.5, 4)):
        assert ac.shuffled_epsilon(local, 10**9, 1e-8) == pytest.approx(50.0, abs=2e-8)
    for local in (501.0, 1e6, ac.RandomizedResponse(1e6, 10**12)):
        assert ac.shuffled_epsilon(local, 10**12, 1e-3) >= 501.0
        assert ac.shuffled_delta(local, 10, 3.0) == 1.0
    assert ac.shuffled_epsilon(1e-9, 1000, 1e-12) < 1e-10
    assert 0 < ac.shuffled_delta(1.0, 10**6, 0.9) < 1e-300


def test_closed_form_beyond_its_condition():
    limit = math.log(60_000 / (16 * math.log(2 / 1e-5)))
    assert 0 < ac.shuffled_epsilon(limit, 60_000, 1e-5, "closed-form") < limit
    with pytest.raises(ac.ParameterError, match=r"local = 5.7275.*accepted: local <= 5.7275\d*, or a larger n; or"):
        ac.shuffled_epsilon(limit + 1e-6, 60_000, 1e-5, "closed-form")
    with pytest.raises(ac.ParameterError, match=r"local <= log\(n / .*; accepted: a larger n; or method"):
        ac.shuffled_epsilon(0.1, 100, 1e-5, "closed-form")
    with pytest.raises(ac.ParameterError, match="a larger n"):
        ac.local_epsilon_for(0.1, 100, 1e-5, "closed-form")
    with pytest.raises(ac.ParameterError, match=r"closed form.*accepted: delta above 0; or method"):
        ac.shuffled_epsilon(0.1, 10**6, 0.0, "closed-form")
    # for few users it is above the local epsilon, which holds anyway
    assert ac.shuffled_epsilon(0.1, 15, 0.9, "closed-form") == 0.1
    assert ac.local_epsilon_for(100.0, 60_000, 1e-5, "closed-form") == pytest.approx(limit, rel=1e-15)


def test_closed_form_solved_for_delta():
    delta = ac.shuffled_delta(1.0, 60_000, 0.08575397507814196, "closed-form")
    assert delta == pytest.approx(1e-5, rel=1e-9)
    assert ac.shuffled_epsilon(1.0, 60_000, delta, "closed-form") <= 0.08575397507814196
    assert ac.shuffled_delta(1.0, 60_000, 1e-6, "closed-form") == 1.0
    assert ac.shuffled_delta(1.0, 60_000, 1.0, "closed-form") == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_inverse(method):
    found = ac.local_epsilon_for(0.1, 60_000, 1e-6, method)
    assert ac.shuffled_epsilon(found, 60_000, 1e-6, method) <= 0.1
    assert ac.shuffled_epsilon(found * (1 + 1e-6), 60_000, 1e-6, method) > 0.1


def test_inverse_at_its_ends():
    assert ac.local_epsilon_for(1.0, 1, 1e-9) == pytest.approx(1.0, rel=1e-8)
    assert ac.local_epsilon_for(500.0, 10, 1e-9) == 500.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 10, 1e-5), "local = -1"),
        (("one", 10, 1e-5), "local = 'one'"),
        ((ac.Gaussian(1.0), 10, 1e-5), r"local = Gaussian.*accepted: an epsilon, RandomizedResponse"),
        ((ac.KaryRandomizedResponse(1.0, 5), 10, 1e-5), r"Collision \(of 1 nonzero: k-ary randomized response\)"),
        ((1.0, 0, 1e-5), "n = 0"),
        ((1.0, 1.5, 1e-5), "n = 1.5"),
        ((1.0, 10, 1.5), "delta = 1.5"),
        ((1.0, 10, math.nan), "delta = nan"),
        ((1.0, 10, 1e-5, "blanket"), "method = 'blanket'; accepted: closed-form, clones, variation-ratio"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ac.ParameterError, match=message):
        ac.shuffled_epsilon(*arguments)


@pytest.mark.parametrize("ask", [ac.shuffled_epsilon, ac.shuffled_delta])
def test_patience_holds_both_ways(ask):
    local, point = ac.RandomizedResponse(4.0 / 64, 64), 0.25
    expected = ask(local, 300, point)
    for _ in range(2):  # what is kept does not change what is refused
        with pytest.raises(ac.OutOfPatience, match=r"shuffled .* patience = 0\.001; accepted: patience = ") as refusal:
            ask(local, 300, point, patience=1e-3)
        assert refusal.value.seconds > 1e-3
    with tally_work() as work:
        assert ask(local, 300, point) == expected
    enough = 1.001 * work[0] / OPERATIONS_PER_SECOND
    assert ask(local, 300, point, patience=30 * enough) == expected
    if ask is ac.shuffled_delta:
        assert ask(local, 300, point, patience=enough) == expected
    for method in METHODS:
        with pytest.raises(ac.ParameterError, match=r"patience = 0.* accepted: \(0, inf\]"):
            ask(1.0, 60_000, 0.2, method, patience=0.0)


@pytest.mark.audit
def test_a_local_epsilon_is_searched_within_its_patience(monkeypatch):
    """Each value was priced by a search of its own: 5 s for 10^12 users, whatever the patience."""
    with tally_work() as work:
        found = ac.local_epsilon_for(0.01, 10**12, 1e-6)
    assert ac.shuffled_epsilon(found, 10**12, 1e-6) <= 0.01 < ac.shuffled_epsilon(found * (1 + 1e-7), 10**12, 1e-6)
    with tally_work() as one:
        ac.shuffled_epsilon(found, 10**12, 1e-6)
    assert 0.0 < work[0] < 2 * one[0]
    with pytest.raises(
        ac.OutOfPatience, match=r"price \d+ of a calibration .* patience = 1e-05; accepted: patience ="
    ) as e:
        ac.local_epsilon_for(0.01, 10**12, 1e-6, patience=1e-5)
    assert ac.local_epsilon_for(0.01, 10**12, 1e-6, patience=e.value.seconds + work[0] / OPERATIONS_PER_SECOND) == found
    with pytest.raises(ac.ParameterError, match=r"patience = -1.* accepted: \(0, inf\]"):
        ac.local_epsilon_for(0.01, 10**12, 1e-6, patience=-1.0)
    monkeypatch.setattr(shuffling, "solve", lambda *_: pytest.fail("work that is refused was begun"))
    with pytest.raises(ac.OutOfPatience):
        ac.local_epsilon_for(0.01, 10**12, 1e-6, patience=1e-9)


def test_a_delta_is_at_most_one():
    assert ac.shuffled_delta(100.0, 10**12, 0.5) == 1.0


# --- the event ------------------------------------------------------------------------------------------------

EVENTS = [
    ac.Shuffled(4.0, 1000),
    ac.Shuffled(1.0, 1),
    ac.Shuffled(0.0, 10),
    ac.Shuffled(1e-6, 10**6),
    ac.Shuffled(100.0, 10**12),
    ac.Shuffled(ac.Collision(1.0, 4, 13), 1000),
    ac.Shuffled(ac.Collision(2.0, 3, 4), 50),
    ac.Shuffled(ac.RandomizedResponse(0.5, 4), 100),
]


@pytest.mark.each_run(2)
@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_event_keeps_every_law(event):
    check_event(event, max_examples=10)


@pytest.mark.each_run(5)
@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_grid_is_above_the_pair_and_near_it(event):
    pair = blanket(event.local)
    losses, log_masses = grid_pair(event.local, event.n)
    assert np.exp(log_masses).sum() == pytest.approx(1.0, abs=1e-8)
    assert np.exp(log_masses + losses).sum() == pytest.approx(1.0, abs=1e-8)
    points = np.concatenate([[0.0], np.geomspace(1e-4, 0.99, 40)]) * pair.epsilon
    if pair.epsilon == 0.0:
        assert np.all(event._log_profile(points)[0] == -math.inf)
        return
    found = event._log_profile(points)[0]
    exact = np.array([log_round_delta(event.local, event.n, point) for point in points.tolist()])
    # the smaller of two bounds is not convex, and what it bounds is
    assert np.all(found >= exact - (0.05 if isinstance(event.local, ac.RandomizedResponse) else 1e-11))
    near = exact > -20
    # races are run at some of the points only
    assert np.all((found - exact)[near] < (0.06 if isinstance(event.local, ac.RandomizedResponse) else 0.02))


@pytest.mark.audit
def test_one_round_and_many():
    event = ac.Shuffled(ac.Collision(4.0, 4, 225), 10**6)
    alone = ac.shuffled_epsilon(event.local, event.n, 1e-8)
    assert alone <= ac.epsilon(event, 1e-8, method="tight").epsilon < 1.0005 * alone
    many = ac.epsilon(100 * event, 1e-8, method="tight")
    # nearly Gaussian: the root of the number of rounds, not the number
    assert 10 * alone < many.epsilon < 12 * alone
    assert many.epsilon < ac.epsilon(100 * event, 1e-8, method="renyi").epsilon
    assert many.adjacency is ac.Adjacency.REPLACE


def test_event_refuses_what_is_out_of_range():
    with pytest.raises(ac.ParameterError, match="is 501-DP; accepted: at most 500"):
        ac.Shuffled(501.0, 10)
    with pytest.raises(ac.ParameterError, match="n = 0"):
        ac.Shuffled(1.0, 0)
    with pytest.raises(ac.SubsamplingError, match="replace"):
        ac.PoissonSubsampled(ac.Shuffled(1.0, 10), 0.5)
    assert ac.Shuffled(1, 10) == ac.Shuffled(1.0, 10)


def test_clones_are_fewer():
    assert clones(3.0).r < blanket(3.0).r


def test_weights_that_cancel_far_in_the_tail_are_passed_over():
    """The price lies between those of its neighbours, and nothing is warned of."""
    few, price, many = (
        ac.epsilon(1 * ac.Shuffled(ac.Collision(4.0, 1, buckets), 1000), 1e-6, method="auto").epsilon
        for buckets in (99, 100, 101)
    )
    assert many < price < few


@pytest.mark.audit
def test_an_epsilon_counts_slots_beside_races():
    """A search by races computes slots at every value, too: both are counted before it starts."""
    local, users = ac.RandomizedResponse(0.5, 8), 328
    once, each = work_ahead(local, users)
    with tally_work() as slots:
        log_round_delta(local, users, 0.0, race=False)
    with tally_work() as told:
        ac.shuffled_epsilon(local, users, 1e-6)
    assert min(once, each, slots[0]) > 0.0
    assert told[0] >= once + 20 * (each + slots[0])


@pytest.mark.parametrize("event", [ac.RandomizedResponse(2.0, bits=2), ac.RandomizedResponse(1.0)], ids=str)
def test_nothing_is_computed_twice_at_epsilon_zero(monkeypatch, event):
    """A race there takes as long as at any other."""
    asked = []

    def recorded(local, users, epsilon, race=True, **options):
        asked.append((epsilon, race, options.get("whole", True)))
        return log_round_delta(local, users, epsilon, race, **options)

    monkeypatch.setattr(shuffled_prices, "log_round_delta", recorded)
    assert ac.shuffled_epsilon(event, 164, 1e-6) > 0.0
    assert len(asked) == len(set(asked)) > 5


@pytest.mark.parametrize(
    "local",
    [1.0, ac.RandomizedResponse(0.5), ac.RandomizedResponse(1.0, 2, length=2), ac.Collision(1.0, 2, 8)],
    ids=str,
)
def test_a_round_by_itself_needs_no_grid(monkeypatch, local):
    """Its price is that of all points by themselves, and no more than that of the grid, which holds as well."""
    event, epsilon = ac.Shuffled(local, 40), 0.4
    composed = ac.epsilon(event + ac.Gaussian(1e9, adjacency="replace"), 1e-3, method="tight")
    monkeypatch.setattr(shuffled, "pair_of", lambda *_: pytest.fail("a grid was made"))
    found = ac.epsilon(event, 1e-3, method="tight")
    assert found.epsilon == ac.shuffled_epsilon(local, 40, 1e-3) <= composed.epsilon
    assert 0.85 * found.epsilon < found.lower <= found.epsilon
    assert composed.lower <= found.epsilon
    delta = ac.delta(event, epsilon, method="tight")
    assert delta.delta == ac.shuffled_delta(local, 40, epsilon)
    assert 0.5 * delta.delta < delta.lower <= delta.delta
    assert ac.delta(event, 10.0, method="tight").delta == 0.0
