"""Noise shares: their sum is discrete Laplace noise, also with dropouts; draws are as priced."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from mechanisms.local_reports.flooding import LARGEST_SCALE, Flood, flood_for
from mechanisms.local_reports.noise_shares import NoiseShares, flood_shares, shares_for, shares_of_sums
from mechanisms.local_reports.randomizer import MalformedReport
from mechanisms.noise.exact_draws import DIGITS, DistributionTable, logarithmic_series
from mechanisms.noise.source import System, as_randomness
from tests.cases import audit_after

EMPTY = np.empty((0, 1), np.int64)


# --- the distribution of shares ------------------------------------------------------------------------


def negative_binomial(table, shape, rate, values):
    """Mass at 0, ..., values - 1 of the Poisson sum of tabulated sizes (Panjer 1981)."""
    cumulative = [mpmath.mpf((int(h) << 64) + int(low)) / 2**128 for h, low in zip(table.high, table.low, strict=True)]
    sizes = [mpmath.mpf(0)] + [b - a for a, b in zip([mpmath.mpf(0), *cumulative], cumulative, strict=False)]
    mean = -shape * mpmath.log1p(-mpmath.exp(-rate))
    mass = [mpmath.exp(-mean)]
    for k in range(1, values):
        mass.append(mean / k * sum(j * sizes[j] * mass[k - j] for j in range(1, min(k, len(sizes) - 1) + 1)))
    return mass


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("participants", [1, 7, 540_000])
def test_shares_of_all_participants_add_up_to_a_geometric_law(scale, participants):
    with localcontext() as context:
        context.prec = DIGITS
        table = DistributionTable.of(logarithmic_series((-Decimal(1 / scale)).exp()), 1)
    with mpmath.workdps(60):
        rate = mpmath.mpf(1 / scale)
        share = mpmath.mpf(1) / participants
        whole = negative_binomial(table, share * participants, rate, 60)
        for k, mass in enumerate(whole):
            assert abs(mass - -mpmath.expm1(-rate) * mpmath.exp(-rate * k)) < mpmath.mpf(10) ** -35
        # and one share is negative binomial of shape 1/n
        for k, mass in enumerate(negative_binomial(table, share, rate, 30)):
            exact = mpmath.binomial(k + share - 1, k) * (-mpmath.expm1(-rate)) ** share * mpmath.exp(-rate * k)
            assert abs(mass - exact) < mpmath.mpf(10) ** -35


def discrete_laplace(scale, values):
    return np.tanh(1 / (2 * scale)) * np.exp(-np.abs(values) / scale)


@pytest.mark.parametrize(("participants", "batches"), [(1, (1,)), (6, (1, 1, 1, 1, 1, 1)), (300, (100, 200))])
@pytest.mark.parametrize("scale", [0.4, 2.5])
def test_noise_drawn_is_discrete_laplace(participants, batches, scale):
    shares = NoiseShares(60_000, 1, participants, scale)
    source = as_randomness(participants)
    noise = np.zeros(60_000, np.int64)
    for records in batches:
        tally = shares.tally(np.zeros((records, 1), np.int64), source)
        noise += tally.plus - tally.minus
    noise = noise[1:]
    edge = int(scale * math.log(noise.size / 100)) + 1
    values = np.arange(-edge, edge + 1)
    expected = noise.size * discrete_laplace(scale, values)
    expected[[0, -1]] /= -math.expm1(-1 / scale)  # with the tails
    seen = np.bincount(np.clip(noise, -edge, edge) + edge, minlength=values.size)
    chi_squared = ((seen - expected) ** 2 / expected).sum()
    assert abs(chi_squared - (values.size - 1)) < 4.5 * math.sqrt(2 * (values.size - 1))
    assert noise.var() == pytest.approx(shares.count_variance(participants), rel=0.05)


def test_rates_are_those_of_the_price_and_never_above(monkeypatch):
    """1/scale as a float was above 1/scale for 10, and shapes had 28 digits: both less noise than priced."""
    drawn = []

    def note(self, rate, shape, source):
        drawn.append((Fraction(rate), Fraction(shape)))
        return np.zeros(self.domain, np.int64)

    monkeypatch.setattr(NoiseShares, "_noise", note)
    for scale in (10.0, 0.05, 3.0, 7.1, 2e4):
        drawn.clear()
        NoiseShares(4, 1, 3, scale, Flood(3.0, 0.7)).tally(np.zeros((1, 1), np.int64), System())
        for rate, shape in drawn[:2]:
            assert 0 <= 1 - rate * Fraction(scale) < Fraction(1, 10**58)
            assert abs(3 * shape - 1) < Fraction(1, 10**58)
        with mpmath.workdps(80):
            rate, shape = (mpmath.mpf(each.numerator) / each.denominator for each in drawn[2])
            assert abs(rate / -mpmath.log(mpmath.mpf(0.7)) - 1) < mpmath.mpf(10) ** -57
            assert abs(shape - 1) < mpmath.mpf(10) ** -57


def test_noise_of_neighbouring_counts_is_independent():
    shares = NoiseShares(200_000, 1, 1, 3.0, Flood(2.0, 0.8))
    plus, minus = shares.tally(np.zeros((1, 1), np.int64), System())
    noise = (plus - minus)[1:] / math.sqrt(shares.count_variance(1))
    assert abs((noise[1:] * noise[:-1]).mean()) < 7 / math.sqrt(noise.size)  # standard deviations: chance 3e-12
    assert abs((noise**2).mean() - 1) < 0.06


def test_who_drops_out_takes_a_share_along_and_who_comes_besides_brings_one():
    shares = NoiseShares(40_000, 1, 50, 4.0)
    whole = 1 / (2 * math.sinh(1 / 8) ** 2)
    for records, seed in ((25, 1), (50, 2), (100, 3)):
        tally = shares.tally(np.zeros((records, 1), np.int64), as_randomness(seed))
        assert shares.count_variance(records) == pytest.approx(whole * records / 50, rel=1e-12)
        assert np.var((tally.plus - tally.minus)[1:]) == pytest.approx(shares.count_variance(records), rel=0.07)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("flood", [None, Flood(8.0, 0.85)])
def test_counts_are_unbiased_and_messages_as_many_as_expected(flood):
    shares = NoiseShares(50, 2, 900, 3.0, flood)
    entries = np.stack([np.arange(1000) % 25, 30 + np.arange(1000) % 20], axis=1)
    true = np.bincount(entries.ravel(), minlength=50)
    source = as_randomness(7)
    runs = [shares.tally(entries, source) for _ in range(2000)]
    estimates = np.array([shares.estimate(run, 1000).counts for run in runs])
    variance = shares.estimate(runs[0], 1000).variance
    assert (np.abs(estimates.mean(axis=0) - true) < 4 * np.sqrt(variance / 2000)).all()
    assert estimates.var(axis=0, ddof=1).mean() == pytest.approx(variance.mean(), rel=0.02)
    sent = np.mean([run.plus.sum() + run.minus.sum() for run in runs])
    assert sent == pytest.approx(2 * 1000 + (shares.messages_per_record - 2) * 900 * 1000 / 900, rel=0.02)


# --- messages ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 6), st.floats(0.05, 30), st.booleans(), st.integers(0, 99))
def test_messages_are_what_was_counted_and_in_no_order_of_their_own(domain, records, scale, flooded, seed):
    shares = NoiseShares(domain, 1, 3, scale, Flood(3.0, 0.7) if flooded else None)
    entries = np.random.default_rng(seed).integers(0, domain, (records, 1))
    messages = shares.messages(entries, as_randomness(seed))
    tally = shares.tally(entries, as_randomness(seed))
    assert messages.dtype == np.uint32
    assert (np.diff(messages.astype(np.int64)) >= 0).all()
    counted = shares.count(np.random.default_rng(1).permutation(messages))
    assert np.array_equal(counted.plus, tally.plus)
    assert np.array_equal(counted.minus, tally.minus)
    assert messages.max(initial=0) < 2**shares.message_bits
    if not records:
        assert not messages.size


def test_malformed_messages():
    shares = NoiseShares(10, 1, 3, 2.0)
    with pytest.raises(MalformedReport, match=r"messages\[1\] = 20; accepted: 0..19"):
        shares.count(np.array([3, 20], np.uint32))
    for wrong in (np.array([3]), np.array([[3]], np.uint32), b"\0\0\0\0"):
        with pytest.raises(MalformedReport, match="accepted: uint32"):
            shares.count(wrong)
    with pytest.raises(ac.ParameterError, match=r"entries hold 10; accepted: 0\.\.9"):
        shares.tally(np.array([[10]]), as_randomness(0))
    assert shares.message_bits == 5


# --- what it costs -------------------------------------------------------------------------------------


def seen(shares, count, size):
    """P[U = u, V = v] for one count, u and v below `size`, with the noise of all participants, in double precision."""
    z = np.arange(size)
    geometric = -math.expm1(-1 / shares.scale) * np.exp(-z / shares.scale)
    r, x = shares.flood.shape, shares.flood.ratio
    steps = np.concatenate([[r * math.log1p(-x)], np.log(x * (z[1:] + r - 1) / z[1:])])
    pairs = np.exp(np.cumsum(steps))
    mass = np.zeros((size, size))
    for number, chance in enumerate(pairs):
        plus, minus = number + count, number
        if plus < size:
            mass[plus:, minus:] += chance * np.outer(geometric[: size - plus], geometric[: size - minus])
    return mass


@pytest.mark.parametrize(
    ("scale", "flood"),
    [(2.0, Flood(6.0, 0.6)), (0.5, Flood(3.0, 0.4)), (3.0, Flood(0.5, 0.7)), (1.0, Flood(20.0, 1e-9))],
)
def test_what_is_drawn_is_what_is_priced(scale, flood):
    """By enumeration: total variation of shuffled messages if a count changes, and the probability of no +1."""
    shares = NoiseShares(1, 1, 1, scale, flood)
    size = 150
    before, after = seen(shares, 0, size), seen(shares, 1, size)
    assert before.sum() == pytest.approx(1, abs=1e-9)
    infinite = before[0].sum()
    assert after[0].sum() == 0
    assert shares.event.delta_infinite == pytest.approx(infinite, rel=1e-9)
    for epsilon in (0.0, 0.6 / scale, 1 / scale, 1.5 / scale):
        distances = [
            np.maximum(one - math.exp(epsilon) * other, 0)[: size - 1, : size - 1].sum()
            for one, other in ((before, after), (after, before))
        ]
        # a rising count and a falling count are each part of what is priced
        assert shares.event.profile(epsilon).worst >= max(distances) - 1e-9
        assert (
            shares.event.profile(epsilon).worst
            <= sum(
                np.maximum(one - math.exp(epsilon / 2) * other, 0)[: size - 1, : size - 1].sum()
                * math.exp(power * epsilon)
                for one, other, power in ((before, after, 0.5), (after, before, 0.5))
            )
            + 1e-9
        )


def test_tallies_have_the_law_that_is_priced():
    """Losses of many tallies of an unchanged count are distributed as those of the pair."""
    shares = NoiseShares(200_000, 1, 1, 1.5, Flood(3.0, 0.5))
    tally = shares.tally(np.zeros((1, 1), np.int64), as_randomness(3))
    plus, minus = tally.plus[1:], tally.minus[1:]
    p = math.exp(-1 / 1.5)
    assert (minus < plus).mean() == pytest.approx(p / (1 + p), abs=4 * 0.5 / math.sqrt(plus.size))
    pairs = [0.5**3]
    for z in range(1, 12):
        pairs.append(pairs[-1] * 0.5 * (z + 2) / z)
    for a in range(8):
        mass = (1 - p) * p ** (2 * a) * sum(p ** (-2 * z) * pairs[z] for z in range(a + 1))
        share = ((plus == a) & (minus >= a)).mean()
        assert share == pytest.approx(mass, abs=4.5 * math.sqrt(mass / plus.size))


def test_without_flooding_shuffled_messages_would_tell():
    """No message says +1 with probability 1 - exp(-1/b), and only if the count is 0."""
    shares = NoiseShares(1, 1, 1, 4.0, Flood(1e-12, 0.5))
    before, after = seen(shares, 0, 200), seen(shares, 1, 200)
    assert before[0].sum() == pytest.approx(-math.expm1(-1 / 4), rel=1e-9)
    assert after[0].sum() == 0
    assert shares.event.delta_infinite == pytest.approx(-math.expm1(-1 / 4), rel=1e-9)
    with pytest.raises(ac.NoGuarantee):
        shares.guarantee(0.1)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("epsilon", "delta", "nonzeros", "rounds", "excess"),
    audit_after(3, [(1.0, 1e-6, 1, 1, 0.1), (0.5, 1e-8, 4, 1, 0.3), (4.0, 1e-5, 5, 3, 0.1), (1.0, 1e-6, 4, 1, 1.0)]),
)
def test_calibrated_shares_keep_their_target_and_do_not_waste_it(epsilon, delta, nonzeros, rounds, excess):
    sums = shares_of_sums(5000, nonzeros, 1000, epsilon, delta, rounds=rounds)
    shares = flood_shares(sums, epsilon, delta, rounds=rounds, excess=excess)
    guarantee = shares.guarantee(delta, rounds)
    assert guarantee.delta == delta
    assert 0.997 * epsilon < guarantee.epsilon <= epsilon
    assert guarantee.adjacency is ac.Adjacency.REPLACE
    assert ac.epsilon(rounds * shares.event, delta, method="tight").epsilon == guarantee.epsilon
    assert shares.scale == pytest.approx(sums.scale * (1 + excess))
    # a flood smaller by a tenth, with this decay, twice it, or half of it, is not enough
    for ratio in (shares.flood.ratio, shares.flood.ratio**2, shares.flood.ratio**0.5):
        fewer = Flood(0.9 * shares.flood.mean * (1 - ratio) / ratio, ratio)
        try:
            price = NoiseShares(5000, nonzeros, 1000, shares.scale, fewer).guarantee(delta, rounds).epsilon
        except ac.NoGuarantee:
            continue
        assert price > epsilon


@pytest.mark.audit
def test_less_noise_takes_more_messages():
    sums = shares_of_sums(5000, 1, 540_000, 1.0, 1e-6)
    found = [shares_for(5000, 1, 540_000, 1.0, 1e-6), flood_shares(sums, 1.0, 1e-6, excess=1.0)]
    messages = [shares.messages_per_record for shares in found]
    # at twice the scale for sums few pairs are needed
    assert messages[0] < 7.0
    assert messages[1] < 2.3


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", audit_after(2, [0.3, 300.0, 60.0]))
def test_extreme_targets_are_kept(epsilon):
    shares = shares_for(100, 1, 1000, epsilon, 1e-8)
    assert shares.guarantee(1e-8).epsilon <= epsilon
    assert shares.tally(np.zeros((10, 1), np.int64), as_randomness(0)).plus[0] >= 10


def test_no_flood_is_enough_where_the_noise_is_not():
    assert flood_for(1.9, 1, 1.0, 1e-6, method="auto", tolerance=1e-3) is None
    with pytest.raises(ac.CalibrationError):
        shares_for(10, 1, 10, 1e-5, 1e-6)


def test_sums_alone_need_no_flood():
    shares = shares_of_sums(5000, 4, 1000, 1.0, 1e-6)
    assert shares.flood is None
    assert shares.event == ac.DiscreteLaplace(shares.scale, 1, 8, adjacency=ac.Adjacency.REPLACE)
    assert 0.999 < shares.guarantee(1e-6).epsilon <= 1.0
    assert shares.guarantee(0.0).epsilon == pytest.approx(8 / shares.scale)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoiseShares(0, 1, 1, 1.0), "domain = 0; accepted"),
        (lambda: NoiseShares(5, 6, 1, 1.0), r"nonzeros = 6; accepted: an integer in \[1, 5\]"),
        (lambda: NoiseShares(5, 1, 0, 1.0), "participants = 0; accepted"),
        (lambda: NoiseShares(5, 1, 1, 0.01), r"scale = 0.01; accepted: \[0.05, 20000\]"),
        (lambda: NoiseShares(5, 1, 1, math.nan), "scale = nan; accepted"),
        (lambda: Flood(0.0, 0.5), r"shape = 0.0; accepted: \(0, 1e\+07\]"),
        (lambda: Flood(math.inf, 0.5), "shape = inf; accepted"),
        (lambda: Flood(1.0, 1.0), r"ratio = 1.0; accepted: \[1e-09"),
        (lambda: shares_for(10, 1, 10, 1.0, 0.0), r"delta = 0.0; accepted: \(0, 1\)"),
        (
            lambda: flood_shares(NoiseShares(10, 1, 10, 1.0), 1.0, 1e-6, excess=0.0),
            r"excess = 0.0; accepted: \[0.001, 100\]",
        ),
    ],
)
def test_parameters_out_of_range(make, message):
    with pytest.raises(ac.ParameterError, match=message):
        make()


def test_the_widest_noise_can_be_drawn():
    for shares in (NoiseShares(3, 1, 1, 0.05), NoiseShares(3, 1, 1, 2e3, Flood(2.0, 1e-9))):
        tally = shares.tally(np.zeros((1, 1), np.int64), as_randomness(0))
        assert (tally.plus >= 0).all()
        assert tally.plus.max() < 200 * shares.scale + 50
    assert LARGEST_SCALE * 89 < 2**21
