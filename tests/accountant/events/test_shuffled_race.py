"""A race for the place of a report: what is shown by exact enumeration, kinds, sums in high precision, attacks."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import accountant as ac
from accountant.events import shuffled_prices
from accountant.events.race_bounds import (
    NODES,
    Clocks,
    find_cells,
    log_chances,
    log_total,
    lower_cells,
    mean_rate,
    most_rates,
    pick,
    prepare,
)
from accountant.events.race_crowds import Family, count_reports, crowd_of, families, kind_of, log_own, with_even_rest
from accountant.events.race_kernels import NEAREST, fill_powers_at_ends, find_deviation, log_chord
from accountant.events.race_thetas import log_mean
from accountant.events.randomized_response import bernoulli_log_profile
from accountant.events.shuffled import places_between
from accountant.events.shuffled_inputs import Facts
from accountant.events.shuffled_race import log_race_delta
from accountant.events.shuffled_rounds import log_round_delta
from accountant.events.shuffled_sums import log_chords
from accountant.numerics.exponential_sums import sum_exponentials
from tests.accountant.events.test_shuffled_bits import EVEN, TRIANGLE, report, report_at, worst_of
from tests.cases import audit_after

RR = ac.RandomizedResponse
WORDS = tuple(itertools.product((0, 1), repeat=2))


def near_both(first, second, odds, narrow=0.0, is_even=False):
    """G: in the bits in which two inputs differ by how many agree, and elsewhere a report of both, or even."""
    told = odds / (1 + odds)
    found = {}
    for seen in itertools.product((0, 1), repeat=len(first)):
        bits = list(zip(seen, first, second, strict=True))
        agree, apart = sum(z == a for z, a, b in bits if a != b), sum(a != b for _, a, b in bits)
        rest = [0.5 if is_even else told if z == a else 1 - told for z, a, b in bits if a == b]
        found[seen] = odds ** (-narrow * abs(agree - apart / 2)) * math.prod(rest)
    return {seen: weight / math.fsum(found.values()) for seen, weight in found.items()}


def shown(first, second, others, even, clocks, u):
    """The hockey-stick divergence of the reports after the exchange and the time, by enumeration; and at u = 0.

    Clocks are the rate of the changed user's, and speeds of the others'.
    """
    clock, *speeds = clocks
    rates = [{z: speed * even[z] / one[z] for z in one} for speed, one in zip(speeds, others, strict=True)]
    low, high = (clock + sum(end(each.values()) for each in rates) for end in (min, max))
    times = sum_exponentials(low, high, 1e-6)
    total, mass, rung = 0.0, 0.0, 0.0
    for spare in even:
        for seen in itertools.product(even, repeat=len(others)):
            chance = even[spare] * math.prod(float(one[z]) for one, z in zip(others, seen, strict=True))
            sums = sum(rate[z] for rate, z in zip(rates, seen, strict=True))
            for x, weight in zip(times.places.tolist(), times.weights.tolist(), strict=True):
                p = q = 0.0
                ends = [(clock, even[spare], clock + sums, spare)]
                for speed, rate, one, z in zip(speeds, rates, others, seen, strict=True):
                    ends.append((speed, float(one[z]), clock + sums - rate[z] + rate[spare], z))
                for factor, own, at, z in ends:
                    share = weight * chance * factor * math.exp(-x * at) / own
                    p, q = p + share * float(first[z]), q + share * float(second[z])
                total, mass, rung = total + max(p - u * q, 0.0), mass + p, rung + q
    return total, mass, rung, times.short


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("inputs", "second", "is_even"),
    [(TRIANGLE, 2, False), (EVEN[:3], 2, False), (WORDS, 3, False), (WORDS, 1, False), (WORDS, 1, True)],
    ids=["triangle", "even", "words", "near words", "near words, all even"],
)
@pytest.mark.parametrize("odds", [2, 6])
@pytest.mark.parametrize("share", audit_after(2, [0.7, 0.0, 0.3]))
@pytest.mark.parametrize(
    ("clock", "slower", "narrow"), audit_after(2, [(1.0, 0.3, 0.4), (0.5, 0.0, 0.7), (4.0, 0.0, 0.0)])
)
def test_a_race_says_more_than_the_shuffled_reports(inputs, second, is_even, odds, share, clock, slower, narrow):
    """All data of two others: shuffled <= what a race shows <= the bound, at any clocks."""
    first, second = inputs[0], inputs[second]
    differ = sum(a != b for a, b in zip(first, second, strict=True))
    epsilon, u = math.log(odds), odds ** (differ * share)
    laws = {word: report(word, odds) for word in inputs}
    arrays = {word: np.array([float(x) for x in law.values()]) for word, law in laws.items()}
    facts = Facts(2, 0, 2 if inputs == WORDS else 0)
    family = next(each for each in families(facts) if each.bits == differ)
    family = with_even_rest(facts, family) if is_even else family
    race = prepare(epsilon, family, 3, math.log(u), Clocks(1.0, slower, narrow, -3.0))
    cells = find_cells(race, clock)
    highest = min(log_total(cells), log_total(lower_cells(race, cells, -math.inf)))
    even = near_both(first, second, odds, narrow, is_even)
    for others in itertools.combinations_with_replacement(inputs, 2):
        exact = data_of([arrays[word] for word in others], arrays[first], arrays[second], u)
        changed = [sum(x != a and x == b for x, a, b in zip(word, first, second, strict=True)) for word in others]
        clocks = [clock, *(math.exp(-k * slower * epsilon) for k in changed)]
        told, mass, other, short = shown(laws[first], laws[second], [laws[w] for w in others], even, clocks, u)
        local = float(np.maximum(arrays[first] - u * arrays[second], 0.0).sum())
        # all that is shown has a probability, but for times that are left out
        assert 1 - short <= min(mass, other)
        assert max(mass, other) <= 1
        assert exact <= told + short * local + 1e-14
        assert told <= math.exp(highest)


def data_of(others, first, second, u):
    """The hockey-stick divergence of the sorted reports."""

    def law(reports):
        found = {}
        for seen in itertools.product(range(first.size), repeat=len(reports)):
            key = tuple(sorted(seen))
            found[key] = found.get(key, 0.0) + math.prod(float(one[z]) for one, z in zip(reports, seen, strict=True))
        return found

    one, other = law([first, *others]), law([second, *others])
    return sum(max(one[key] - u * other[key], 0.0) for key in one)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("epsilon0", audit_after(2, [2.0, 5.0, 0.5]))
@pytest.mark.parametrize(
    ("bits", "length", "users"),
    [(2, 2, 3), (2, 2, 6), (2, 0, 5), (3, 3, 4), (3, 0, 4), pytest.param(4, 0, 3, marks=pytest.mark.audit)],
)
def test_never_below_the_worst_data(epsilon0, bits, length, users):
    """All data of words of so many bits, or, of longer words, of those with an even number of ones and few of them."""
    size = length or bits + 1
    words = [
        word for word in itertools.product((0, 1), repeat=size) if length or (sum(word) % 2 == 0 and sum(word) <= bits)
    ]
    words = [word for word in words if all(sum(a != b for a, b in zip(word, w, strict=True)) <= bits for w in words)]
    laws = [np.array(list(report_at(word, epsilon0 / bits))) for word in words]
    us = np.exp(np.array([0.0, 0.3, 0.7, 0.95]) * epsilon0)
    worst = worst_of(laws, users, us)
    for u, exact in zip(us.tolist(), worst.tolist(), strict=True):
        found = log_race_delta(epsilon0 / bits, Facts(bits, 0, length), users, math.log(u))
        assert exact <= math.exp(found)


@pytest.mark.parametrize("bits", range(1, 9))
def test_only_these_kinds_count(bits):
    """Every kind is below one of them: by more bits of m, or by a bit more in which the changed inputs differ."""
    for length in (0, bits, bits + 1, bits + 3):
        ends = {d: set(numbers) for d, numbers, _ in families(Facts(bits, 0, length))}
        rests = {each.bits: with_even_rest(Facts(bits, 0, length), each) for each in families(Facts(bits, 0, length))}
        for i in range(bits + 1):
            for k in range(max(1 - i, 0), bits + 1 - i):
                for m in range(min(bits - max(i, k), length - i - k if length else bits) + 1):
                    d = k + i
                    if length:  # as they are, where G is even in all bits
                        assert (m, k, i) in rests[d].numbers
                        assert rests[d].even == length - d
                    if d in ends:
                        assert any(m <= most and (k, i) == rest for most, *rest in ends[d] for rest in [tuple(rest)])
                    else:  # for all users at once: each takes the bit for k or for i
                        assert not length
                        assert any(m <= most and {k1 - k, i1 - i} == {0, 1} for most, k1, i1 in ends[d + 1])


@pytest.mark.parametrize(
    ("numbers", "even", "narrow"),
    [((0, 2, 0), 0, 0.0), ((1, 1, 1), 0, 0.4), ((2, 1, 3), 0, 1.5), ((1, 1, 1), 3, 0.0), ((0, 1, 2), 2, 0.7)],
)
@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 3.0])
def test_rates_and_values_are_what_they_stand_for(numbers, even, narrow, epsilon):
    """By all reports of three inputs that differ in so many bits, and all spare ones."""
    m, k, i = numbers
    n = max(even - m, 0)
    first, second, other = (0,) * (m + k + i + n), (0,) * m + (1,) * (k + i) + (0,) * n, (1,) * (m + k) + (0,) * (i + n)
    words = list(itertools.product((0, 1), repeat=m + k + i + n))
    laws = [dict(zip(words, report_at(word, epsilon), strict=True)) for word in (first, second, other)]
    chance = near_both(first, second, math.exp(epsilon), narrow, even > 0)
    kind = kind_of(epsilon, numbers, even, narrow * epsilon)

    def same(ours, theirs):
        """Both say the same of every exponential mean."""
        for powers in ((0.3, 0.2, -0.1), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
            sums = [
                math.fsum(w * math.prod(x**p for x, p in zip(xs, powers, strict=True)) for w, *xs in one)
                for one in (ours, theirs)
            ]
            assert sums[0] == pytest.approx(sums[1], rel=1e-12)

    columns = kind.masses, kind.rates, np.exp(kind.log_first), np.exp(kind.log_second)
    exact = [(law := laws[2][z], chance[z] / law, laws[0][z] / law, laws[1][z] / law) for z in words]
    same(list(zip(*(c.tolist() for c in columns), strict=True)), exact)
    # the distribution of the others' reports has mean rate and mean ratios of 1
    assert [float(kind.masses @ c) for c in columns[1:]] == pytest.approx([1.0] * 3, rel=1e-13)
    family = Family(k + i, (numbers,), even)
    own = np.exp(np.stack(log_own(epsilon, family, narrow * epsilon), axis=1)).tolist()
    groups = list(itertools.product(range(k + i + 1), range(even + 1)))
    for (agree, rest), (masses, rates), ratios in zip(groups, kind.spares, own, strict=True):
        theirs = [
            z
            for z in words
            if sum(bit == 0 for bit in z[m : m + k + i]) == agree
            and (not even or sum(bit == 0 for bit in z[:m] + z[m + k + i :]) == rest)
        ]
        spares = [(chance[z], chance[z] / laws[2][z], 1.0, 1.0) for z in theirs]
        same([(mass, rate, 1.0, 1.0) for mass, rate in zip(masses.tolist(), rates.tolist(), strict=True)], spares)
        if even or m == 0:
            for z in theirs:
                assert ratios == pytest.approx([laws[0][z] / chance[z], laws[1][z] / chance[z]], rel=1e-12)


def mean_at(place, s, reports, zeta):
    """g(s, zeta) by its definition: E e^(-x r) exp(zeta e^(x (r - s)) y)."""
    masses, rates, values = (each.tolist() for each in reports)
    return mpmath.fsum(
        mass * mpmath.exp(-place * r + zeta * mpmath.exp(place * (r - s)) * y)
        for mass, r, y in zip(masses, rates, values, strict=True)
    )


def family_of(most, bits):
    """Of inputs that differ in so many bits; in two of three, where the length is known, and G even in all."""
    if bits == most:
        return families(Facts(most))[0]
    return with_even_rest(Facts(most, 0, most), families(Facts(most, 0, most))[most - bits])


@pytest.mark.each_run(1)
@pytest.mark.parametrize(("epsilon", "point", "narrow"), [(0.4, 0.1, 0.0), (1.0, 1.2, 0.5), (2.0, 2.5, 0.0)])
@pytest.mark.parametrize("bits", [2, pytest.param(3, marks=pytest.mark.audit)])
def test_sums_in_high_precision(epsilon, point, narrow, bits):
    """What all kinds add is above its definition and near it, and so are chords of the characteristic function."""
    race = prepare(epsilon, family_of(3, bits), 12, point, Clocks(1.0, 0.2, narrow, -6.0))
    cells = find_cells(race, mean_rate(race))
    time = 0
    x, number = float(cells.places[time]), race.others
    with mpmath.workdps(30):
        for agree, kind in itertools.product(range(race.own.size), range(race.crowd.starts.size - 1)):
            reports, (spare_masses, spare_rates) = pick(race, kind, agree, 1.0)
            theta = math.exp(cells.log_thetas[time, agree])
            own = theta * cells.clock * float(race.own[agree]) + float(cells.log_times[time])

            def power(w, theta=theta, reports=reports, masses=spare_masses, rates=spare_rates):
                return mpmath.fsum(
                    share * abs(mean_at(x, rate, reports, mpmath.mpc(theta, w))) ** number
                    for share, rate in zip(masses.tolist(), rates.tolist(), strict=True)
                )

            exact = own + float(mpmath.log(power(0.0))) - math.log(2 * theta)
            found = float(cells.log_adds[time, agree, kind])
            assert exact <= found + 1e-12
            # chords of the logarithm: off by no more than number times its curvature allows
            assert found < exact + 0.3
            deviation = find_deviation(theta, x, number, reports, (spare_masses, spare_rates))
            ends, top = np.empty((2, NODES.size - 1)), float(mpmath.log(power(0.0)))
            fill_powers_at_ends(theta, x, number, top, reports, (spare_masses, spare_rates), NEAREST / deviation, ends)
            for part, share in itertools.product((0, 3, 13, 14, 22, 23, 36, 50), (0.0, 0.3, 0.5, 0.9)):
                w = ((1 - share) * NODES[part] + share * NODES[part + 1]) / deviation
                chord = (1 - share) * ends[0, part] + share * ends[1, part]
                assert float(power(w) / mpmath.exp(top)) <= chord * (1 + 1e-10)
            # the integral over all is near, at most, to what it is where no phase differs from another
            chords = float(log_chords(theta, NODES / deviation, ends[0], ends[1]))
            assert chords <= 0.1 - math.log(2 * theta)
            assert abs(log_chord(theta, NODES / deviation, ends) - chords) < 1e-12


@pytest.mark.parametrize("place", [1e-9, 0.3, 20.0, 30.0, 60.0, 900.0])
@pytest.mark.parametrize("tau", [0.0, 1e-12])
def test_means_keep_their_digits(place, tau):
    """Where they are near 1, near 0, and where nothing is left of them."""
    kind = kind_of(1.0, (1, 1, 1), 0, 0.0)
    values = np.exp(kind.log_first) - 2.0 * np.exp(kind.log_second)
    found = log_mean(tau, place, kind.masses, kind.rates, values)
    terms = zip(kind.masses.tolist(), kind.rates.tolist(), values.tolist(), strict=True)
    with mpmath.workdps(40):
        mean = mpmath.fsum(mass * mpmath.exp(mpmath.mpf(tau) * z - mpmath.mpf(place) * r) for mass, r, z in terms)
        # masses add up to 1 but for rounding
        exact = float(mpmath.log(mean / mpmath.fsum(kind.masses.tolist())))
    assert found == pytest.approx(max(exact, math.log(1e-300)), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("lost", [1, 100])
def test_what_is_not_a_number_is_no_bound(monkeypatch, lost):
    """Nothing is skipped for its sake, and where nothing else is known the report's own profile stands for it."""
    calls = itertools.count()
    monkeypatch.setattr("accountant.events.shuffled_race.clocks_near", lambda *_: Clocks(log_delta=-2.0))
    exact = log_race_delta(1.0, Facts(2), 5, 0.5)
    monkeypatch.setattr(
        "accountant.events.shuffled_race.log_total", lambda cells: math.nan if next(calls) < lost else log_total(cells)
    )
    found = log_race_delta(1.0, Facts(2), 5, 0.5)
    known = float(bernoulli_log_profile(1.0, 2, np.array([0.5]))[0])
    assert found == pytest.approx(known if lost > 1 else exact, abs=1e-7 if lost > 1 else 0.1)


@pytest.mark.parametrize("lost", [2, 60, 10**6])
def test_clocks_are_found_although_some_bounds_are_no_numbers(monkeypatch, lost):
    """Neither their search nor what is expected ends in no number, and the bound is at most the local one."""
    calls = itertools.count()
    monkeypatch.setattr(
        "accountant.events.shuffled_race.log_total", lambda cells: math.nan if next(calls) < lost else log_total(cells)
    )
    epsilon = 1.0 + 1e-9 * lost  # no clock of another test is remembered
    found = log_race_delta(epsilon, Facts(2), 5, 0.5)
    known = float(bernoulli_log_profile(epsilon, 2, np.array([0.5]))[0])
    assert -3.0 < found <= known + 1e-7


@pytest.mark.parametrize("share", [0.5, 1 - 1e-6, 1 - 1e-11])
def test_values_are_not_below_what_they_are(share):
    """Near the local epsilon the positive ones are small differences: they are those of a slightly smaller u."""
    epsilon, bits = 1.3, 3
    point = share * bits * epsilon
    race = prepare(epsilon, families(Facts(bits))[0], 5, point, Clocks())
    with mpmath.workdps(40):
        # powers of t in both ratios are whole
        both = np.rint(np.stack([race.crowd.log_first, race.crowd.log_second], axis=1) / epsilon).astype(int).tolist()
        for (first, second), value in zip(both, race.values.tolist(), strict=True):
            exact = mpmath.exp(first * mpmath.mpf(epsilon)) - mpmath.exp(
                second * mpmath.mpf(epsilon) + mpmath.mpf(point)
            )
            assert exact <= mpmath.mpf(value)


@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "points"), [(2.0, 4, 22, (1.3, 1.4, 1.45, 1.5)), (1.0, 3, 8, (0.9, 0.92, 0.93))]
)
def test_no_theta_is_missed(epsilon0, bits, users, points):
    """The bound falls: where a theta for two kinds was infinite for the others, it rose by up to e^15."""
    found = [log_race_delta(epsilon0 / bits, Facts(bits, 0, bits), users, point) for point in points]
    assert np.all(np.diff(found) < 0)


def test_thetas_are_good():
    """No theta of many makes what all kinds add much less."""
    race = prepare(1.0, families(Facts(2))[0], 40, 1.2, Clocks(log_delta=-15.0))
    cells = find_cells(race, mean_rate(race))
    for time, agree in itertools.product(range(min(cells.places.size, 3)), range(3)):
        x, weight = float(cells.places[time]), float(cells.log_times[time])

        def together(theta, x=x, weight=weight, agree=agree):
            found = []
            for kind in range(3):
                reports, (masses, rates) = pick(race, kind, agree, 1.0)
                logs = [race.others * float(mpmath.log(mean_at(x, rate, reports, theta))) for rate in rates.tolist()]
                found.append(float(np.logaddexp.reduce(np.array(logs) + np.log(masses))))
            whole = float(np.logaddexp.reduce(found))
            return theta * cells.clock * float(race.own[agree]) + weight + whole - math.log(2 * theta)

        best = min(together(theta) for theta in np.geomspace(1e-3, 10.0, 60).tolist())
        assert together(math.exp(cells.log_thetas[time, agree])) < best + 0.2


@pytest.mark.parametrize(("clock", "slower"), [(1.0, 0.0), (5.0, 0.0), (1.0, 0.4)])
def test_chances_of_times_hold_for_any_mixture(clock, slower):
    """The sum of all rates, by enumeration: exceeded as seldom as it says, and as probable at a time."""
    race = prepare(1.0, families(Facts(2))[0], 5, 0.5, Clocks(1.0, slower, 0.3, -3.0))
    limit = most_rates(race, clock, math.log(1e-2))
    kinds = [pick(race, kind, 0, 1.0)[0][:2] for kind in range(3)]
    for mixture in itertools.combinations_with_replacement(kinds, 4):
        over, at = 0.0, dict.fromkeys((0.01, 0.2, 1.0, 60.0), 0.0)
        for seen in itertools.product(*(range(masses.size) for masses, _ in mixture)):
            chance = math.prod(float(masses[v]) for (masses, _), v in zip(mixture, seen, strict=True))
            sums = clock + sum(float(rates[v]) for (_, rates), v in zip(mixture, seen, strict=True))
            over += chance * (sums > limit)
            for x in at:
                at[x] += chance * sums * math.exp(-x * sums)
        assert over <= 1e-2
        for x, exact in at.items():
            assert exact <= math.exp(float(log_chances(race, clock, np.array([x]))[0]) - clock * x) * (1 + 1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("epsilon0", "bits", "length", "users", "point", "expected"),
    [
        (4.0, 5, 6, 5, 2.697820278895053, -50.0),
        (1.0, 6, 7, 3, 0.9999893236330921, -50.0),
        (16.0, 6, 6, 10, 15.999999865627073, -50.0),
        (10.0, 4, 4, 4, 1e-11, -50.0),
        (4.0, 6, 7, 3, 3.3333333333333326, 0.0),
    ],
)
def test_times_without_a_bound_for_some_kinds(epsilon0, bits, length, users, point, expected):
    """Where no theta is good for all kinds everything is told: both bounds are numbers."""
    for family in families(Facts(bits, 0, length)):
        if point < family.bits * epsilon0 / bits:
            race = prepare(epsilon0 / bits, family, users, point, Clocks(log_delta=expected))
            cells = find_cells(race, mean_rate(race))
            lower = lower_cells(race, cells, -math.inf)
            assert math.isfinite(log_total(cells))
            assert math.isfinite(log_total(lower))
            assert log_total(lower) <= log_total(cells) + 1e-9


def alone(epsilon, numbers, users, u):
    """E (mean of Y)_+ of users of one kind in rounded numbers, from below, and what a transform may err by."""
    kind = kind_of(epsilon, numbers, 0, 0.0)
    y = np.exp(kind.log_first) - u * np.exp(kind.log_second)
    step = math.sqrt(float(kind.masses @ y**2)) / 60
    atoms = np.floor(y / step).astype(np.int64)
    size = min(2 ** math.ceil(math.log2(2.2 * users * (np.abs(atoms).max() + 1) + 1)), 2**21)
    law = np.fft.irfft(np.fft.rfft(np.bincount(atoms % size, kind.masses, minlength=size)) ** users, size)
    return float(law[: size // 2] @ np.arange(size // 2)) * step / users, 1e-17 * size**2 * step / users


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("epsilon0", "bits", "users"),
    [(2.0, 2, 44), (1.0, 3, 16), (4.0, 4, 300), (0.5, 5, 10), (6.0, 2, 3000), (0.01, 2, 5)],
)
@pytest.mark.parametrize("share", audit_after(1, [0.4, 0.1]))
def test_never_below_an_attack(epsilon0, bits, users, share):
    """All others have the same input, of any kind."""
    kinds = [each for family in families(Facts(bits)) for each in family.numbers]
    values = [alone(epsilon0 / bits, each, users, math.exp(share * epsilon0)) for each in kinds]
    lower, error = max(values)
    found = log_race_delta(epsilon0 / bits, Facts(bits), users, share * epsilon0)
    assert lower - error <= math.exp(found)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "delta", "facts", "attack"),
    audit_after(
        4,
        [
            (2.0, 2, 44, 1e-8, {"length": 2}, 1.4358),
            (1.0, 3, 16, 1e-4, {}, 0.452),
            (1.0, 3, 16, 1e-4, {"ones": 2}, 0.452),
            (4.0, 4, 300, 1e-6, {}, 1.207),
            (2.0, 2, 44, 1e-8, {}, 1.481),
            (3.0, 5, 100, 1e-6, {}, 0.873),
        ],
    ),
)
def test_within_five_percent_of_an_attack(epsilon0, bits, users, delta, facts, attack):
    """Where slots give so many users away that the price goes to the local one."""
    local = ac.RandomizedResponse(epsilon0 / bits, bits, **facts)
    assert attack < ac.shuffled_epsilon(local, users, delta) < 1.05 * attack


def log_reached(epsilon, numbers, users, point):
    """Log of E (mean of Y)_+ of users of one kind, tilted by a good theta; values are split between two of a grid."""
    kind = kind_of(epsilon, numbers, 0, 0.0)
    y = np.exp(kind.log_first) - np.exp(point + kind.log_second)
    thetas = np.geomspace(1e-9, 1e3, 500)
    log_moments = np.logaddexp.reduce(np.log(kind.masses) + thetas[:, None] * y, axis=1)
    best = int(np.argmin(users * log_moments - np.log(thetas)))
    theta, log_moment = float(thetas[best]), float(log_moments[best])
    tilted = np.exp(np.log(kind.masses) + theta * y - log_moment)
    counts = tilted * users > 1e-17
    y, tilted = y[counts], tilted[counts]
    mean = float(tilted @ y)
    half = max(18 * math.sqrt(users * float(tilted @ (y - mean) ** 2)), 12 * float(np.abs(y).max()))
    size, step = 2**18, half / 2**17
    atoms, share = np.floor(y / step).astype(np.int64), y / step - np.floor(y / step)
    law = np.bincount(atoms % size, tilted * (1 - share), minlength=size)
    law = np.fft.irfft(
        np.fft.rfft(law + np.bincount((atoms + 1) % size, tilted * share, minlength=size)) ** users, size
    )
    first = math.floor(users * mean / step) - size // 2
    sums = np.maximum((first + (np.arange(size) - first) % size) * step, 0.0)
    return users * log_moment + math.log(float(np.maximum(law, 0.0) @ (sums * np.exp(-theta * sums))) / users)


@pytest.mark.audit
@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "length", "kind"),
    [
        (4.0, 2, 164, 2, (0, 0, 2)),
        pytest.param(8.0, 2, 17886, 2, (0, 0, 2), marks=pytest.mark.audit),
        (4.0, 3, 328, 3, (0, 0, 3)),
        pytest.param(8.0, 3, 8943, 3, (0, 0, 3), marks=pytest.mark.audit),
        pytest.param(4.0, 4, 164, 4, (0, 0, 4), marks=pytest.mark.audit),
        (8.0, 4, 17886, 4, (0, 0, 4)),
        pytest.param(8.0, 2, 17886, 0, (1, 1, 1), marks=pytest.mark.audit),
        (8.0, 3, 59619, 0, (2, 1, 1)),
    ],
)
def test_nearly_the_worst_data_of_small_crowds(epsilon0, bits, users, length, kind):
    """All others with the input of P0, or one that is as far from both: no more than 5 % of epsilon is lost."""
    price = ac.shuffled_epsilon(ac.RandomizedResponse(epsilon0 / bits, bits, length=length), users, 1e-6)
    assert log_reached(epsilon0 / bits, kind, users, price) < math.log(1e-6)
    assert log_reached(epsilon0 / bits, kind, users, price / 1.05) > math.log(1e-6) + 0.01


@pytest.mark.audit
def test_rounds_of_a_small_crowd():
    """The polygon through fewer points is not far above, and several rounds compose."""
    local = ac.RandomizedResponse(1.0, 2)
    once, alone_ = ac.epsilon(ac.Shuffled(local, 44), 1e-8), ac.shuffled_epsilon(local, 44, 1e-8)
    # bounds vary by up to a percent with the clocks that a search finds, and the polygon takes the least
    assert 0.985 * alone_ < once.epsilon < 1.005 * alone_
    assert once.method == "tight"
    five = ac.epsilon(5 * ac.Shuffled(local, 44), 1e-8)
    assert once.epsilon < five.epsilon < 4.3


def test_races_between_points():
    """More where the profile falls fast, as many as there are places where it ends, and one part at least."""
    values = np.full(33, -math.inf)
    values[:17] = -1.0
    assert places_between(values, 0, 0) == []
    assert places_between(values, 16, 32) == list(range(17, 32))
    values[32] = -1.1
    assert places_between(values, 16, 32) == [20, 24, 28]
    values = np.full(20 * 16 + 1, -1.0)
    assert places_between(values, 19 * 16, 20 * 16) == []


@pytest.mark.parametrize("facts", [Facts(2), Facts(3), Facts(7), Facts(12), Facts(17), Facts(6, 0, 8), Facts(9, 0, 20)])
def test_reports_are_counted_without_being_made(facts):
    for family in families(facts):
        crowd = crowd_of(0.3, family, 0.0, 0.1)
        assert count_reports(family) == crowd.masses.size == crowd.spare_masses.size


@pytest.mark.parametrize(
    ("local", "users", "before", "most"),
    [(RR(5 / 17, 17), 1000, 3.77, 0.2581), (RR(2 / 17, 17), 100, 0.2178, 0.2012)],
    ids=str,
)
def test_more_than_16_bits(local, users, before, most):
    """Of these there was no race, and epsilon up to fifteen times as large."""
    found = ac.epsilon(ac.Shuffled(local, users), 1e-6, patience=20.0)
    assert 0.97 * found.epsilon < found.lower <= found.epsilon < most < before


@pytest.mark.parametrize(
    ("local", "most"), [(RR(0.5, 5), 1), (RR(0.6, 8, length=10), 1), (RR(1.0, 3, length=5), 20)], ids=str
)
def test_a_search_needs_bounds_of_all_inputs_once(monkeypatch, local, most):
    """Those for the inputs that count most come first; where it is others after all, these count."""
    asked = []

    def recorded(*args, whole=True, **options):
        asked.append(whole and options.get("race", True))
        return log_round_delta(*args, whole=whole, **options)

    monkeypatch.setattr(shuffled_prices, "log_round_delta", recorded)
    users, delta = round(5 * math.exp(local.bits * local.epsilon)), 1e-6
    found = ac.shuffled_epsilon(local, users, delta)
    assert 1 <= asked.count(True) <= most
    assert log_round_delta(local, users, found) <= math.log(delta)
    assert log_round_delta(local, users, found * (1 - 1e-4)) > math.log(delta)
