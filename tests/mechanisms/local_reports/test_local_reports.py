"""Local randomizers: unbiased counts, true variances, exact privacy of draws, malformed reports refused."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accountant as ac
from mechanisms.local_reports import (
    CollisionReports,
    MalformedReport,
    RandomizedBits,
    SeparationReports,
    local_randomizer,
)
from mechanisms.local_reports.collision import best_buckets
from mechanisms.local_reports.collision_hash import LARGEST_BUCKETS, buckets_of, hits_of, rows_of_hits
from mechanisms.noise.source import System, as_randomness
from tests.cases import audit_after

NAMES = ("randomized-response", "collision", "separation")
GROUPS, MEMBERS = 2000, 50
"""1e5 reports, in groups of the same inputs."""


def make(name, epsilon, shape=(10, 10), neighbours=1, label_ones=1):
    queries, classes = shape
    return local_randomizer(
        name, queries=queries, classes=classes, epsilon=epsilon, neighbours=neighbours, label_ones=label_ones
    )


def inputs(n, shape, neighbours, label_ones, seed=0):
    """Entries of n users, more of them with the first queries and classes."""
    rng = np.random.default_rng(seed)
    keys = [rng.random((n, size)) + 0.05 * np.arange(size) for size in shape]
    queries, classes = (
        np.argsort(key, axis=1)[:, :size] for key, size in zip(keys, (neighbours, label_ones), strict=True)
    )
    return (queries[:, :, None] * shape[1] + classes[:, None]).reshape(n, -1)


# --- estimates -----------------------------------------------------------------------------------------


@pytest.mark.each_run(2)
@pytest.mark.parametrize(("neighbours", "label_ones"), [(1, 1), (3, 2)])
@pytest.mark.parametrize("epsilon", audit_after(2, [0.4, 4.0, 1.0]))
@pytest.mark.parametrize("name", NAMES)
def test_counts_are_unbiased_and_vary_as_reported(name, epsilon, neighbours, label_ones):
    shape = (10, 10)
    randomizer = make(name, epsilon, shape, neighbours, label_ones)
    members = inputs(MEMBERS, shape, neighbours, label_ones)
    reports = randomizer.randomize_many(np.tile(members, (GROUPS, 1)), as_randomness(11))
    true = GROUPS * np.bincount(members.ravel(), minlength=randomizer.domain)

    estimate = randomizer.estimate(reports)
    assert (np.abs(estimate.counts - true) < 4 * np.sqrt(estimate.variance)).all()

    groups = [randomizer.estimate(group) for group in reports.reshape(GROUPS, MEMBERS, -1)]
    empirical = np.var([group.counts for group in groups], axis=0, ddof=1)
    assert empirical.mean() == pytest.approx(estimate.variance.mean() / GROUPS, rel=0.02)
    if name != "separation":
        assert np.mean([group.variance for group in groups]) == pytest.approx(empirical.mean(), rel=0.02)
    assert randomizer.mean_variance * MEMBERS == pytest.approx(empirical.mean(), rel=0.02)


@pytest.mark.each_run(2)
@pytest.mark.parametrize("name", NAMES)
def test_the_variance_depends_on_the_true_count_as_reported(name):
    """Entries that all users have, and that none has."""
    randomizer = make(name, 3.0, (4, 5))
    reports = randomizer.randomize_many(np.full((100_000, 1), 7), as_randomness(4))
    estimate = randomizer.estimate(reports)
    groups = np.array([randomizer.estimate(group).counts for group in reports.reshape(2000, 50, -1)])
    empirical = groups.var(axis=0, ddof=1) * 2000
    assert estimate.variance == pytest.approx(empirical, rel=6 * math.sqrt(2 / 2000))
    if name != "separation":
        true = np.where(np.arange(20) == 7, 100_000, 0)
        assert randomizer.count_variance(true, 100_000) == pytest.approx(estimate.variance, rel=0.02)


def test_known_values():
    assert RandomizedBits(10, 1, 0.4).flip_probability == pytest.approx(0.4501660026875221, rel=1e-15)
    assert RandomizedBits(10, 6, 2.4).flip_probability == pytest.approx(float(1 / (1 + mpmath.exp("0.2"))), rel=1e-15)
    collision = CollisionReports(100, 2, 1.0, 8)
    assert collision.hit_probability == pytest.approx(0.2376834432093358, rel=1e-15)
    assert collision.count_variance(0, 1) == pytest.approx(8.613860774065607, rel=1e-13)
    e = math.exp(0.25)
    assert RandomizedBits(10, 2, 1.0).mean_variance == pytest.approx(e / (e - 1) ** 2, rel=1e-13)


@given(
    st.floats(-9, math.log10(500)),
    st.integers(1, 256),
    st.integers(1, 10**9),
    st.sampled_from([None, 0, 1, 1000, 2**23]),
)
def test_probabilities_are_those_of_the_definition(log_epsilon, nonzeros, domain, more):
    epsilon, domain = 10**log_epsilon, max(domain, nonzeros)
    buckets = None if more is None else nonzeros + 1 + more
    randomizer = CollisionReports(domain, nonzeros, epsilon, buckets)
    l = randomizer.event.buckets  # noqa: E741
    with mpmath.workdps(60):
        e = mpmath.exp(mpmath.mpf(epsilon))
        p = e / (nonzeros * e + l - nonzeros)
        gap = p - mpmath.mpf(1) / l
    assert randomizer.hit_probability == pytest.approx(float(p), rel=1e-12, abs=1e-12)
    assert randomizer.hit_probability <= float(p)
    if gap > 1e-12:
        assert randomizer.responses.gap == pytest.approx(float(gap), rel=1e-6)
    assert randomizer.responses.gap > 0
    assert randomizer.event == ac.Collision(epsilon, nonzeros, l)


# --- how many buckets ----------------------------------------------------------------------------------


def total_variance(domain, c, epsilon, l):  # noqa: E741
    """Sum over the entries, from the definition."""
    with mpmath.workdps(40):
        e = mpmath.exp(mpmath.mpf(epsilon))
        p, q = e / (c * e + l - c), mpmath.mpf(1) / l
        return ((domain - c) * q * (1 - q) + c * p * (1 - p)) / (p - q) ** 2


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.0, 5.5])
@pytest.mark.parametrize(("domain", "c"), [(2, 1), (5, 5), (10, 3), (100, 1), (5000, 4), (10**9, 2)])
def test_no_other_number_of_buckets_has_a_smaller_variance(domain, c, epsilon):
    best = best_buckets(domain, c, epsilon)
    least = min(total_variance(domain, c, epsilon, l) for l in range(c + 1, 3 * best + 10))  # noqa: E741
    assert total_variance(domain, c, epsilon, best) <= least * (1 + mpmath.mpf(10) ** -12)


def test_number_of_buckets_at_its_limits():
    assert best_buckets(10**9, 1, 2.0) in (8, 9)  # 1 + e^2 where nearly all entries are zero
    assert best_buckets(10, 1, 500.0) == LARGEST_BUCKETS
    assert CollisionReports(10, 1, 500.0).report_bytes == 11
    assert CollisionReports(10, 1, 1.0, 256).report_bytes == 9
    assert CollisionReports(10, 1, 1.0, 257).report_bytes == 10


# --- exact privacy of the words drawn ------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.4, 1.0, 7.3, 40.0, 50.0, 500.0])
@pytest.mark.parametrize("c", [1, 2, 3])
def test_no_output_of_randomized_bits_is_likelier_than_its_event_allows(epsilon, c):
    randomizer = RandomizedBits(6, c, epsilon)
    flip = Fraction(randomizer._threshold, 2**64)
    vectors = [np.array(v) for v in product((0, 1), repeat=6) if sum(v) == c]
    worst = 0
    for output in product((0, 1), repeat=6):
        chances = [
            math.prod(flip if bit != out else 1 - flip for bit, out in zip(v, output, strict=True)) for v in vectors
        ]
        worst = max(worst, max(chances) / min(chances))
    with mpmath.workdps(60):
        spent = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
        assert spent <= 2 * c * mpmath.mpf(randomizer.event.epsilon)
        assert spent > 0
        if epsilon <= 40:
            assert spent == pytest.approx(epsilon, rel=1e-9, abs=1e-18)
    assert float(randomizer.event.renyi(math.inf)) == pytest.approx(epsilon, rel=1e-15)


def words_of(randomizer, hit):
    """How many of the 2^64 words choose each bucket, if the input hits these buckets."""
    l, share = randomizer.event.buckets, randomizer._share  # noqa: E741
    distinct = len(set(hit))
    each, extra = divmod(2**64 - distinct * share, l - distinct)
    others = iter([each + 1] * extra + [each] * (l - distinct - extra))
    return [share if bucket in hit else next(others) for bucket in range(l)]


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.4, 1.0, 7.3, 44.0, 500.0])
@pytest.mark.parametrize(("c", "buckets"), [(1, 2), (1, 5), (2, 3), (2, 5), (3, 4), (3, 5)])
def test_no_bucket_is_likelier_than_epsilon_allows(epsilon, c, buckets):
    randomizer = CollisionReports(6, c, epsilon, buckets)
    tables = [words_of(randomizer, hit) for hit in product(range(buckets), repeat=c)]
    assert all(sum(table) == 2**64 for table in tables)
    worst = max(Fraction(max(column), min(column)) for column in zip(*tables, strict=True))
    with mpmath.workdps(60):
        spent = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
        assert 0 < spent <= mpmath.mpf(epsilon)
        if epsilon <= 30:
            assert spent == pytest.approx(epsilon, rel=1e-8)
    assert float(randomizer.event.renyi(math.inf)) == pytest.approx(epsilon, rel=1e-15)


@pytest.mark.parametrize("hit", [[4], [0], [2, 2], [1, 4], [3, 0, 3], [4, 4, 4], [0, 1, 2]])
def test_words_are_given_to_buckets_as_defined(hit):
    """The words at both ends of every run of words, and many at random."""
    randomizer = CollisionReports(9, len(hit), 0.7, 5)
    share, m = randomizer._share, len(set(hit))
    ends = [i * share + j for i in range(m + 1) for j in (-1, 0, 1, 2, 3)] + [2**64 - 1]
    words = [w for w in ends if w >= 0] + np.random.default_rng(0).integers(0, 2**64, 40_000, dtype=np.uint64).tolist()
    drawn = randomizer._draw(np.tile(hit, (len(words), 1)), np.array(words, dtype=np.uint64))
    inside, outside = sorted(set(hit)), sorted(set(range(5)) - set(hit))
    for word, bucket in zip(words, drawn.tolist(), strict=True):
        expected = inside[word // share] if word < m * share else outside[(word - m * share) % len(outside)]
        assert bucket == expected
    exact = np.array(words_of(randomizer, hit), dtype=float) / 2**64
    seen = np.bincount(drawn[-40_000:], minlength=5)
    assert (np.abs(seen - 40_000 * exact) < 5 * np.sqrt(40_000 * exact * (1 - exact))).all()


def test_separation_spends_what_it_promises():
    randomizer = make("separation", 2.0, (8, 5), 3, 2)
    assert float(randomizer.event.renyi(math.inf)) == pytest.approx(2.0, rel=1e-15)
    assert randomizer.event.releases == 2
    assert {event.nonzeros for event in randomizer.event.entries} == {3, 2}


# --- the hash ------------------------------------------------------------------------------------------


def splitmix(seed, outputs):
    """SplitMix64 in integers of any size."""
    state, words = seed, []
    for _ in range(outputs):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        words.append(z ^ z >> 31)
    return words


def test_splitmix_is_the_published_one():
    assert splitmix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("buckets", [2, 7, 1000, 2**24 - 1, LARGEST_BUCKETS])
def test_hash_is_its_definition_on_both_sides(buckets):
    seeds = [0, 1, 1234567, 2**64 - 1]
    expected = np.array([[word * buckets >> 64 for word in splitmix(seed, 30)] for seed in seeds])
    entries = np.tile(np.arange(30), (len(seeds), 1))
    words = np.array(seeds, dtype=np.uint64)
    assert np.array_equal(buckets_of(words, entries, buckets), expected)
    for reported in (expected[:, 4], np.zeros(4, np.int64), np.full(4, buckets - 1)):
        falls = expected == reported[:, None]
        assert np.array_equal(rows_of_hits(words, reported, buckets, 30), falls)
        assert np.array_equal(hits_of(words, reported, buckets, 30), falls.sum(axis=0))


@pytest.mark.parametrize("buckets", [2, 8, 43])
def test_entries_share_buckets_no_more_often_than_under_a_random_function(buckets):
    n, domain = 100_000, 400
    seeds = as_randomness(9).words(n)
    for entry in (0, 1, 255):
        own = buckets_of(seeds, np.full((n, 1), entry), buckets)[:, 0]
        shared = np.delete(hits_of(seeds, own, buckets, domain), entry)
        deviations = (shared - n / buckets) / math.sqrt(n / buckets * (1 - 1 / buckets))
        assert np.abs(deviations).max() < 4.5
        assert deviations.var() == pytest.approx(1, abs=0.3)


# --- reports -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_reports_have_one_length_and_only_such_are_accepted(data):
    shape = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 12)))
    neighbours, label_ones = (data.draw(st.integers(1, min(size, 4))) for size in shape)
    epsilon = data.draw(st.floats(1e-6, 60))
    randomizer = make(data.draw(st.sampled_from(NAMES)), epsilon, shape, neighbours, label_ones)
    entries = inputs(5, shape, neighbours, label_ones, seed=data.draw(st.integers(0, 99)))
    many = randomizer.randomize_many(entries, as_randomness(1))
    assert many.shape == (5, randomizer.report_bytes)
    assert many.dtype == np.uint8
    one = randomizer.randomize(entries[0], as_randomness(2))
    assert isinstance(one, bytes)
    assert len(one) == randomizer.report_bytes
    for report in (one, *(row.tobytes() for row in many)):
        randomizer.check(report)
    from_bytes = randomizer.estimate([row.tobytes() for row in many])
    from_rows = randomizer.estimate(many)
    assert np.array_equal(from_bytes.counts, from_rows.counts)
    assert from_rows.counts.shape == from_rows.variance.shape == (randomizer.domain,)
    assert np.isfinite(from_rows.counts).all()
    assert (from_rows.variance >= 0).all()
    for wrong in (one[:-1], one + b"\0", b"", "text", None):
        with pytest.raises(MalformedReport, match="accepted: "):
            randomizer.check(wrong)
        with pytest.raises(MalformedReport, match=r"reports\[1\]"):
            randomizer.estimate([one, wrong])
    changed = data.draw(st.binary(min_size=len(one), max_size=len(one)))
    try:
        randomizer.check(changed)
    except MalformedReport:
        with pytest.raises(MalformedReport):
            randomizer.estimate([changed])
    else:
        randomizer.estimate([changed])


def test_what_is_never_written_is_refused():
    with pytest.raises(
        MalformedReport, match=r"reports\[0\] ends with the byte 4; accepted: below 4, as it holds 2 bits"
    ):
        RandomizedBits(10, 1, 1.0).check(b"\0\4")
    RandomizedBits(16, 1, 1.0).check(b"\xff\xff")
    with pytest.raises(MalformedReport, match=r"reports\[1\] names the bucket 8; accepted: 0\.\.7"):
        CollisionReports(10, 2, 1.0, 8).estimate([bytes(8) + b"\7", bytes(8) + b"\x08"])
    separation = make("separation", 2.0, (10, 10))
    last = separation.report_bytes - 1
    with pytest.raises(MalformedReport, match="names the bucket 255"):
        separation.check(bytes(last) + b"\xff")
    for rows in (np.zeros((2, 3), np.uint8), np.zeros((2, 2)), np.zeros(2, np.uint8)):
        with pytest.raises(MalformedReport, match=r"reports have shape .*; accepted: uint8 of shape \(n, 2\)"):
            RandomizedBits(10, 1, 1.0).estimate(rows)


@pytest.mark.parametrize("name", NAMES)
def test_no_reports(name):
    randomizer = make(name, 1.0)
    for none in ([], np.empty((0, randomizer.report_bytes), np.uint8)):
        estimate = randomizer.estimate(none)
        assert not estimate.counts.any()
        assert not estimate.variance.any()
    assert randomizer.randomize_many(np.empty((0, 1), int), as_randomness(0)).shape == (0, randomizer.report_bytes)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_fresh_and_draws_repeat_from_a_seed_only(name):
    randomizer, entries = make(name, 1.0), np.zeros((1000, 1), int)
    first, second = (randomizer.randomize_many(entries, as_randomness(5)) for _ in range(2))
    assert np.array_equal(first, second)
    drawn = randomizer.randomize_many(entries, System())
    assert not np.array_equal(drawn, randomizer.randomize_many(entries, System()))
    if name != "randomized-response":
        assert len(np.unique(drawn[:, :8], axis=0)) == 1000


@pytest.mark.parametrize("name", NAMES)
def test_inputs_of_other_than_the_promised_size_are_refused(name):
    randomizer = make(name, 1.0, (4, 4), 2, 1)
    for wrong in ([1], [1, 5, 9], [[1, 5]], [], [0.5, 5.0]):
        with pytest.raises(ac.ParameterError, match=r"entries have shape .*; accepted: integers of shape \(2,\)"):
            randomizer.randomize(wrong, as_randomness(0))
    for wrong, value in (([-1, 3], "-1"), ([1, 16], "16")):
        with pytest.raises(ac.ParameterError, match=f"entries hold {value}; accepted: 0..15"):
            randomizer.randomize(wrong, as_randomness(0))
    with pytest.raises(ac.ParameterError, match="entries hold an entry twice"):
        randomizer.randomize_many([[1, 5], [5, 5]], as_randomness(0))


def test_separation_needs_the_same_classes_for_every_query():
    randomizer = make("separation", 1.0, (4, 4), 2, 2)
    randomizer.randomize([12, 13, 0, 1], as_randomness(0))
    for wrong in ([0, 1, 4, 6], [0, 1, 2, 5], [0, 1, 2, 3]):
        with pytest.raises(
            ac.ParameterError, match="are not a product; accepted: the same 2 classes for each of 2 queries"
        ):
            randomizer.randomize(wrong, as_randomness(0))


# --- limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_without_privacy_counts_are_true_and_without_budget_they_say_nothing(name):
    entries = inputs(500, (5, 6), 1, 1)
    true = np.bincount(entries.ravel(), minlength=30)
    exact = make(name, 500.0, (5, 6))
    estimate = exact.estimate(exact.randomize_many(entries, as_randomness(0)))
    assert estimate.counts == pytest.approx(true, abs=1e-3)
    assert estimate.variance.max() < 1e-3
    nothing = make(name, 1e-6, (5, 6))
    assert nothing.mean_variance > 1e11
    assert math.isfinite(nothing.mean_variance)


@pytest.mark.parametrize(("epsilon", "name"), [(0.4, "randomized-response"), (1.0, "collision")])
def test_the_variance_decides_between_randomizers(epsilon, name):
    best = make("best", epsilon)
    assert type(best) is type(make(name, epsilon))
    assert best.mean_variance == min(make(other, epsilon).mean_variance for other in NAMES)


def test_with_many_entries_per_record_collision_varies_less_than_randomized_response():
    ratios = [make(n, 1.0, (50, 10), 4).mean_variance for n in ("randomized-response", "collision")]
    assert ratios[0] > 3 * ratios[1]


# --- names and parameters ------------------------------------------------------------------------------


def test_concatenation_is_refused_with_the_reason():
    with pytest.raises(
        ac.ParameterError, match=r"'concatenation'; accepted: .*no information on their product"
    ) as refused:
        make("concatenation", 1.0)
    assert "-(1/l)/(p-1/l), not 1" in str(refused.value)


def test_the_reason_against_concatenation_is_true():
    """Mean of the product of both estimates from one report, if the record has both entries."""
    l, n = 8, 200_000  # noqa: E741
    randomizer = CollisionReports(20, 2, 1.0, l)  # one query in 0..9, one label in 10..19
    p = randomizer.hit_probability
    reports = randomizer.randomize_many(np.tile([3, 14], (n, 1)), as_randomness(8))
    falls = rows_of_hits(*randomizer._parse(reports), l, 20).astype(float)
    estimates = (falls - 1 / l) / (p - 1 / l)
    products = estimates[:, 3] * estimates[:, 14]
    assert estimates[:, 3].mean() == pytest.approx(1, abs=5 * estimates[:, 3].std() / math.sqrt(n))
    assert products.mean() == pytest.approx(-(1 / l) / (p - 1 / l), abs=5 * products.std() / math.sqrt(n))
    assert products.std() / math.sqrt(n) < 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": 0}, "queries = 0; accepted"),
        ({"classes": 2.5}, "classes = 2.5; accepted"),
        ({"neighbours": 11}, r"neighbours = 11; accepted: an integer in \[1, 10\]"),
        ({"label_ones": 0}, "label_ones = 0; accepted"),
        ({"epsilon": 0.0}, r"epsilon = 0.0; accepted: \["),
        ({"epsilon": math.nan}, r"epsilon = nan; accepted: \["),
        ({"epsilon": 501}, r"epsilon = 501; accepted: \["),
    ],
)
@pytest.mark.parametrize("name", ["randomized-response", "separation", "best"])
def test_parameters_out_of_range(name, change, message):
    with pytest.raises(ac.ParameterError, match=message):
        local_randomizer(name, **({"queries": 10, "classes": 10, "epsilon": 1.0} | change))


def test_more_parameters_out_of_range():
    with pytest.raises(ac.ParameterError, match="randomizer = 'laplace'; accepted: randomized-response, collision"):
        make("laplace", 1.0)
    with pytest.raises(ac.ParameterError, match="buckets = 1; accepted"):
        CollisionReports(100, 1, 1.0, buckets=1)
    with pytest.raises(ac.ParameterError, match=r"nonzeros = 300; accepted: an integer in \[1, 256\]"):
        CollisionReports(1000, 300, 1.0)
    with pytest.raises(ac.ParameterError, match=r"label_ones = 257; accepted"):
        SeparationReports(10, 1000, 1, 257, 1.0)
