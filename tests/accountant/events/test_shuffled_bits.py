"""Shuffled bits: the slots by exact enumeration, moments in high precision, sums by convolution, attacks, limits."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import accountant as ac
from accountant import patience
from accountant.events import shuffled as rounds
from accountant.events.shuffled import grid, grid_pair
from accountant.events.shuffled_bits import Slots, log_sums, products, slots, tilt
from accountant.events.shuffled_inputs import Facts, common_share, kinds, others_shares
from accountant.events.shuffled_lattice import fill_moments, fill_squares
from accountant.events.shuffled_rounds import log_bits_delta, log_round_delta
from accountant.events.shuffled_sums import log_sums_between_nodes
from accountant.patience import tally_work
from tests.cases import audit_after

TRIANGLE = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
EVEN = ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0))


# --- exact values -------------------------------------------------------------------------------------------


def report(word, odds):
    """Probabilities of all reports of one input."""
    told = Fraction(odds, 1 + odds)
    return {
        seen: math.prod((told if a == b else 1 - told for a, b in zip(word, seen, strict=True)), start=Fraction(1))
        for seen in itertools.product((0, 1), repeat=len(word))
    }


def shuffled(reports):
    """Probabilities of the sorted reports."""
    law = {(): Fraction(1)}
    for one in reports:
        after = {}
        for seen, mass in law.items():
            for z, share in one.items():
                now = tuple(sorted((*seen, z)))
                after[now] = after.get(now, 0) + mass * share
        law = after
    return law


def hockey_stick(first, second, u):
    return sum(max(first[z] - u * second[z], 0) for z in first)


def with_slots(first, second, laws, common, u):
    """The mean over J and those that it leaves of 1/M E (Y_1 + ... + Y_M)_+; if it leaves none, all is told."""
    total, n = Fraction(0), len(laws)
    for j in range(n):
        mass = common * (1 - common) ** j / math.comb(n, j)
        for left in itertools.combinations(laws, n - j):
            for seen in itertools.product(first, repeat=n - j):
                chance = math.prod((one[z] for one, z in zip(left, seen, strict=True)), start=Fraction(1))
                mean = sum((first[z] - u * second[z]) / one[z] for one, z in zip(left, seen, strict=True)) / (n - j)
                total += mass * chance * max(mean, 0)
    return total + (1 - common) ** n * hockey_stick(first, second, u)


@pytest.mark.each_run(3)
@pytest.mark.parametrize("inputs", [TRIANGLE, EVEN], ids=["triangle", "even"])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("u", audit_after(2, [Fraction(1), Fraction(5, 2), Fraction(3, 2)]))
def test_slots_say_more_than_the_shuffled_reports(inputs, n, u):
    """In rationals, for all data sets: hidden in slots, and the bound of this module, which is above them."""
    odds, worst = 2, Fraction(0)
    laws = [report(word, odds) for word in inputs]
    bound, smaller = (
        math.exp(log_bits_delta(math.log(odds), Facts(2), n, math.log(u), race)) for race in (False, True)
    )
    for others in itertools.combinations_with_replacement(laws, n - 1):
        exact = hockey_stick(shuffled([laws[0], *others]), shuffled([laws[1], *others]), u)
        told = with_slots(laws[0], laws[1], others, Fraction(4, (1 + odds) ** 2), u)
        assert exact <= told
        # with a slot of the changed user, who shows a report of some input there, and the coin that suits any bits
        assert exact <= with_slots(laws[0], laws[1], [laws[2], *others], Fraction(1, odds**2), u)
        if n == 2:
            assert exact == with_slots(laws[0], laws[1], [others[0], *others], Fraction(1), u)
        assert (exact if n == 2 else told) <= bound
        assert exact <= smaller
        worst = max(worst, exact)
    assert worst > 0


def cliques(words, near):
    """All largest sets of words of which any two are near (Bron & Kerbosch)."""

    def grow(inside, may, been):
        if not may and not been:
            yield inside
        for word in list(may):
            yield from grow([*inside, word], may & near[word], been & near[word])
            may, been = may - {word}, been | {word}

    return grow([], frozenset(words), frozenset())


@pytest.mark.parametrize("t", [Fraction(101, 100), Fraction(2), Fraction(9)])
def test_what_inputs_that_differ_in_two_bits_have_in_common(t):
    """All largest sets in five dimensions: their reports are at least (2/(1+t))^2 times one distribution."""
    words = list(itertools.product((0, 1), repeat=5))
    away = {(a, b): sum(x != y for x, y in zip(a, b, strict=True)) for a in words for b in words}
    near = {a: frozenset(b for b in words if b != a and away[a, b] <= 2) for a in words}
    sizes = set()
    for inside in cliques(words, near):
        found = sum(t ** (5 - max(away[z, x] for x in inside)) for z in words) / (1 + t) ** 5
        assert found >= 4 / (1 + t) ** 2
        sizes.add((len(inside), found == 4 / (1 + t) ** 2))
    assert sizes == {(4, True), (6, False)}


def common(words, t):
    """The largest share of all reports that is drawn alike, and the same by distances."""
    bits = len(words[0])
    laws = [report(word, t) for word in words]
    share = sum(min(law[z] for law in laws) for z in laws[0])
    near = [min(sum(a != b for a, b in zip(z, word, strict=True)) for word in words) for z in laws[0]]
    assert share == sum(Fraction(t) ** distance for distance in near) / (1 + Fraction(t)) ** bits
    return share


@pytest.mark.parametrize("t", [Fraction(101, 100), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("bits", [2, 3, 4, 5])
def test_what_inputs_of_few_ones_have_in_common(bits, t):
    """The share that is used where both facts are known is that of all words of so many ones."""
    epsilon = math.log(t)
    for ones in range(1, bits // 2 + 1):
        inputs = [word for word in itertools.product((0, 1), repeat=bits) if sum(word) <= ones]
        exact, facts = common(inputs, t), Facts(2 * ones, ones, bits)
        assert exact >= t**-ones
        shares = others_shares(epsilon, facts, 10)
        assert max(shares) == pytest.approx(math.log(exact), abs=1e-13)
        for users in (3, 10, 10**6):
            share, most = common_share(epsilon, facts, users)
            assert share <= math.log(exact) + 1e-15
            assert (most == users) == (share == -ones * epsilon)
        without = report((0,) * bits, t)
        assert all(law[z] >= t**-ones * without[z] for law in (report(word, t) for word in inputs) for z in law)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("t", audit_after(2, [Fraction(2), Fraction(9), Fraction(101, 100)]))
@pytest.mark.parametrize("bits", [3, 4])
def test_what_short_reports_have_in_common(bits, t):
    """All largest sets of words of which any two differ in so many bits; with all words nothing is given away."""
    words = list(itertools.product((0, 1), repeat=bits))
    away = {(a, b): sum(x != y for x, y in zip(a, b, strict=True)) for a in words for b in words}
    for most in range(1, bits + 1):
        near = {a: frozenset(b for b in words if b != a and away[a, b] <= most) for a in words}
        exact = min(common(inside, t) for inside in cliques(words, near))
        half = (bits - most) // 2
        proven = Fraction(2) ** bits * (t**half + t ** (bits - most - half)) / 2 / (1 + t) ** bits
        assert exact >= proven
        assert most < bits or exact == proven
        found = others_shares(math.log(t), Facts(most, 0, bits), 10)
        assert found[-1] == pytest.approx(math.log(proven), abs=1e-13)
        assert common_share(math.log(t), Facts(most, 0, bits), 10)[0] <= math.log(exact) + 1e-15


@pytest.mark.each_run(2)
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("u", audit_after(2, [Fraction(1), Fraction(5, 2), Fraction(3, 2)]))
def test_slots_of_inputs_with_few_ones(n, u):
    """In rationals, for all data sets: the changed user shows the report of the word without ones."""
    odds, worst = 2, Fraction(0)
    inputs = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    laws = [report(word, odds) for word in inputs]
    for facts in (Facts(2, 1), Facts(2, 1, 3)):
        bound = math.exp(log_bits_delta(math.log(odds), facts, n, math.log(u)))
        for others in itertools.combinations_with_replacement(laws, n - 1):
            exact = hockey_stick(shuffled([laws[1], *others]), shuffled([laws[2], *others]), u)
            assert exact <= with_slots(laws[1], laws[2], [laws[0], *others], Fraction(1, odds), u)
            assert exact <= bound
            worst = max(worst, exact)
    assert worst > 0


@pytest.mark.each_run(3)
@pytest.mark.parametrize("epsilon0", audit_after(1, [3.0, 0.5]))
@pytest.mark.parametrize(("users", "bits"), [(2, 4), (3, 4), (4, 3)])
@pytest.mark.parametrize("known", ["ones", "length", "both"])
def test_never_below_the_worst_data_with_facts(epsilon0, users, bits, known):
    """All data of words of four bits, or of three; of words with at most half of the bits."""
    words, epsilon = list(itertools.product((0, 1), repeat=bits)), epsilon0 / bits
    ones, length = (bits + 1) // 2 if known != "length" else 0, bits if known != "ones" else 0
    inputs = [word for word in words if not ones or sum(word) <= ones]
    us = np.exp(np.array([0.0, 0.3, 0.7, 0.95]) * epsilon0)
    facts = Facts(bits, ones, length)
    found = np.exp([log_bits_delta(epsilon, facts, users, math.log(u)) for u in us])
    laws = [np.array(list(report_at(word, epsilon))) for word in inputs]
    assert np.all(worst_of(laws, users, us) <= found)


@pytest.mark.each_run(1)
@pytest.mark.parametrize("epsilon0", [0.5, 3.0])
@pytest.mark.parametrize("users", [2, 3, 4])
def test_never_below_the_worst_data_of_three_bits(epsilon0, users):
    """All data of up to three bits, and of those four bits of which any two differ in three or fewer at most."""
    epsilon, words = epsilon0 / 3, list(itertools.product((0, 1), repeat=3))
    wider = [(a, b, c, (a + b + c) % 2) for a, b, c in words if (a, b, c) not in ((1, 1, 1), (1, 1, 0))]
    wider = [word for word in wider if all(sum(x != y for x, y in zip(word, w, strict=True)) <= 3 for w in wider)]
    us = np.exp(np.array([0.0, 0.3, 0.7, 0.95]) * epsilon0)
    found = np.exp([log_bits_delta(epsilon, Facts(3), users, math.log(u)) for u in us])
    for inputs in (words, wider):
        laws = [np.array([float(x) for x in report_at(word, epsilon)]) for word in inputs]
        assert np.all(worst_of(laws, users, us) <= found)


def report_at(word, epsilon):
    told = 1 / (1 + math.exp(-epsilon))
    for seen in itertools.product((0, 1), repeat=len(word)):
        yield math.prod(told if a == b else 1 - told for a, b in zip(word, seen, strict=True))


def worst_of(laws, users, us):
    """The largest hockey-stick divergences over all neighbouring data of so many users."""
    outcomes, tables, level = laws[0].size, [], [()]
    for _ in range(users):
        after = {}
        tables.append(
            [[after.setdefault(tuple(sorted((*seen, z))), len(after)) for z in range(outcomes)] for seen in level]
        )
        level = list(after)

    def more(law, size, report):
        table = np.array(tables[size])
        return np.bincount(table.ravel(), (law[:, None] * report).ravel(), minlength=table.max() + 1)

    worst = np.zeros(us.size)
    for others in itertools.combinations_with_replacement(laws, users - 1):
        law = np.ones(1)
        for size, report in enumerate(others):
            law = more(law, size, report)
        ends = [more(law, users - 1, report) for report in laws]
        for first, second in itertools.permutations(ends, 2):
            worst = np.maximum(worst, np.maximum(first - us[:, None] * second, 0.0).sum(axis=1))
    return worst


@pytest.mark.each_run(1)
@pytest.mark.parametrize("u", [1.0, 1.7, 3.0])
def test_never_below_four_users(u):
    laws = [report(word, 2) for word in TRIANGLE]
    bound = math.exp(log_bits_delta(math.log(2), Facts(2), 4, math.log(u)))
    for others in itertools.combinations_with_replacement(laws, 3):
        assert hockey_stick(shuffled([laws[0], *others]), shuffled([laws[1], *others]), u) <= bound


# --- parts of the bound ---------------------------------------------------------------------------------------


def values(epsilon, kind, u):
    """Values of W (A - u B) and their probabilities, from single ratios."""
    m, k, i = kind
    t = mpmath.exp(epsilon)
    found = []
    for flips in itertools.product((0, 1), repeat=m + k + i):
        ratios = [t if flip else 1 / t for flip in flips]
        mass = mpmath.fprod([1 / (1 + t) if flip else t / (1 + t) for flip in flips])
        shared, first, second = (mpmath.fprod(part) for part in (ratios[:m], ratios[m : m + k], ratios[m + k :]))
        found.append((shared * (first - u * second), mass))
    return found


@pytest.mark.parametrize(("epsilon", "theta", "away"), [(1e-3, 30.0, 1e-4), (0.4, 0.3, 0.05), (1.0, 2.0, 3.0)])
def test_moments_in_high_precision(epsilon, theta, away):
    bits = 4
    numbers = np.stack(kinds(bits), axis=1)
    found = np.empty((bits + 1, 4))
    fill_moments(theta, away, *products(epsilon, bits), numbers, found)
    with mpmath.workdps(40):
        for row, kind in zip(found, numbers.astype(int).tolist(), strict=True):
            atoms = values(mpmath.mpf(epsilon), kind, 1 + mpmath.mpf(away))
            total = mpmath.fsum(mass * mpmath.exp(theta * y) for y, mass in atoms)
            tilted = [(y, mass * mpmath.exp(theta * y) / total) for y, mass in atoms]
            mean = mpmath.fsum(y * mass for y, mass in tilted)
            variance, fourth = (mpmath.fsum((y - mean) ** n * mass for y, mass in tilted) for n in (2, 4))
            assert abs(row[0] - mpmath.log(total)) < 1e-13 * max(1e-3 * theta, abs(row[0]))
            assert row[1] == pytest.approx(float(mean), rel=1e-9)
            # rounding is on the safe side
            assert -1e-11 < (row[2] - variance) / (variance + mean**2) < 0
            assert 0 < (row[3] - fourth) / (fourth + mean**2 * variance + mean**4) < 1e-9


def convolved(parts):
    law = {0: Fraction(1)}
    for atoms in parts:
        after = {}
        for total, mass in law.items():
            for y, share in atoms.items():
                after[total + y] = after.get(total + y, 0) + mass * share
        law = after
    return law


def law_of(kind, u):
    """Y's values and probabilities at odds of 2."""
    law = {}
    for flips in itertools.product((0, 1), repeat=sum(kind)):
        ratios = [Fraction(2) if flip else Fraction(1, 2) for flip in flips]
        mass = math.prod((Fraction(1, 3) if flip else Fraction(2, 3) for flip in flips), start=Fraction(1))
        m, k = kind[0], kind[0] + kind[1]
        y = math.prod(ratios[:m]) * (math.prod(ratios[m:k]) - u * math.prod(ratios[k:]))
        law[y] = law.get(y, 0) + mass
    return law


@pytest.mark.each_run(5)
@pytest.mark.parametrize("u", [Fraction(1), Fraction(5, 4), Fraction(2)])
@pytest.mark.parametrize("numbers", [(12, 0, 0), (0, 12, 0), (0, 0, 12), (4, 4, 4), (1, 0, 11)])
def test_sums_of_any_mixture_are_below_the_bound(u, numbers):
    """All kinds of two bits at odds of 2, mixed, in rationals: every theta holds, and the chosen one is near."""
    atoms = [law_of(kind, u) for kind in np.stack(kinds(2), axis=1).astype(int).tolist()]
    law = convolved([atoms[kind] for kind, number in enumerate(numbers) for _ in range(number)])
    exact = float(sum(mass * max(total, 0) for total, mass in law.items()))
    ratios, rows, away = products(math.log(2), 2), np.stack(kinds(2), axis=1), float(u - 1)
    best = tilt(ratios, rows[1], away, 12.0, 1)
    for theta in (0.1 * best, 0.6 * best, best, 2.0 * best):
        found = np.empty((3, 4))
        fill_moments(theta, away, *ratios, rows, found)
        assert log_sums(theta, found, np.array([12.0]))[0] >= math.log(exact)
        # between nodes for 12 slots and, with the same nodes, fewer
        between = log_sums_between_nodes(theta, away, ratios, rows, found, np.array([12.0, 12.0]))
        assert between[0] == between[1]
        assert math.log(exact) <= between[0]
    found = np.empty((3, 4))
    fill_moments(best, away, *ratios, rows, found)
    assert log_sums(best, found, np.array([12.0]))[0] < math.log(exact) + 3.0
    between = log_sums_between_nodes(best, away, ratios, rows, found, np.array([12.0]))[0]
    # the worst of all kinds is what it is near to
    assert between < worst_sum(12, u) + 0.3


def worst_sum(number, u):
    """The largest log E (Y_1 + ... + Y_M)_+ of one kind of two bits at odds of 2."""
    found = []
    for kind in np.stack(kinds(2), axis=1).astype(int).tolist():
        law = convolved([law_of(kind, u)] * number)
        found.append(math.log(float(sum(mass * max(total, 0) for total, mass in law.items()))))
    return max(found)


@pytest.mark.parametrize("u", [Fraction(1), Fraction(3)])
def test_sums_of_few_are_below_the_bound_between_nodes(u):
    """Two to five slots, of all mixtures."""
    ratios, rows, away = products(math.log(2), 2), np.stack(kinds(2), axis=1), float(u - 1)
    laws = [law_of(kind, u) for kind in rows.astype(int).tolist()]
    theta, found = tilt(ratios, rows[1], away, 5.0, 1), np.empty((3, 4))
    fill_moments(theta, away, *ratios, rows, found)
    numbers = np.arange(5.0, 1.0, -1.0)
    bounds = np.exp(log_sums_between_nodes(theta, away, ratios, rows, found, numbers))
    for number, bound in zip(numbers.astype(int).tolist(), bounds, strict=True):
        for parts in itertools.combinations_with_replacement(laws, number):
            assert float(sum(mass * max(total, 0) for total, mass in convolved(parts).items())) <= bound


@pytest.mark.parametrize(("epsilon", "theta", "away"), [(0.4, 0.3, 0.05), (1.0, 0.5, 3.0), (2.0, 0.01, 30.0)])
def test_characteristic_functions_in_high_precision(epsilon, theta, away):
    """At the nodes to 1e-12, and between them below the chord and what is added to it."""
    bits, segments = 3, np.array([[0.0, 0.3, 3.0], [0.9, 0.8, 3.0]])
    nodes = np.array([0.0, 0.3, 0.6, 0.9, 1.7, 2.5])
    numbers = np.stack(kinds(bits), axis=1)
    squares, found = np.empty((len(numbers), nodes.size)), np.empty((len(numbers), 4))
    fill_squares(theta, away, *products(epsilon, bits), numbers, segments, squares)
    fill_moments(theta, away, *products(epsilon, bits), numbers, found)
    with mpmath.workdps(30):
        for row, moments, kind in zip(squares, found, numbers.astype(int).tolist(), strict=True):
            atoms = values(mpmath.mpf(epsilon), kind, 1 + mpmath.mpf(away))
            total = mpmath.fsum(mass * mpmath.exp(theta * y) for y, mass in atoms)

            def square(w, atoms=atoms, total=total):
                phi = mpmath.fsum(mass * mpmath.exp((theta + 1j * mpmath.mpf(w)) * y) for y, mass in atoms)
                return float(abs(phi / total) ** 2)

            assert [square(w) for w in nodes] == pytest.approx(row.tolist(), abs=1e-12)
            for a, b, left, right in zip(nodes, nodes[1:], row, row[1:], strict=False):
                most = (left + right) / 2 + moments[2] * (b - a) ** 2 / 4
                assert square((a + b) / 2) <= most * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "bits", "users"),
    [(1e-6, 3, 3), (0.1, 5, 3), (0.1, 5, 1000), (1.0, 4, 300), (4.0, 4, 10**12), (0.3, 2, 40), (8.0, 2, 10**12)],
)
def test_blocks_of_slots_hold_the_geometric_distribution(epsilon, bits, users):
    found = slots(epsilon, Facts(bits), users)
    assert isinstance(found, Slots)
    assert found.masses.sum() + found.none == pytest.approx(1.0, abs=1e-12)
    most, common = users, math.exp(-epsilon * bits)
    if bits == 2 or users == 3:
        # the larger share hides among one user less: where inputs all but agree that is not worth it
        other = (2 / (1 + math.exp(epsilon))) ** bits
        most, common = (users - 1, other) if 1 / common - 1 / other > 1 else (users, common)
    assert found.fewest.min() >= 1
    assert found.fewest.max() <= most
    reached = 0
    for fewest, mass in zip(found.fewest.tolist(), found.masses.tolist(), strict=True):
        # J in [reached, end) leaves more than most - end slots
        end = int(most + 1 - fewest)
        exact = math.exp(reached * math.log1p(-common)) - math.exp(end * math.log1p(-common))
        assert mass == pytest.approx(exact, rel=1e-9, abs=1e-300)
        reached = end
    assert slots(epsilon, Facts(bits), 2) == Slots(np.array([2.0]), np.ones(1), 0.0)


# --- attacks: the other users all have one input ----------------------------------------------------------------


def attacked(epsilon, kind, users, point):
    """A lower bound on delta: the sum of `users` values, each rounded down to a grid, by discrete Fourier transform."""
    y, mass = values_of(products(epsilon, max(2, *kind)), kind, math.exp(point))
    mean = float(mass @ y)
    deviation = math.sqrt(float(mass @ (y - mean) ** 2))
    size = 2**18 if users <= 1000 else 2**20
    # a sum beyond half a turn from its mean would be taken for another
    half = max(12 * deviation * math.sqrt(users), 1.5 * users * abs(mean), float(y.max()))
    step = 2 * half / size
    atoms = np.floor(y / step).astype(np.int64)
    law = np.bincount(atoms % size, mass, minlength=size)
    total = np.fft.irfft(np.fft.rfft(law) ** users, size)
    first = math.floor(users * float(mass @ atoms)) - size // 2
    sums = first + (np.arange(size) - first) % size
    return float(total @ np.maximum(sums, 0)) * step / users - 1e-12 * deviation


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "delta"),
    audit_after(
        4,
        [
            (0.5, 2, 1000, 1e-6),
            (2.0, 32, 1000, 1e-6),
            (4.0, 2, 1000, 1e-6),
            (2.0, 8, 200, 1e-6),
            (1.0, 8, 1000, 1e-6),
            (2.0, 8, 1000, 1e-6),
            (4.0, 8, 10_000, 1e-6),
        ],
    ),
)
def test_within_five_percent_of_an_attack(epsilon0, bits, users, delta):
    """The others differ from either input in all bits, as three sets of which no two have an element in common."""
    local = ac.RandomizedResponse(epsilon0 / bits, bits)
    check_five_percent(local, [(bits // 2,) * 3], users, delta)


@pytest.mark.audit
@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "delta"),
    audit_after(
        3, [(4.0, 8, 328, 1e-6), (4.0, 2, 1000, 1e-6), (2.0, 2, 100, 1e-6), (2.0, 8, 100, 1e-6), (4.0, 8, 1000, 1e-6)]
    ),
)
def test_within_five_percent_where_ones_are_known(epsilon0, bits, users, delta):
    """The same attack on sets of half as many elements, also with users too few to know it without that."""
    local = ac.RandomizedResponse(epsilon0 / bits, bits, ones=bits // 2)
    check_five_percent(local, [(bits // 2,) * 3], users, delta)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("epsilon0", "bits", "users", "delta"),
    audit_after(3, [(2.0, 2, 1000, 1e-6), (2.0, 2, 100, 1e-6), (2.0, 8, 200, 1e-6), (4.0, 8, 1000, 1e-6)]),
)
def test_within_five_percent_of_words(epsilon0, bits, users, delta):
    """Every word is an input: the others all have the first one, or the second."""
    local = ac.RandomizedResponse(epsilon0 / bits, bits, length=bits)
    check_five_percent(local, [(0, bits, 0), (0, 0, bits)], users, delta)


def check_five_percent(local, several, users, delta):
    found = ac.shuffled_epsilon(local, users, delta)
    assert max(attacked(local.epsilon, kind, users, found) for kind in several) <= delta
    assert max(attacked(local.epsilon, kind, users, found / 1.05) for kind in several) > delta
    for point in (0.0, 0.3 * found, 0.7 * found):
        known = ac.shuffled_delta(local, users, point)
        assert all(attacked(local.epsilon, kind, users, point) <= known for kind in several)


def values_of(rows, kind, u):
    """Values of W (A - u B) and their probabilities, by rounded numbers."""
    m, k, i = kind
    shared, first, second = (1 + rows.excess[j, : j + 1] for j in kind)
    y = shared[:, None, None] * (first[:, None] - u * second[None, :])[None]
    mass = rows.masses[m, : m + 1, None, None] * rows.masses[k, : k + 1, None] * rows.masses[i, : i + 1]
    return y.ravel(), mass.ravel()


@st.composite
def draw_kinds(draw):
    """Bits, and numbers of bits in which three inputs differ, any two of them in at most so many."""
    bits = draw(st.integers(2, 7))
    i = draw(st.integers(0, bits))
    k = draw(st.integers(0, bits - i))
    return bits, (draw(st.integers(0, bits - max(i, k))), k, i)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(draw_kinds(), st.floats(0.02, 6.0), st.floats(0.3, 3.5), st.floats(0.0, 0.99))
@example((3, (2, 1, 1)), 3.6, 3.5, 0.01)
@example((5, (3, 2, 2)), 6.0, 3.5, 0.01)
def test_never_below_an_attack(drawn, epsilon0, log_users, share):
    (bits, kind), users = drawn, round(10**log_users)
    epsilon, u = epsilon0 / bits, math.exp(share * epsilon0)
    found = log_bits_delta(epsilon, Facts(bits), users, share * epsilon0)
    y, chance = values_of(products(epsilon, bits), kind, u)
    step = math.sqrt(float(chance @ y**2)) / 100
    atoms = np.floor(y / max(step, 1e-300)).astype(np.int64)
    size = min(2 ** math.ceil(math.log2(2.2 * users * (np.abs(atoms).max() + 1) + 1)), 2**21)
    law = np.fft.irfft(np.fft.rfft(np.bincount(atoms % size, chance, minlength=size)) ** users, size)
    lower = float(law[: size // 2] @ np.arange(size // 2)) * step / users
    assert lower - 1e-11 * float(np.abs(y).max()) <= math.exp(found) * (1 + 1e-12)


@pytest.mark.parametrize("bits", range(1, 12))
def test_only_these_kinds_count(bits):
    """Every kind is below one of them: by adding bits, or by turning bits of m into one of k and one of i each.

    Where the changed user's inputs are equal (k = i = 0) nothing is told.
    """
    ends = {tuple(kind) for kind in np.stack(kinds(bits), axis=1).astype(int).tolist()}
    for i in range(bits + 1):
        for k in range(max(1 - i, 0), bits + 1 - i):
            for m in range(bits + 1 - max(i, k)):
                above = [(m - n, k + n, i + n) for n in range(m + 1)]
                assert any(all(x <= y for x, y in zip(one, end, strict=True)) for one in above for end in ends)


@pytest.mark.parametrize("bits", range(1, 9))
def test_only_these_kinds_count_in_short_reports(bits):
    """As above, while there is room for another bit; in long reports they are those of any length."""
    for length in range(bits, 2 * bits + 2):
        ends = set(map(tuple, np.stack(kinds(bits, length), axis=1).astype(int).tolist()))
        if length >= bits + bits // 2:
            assert ends == set(map(tuple, np.stack(kinds(bits), axis=1).astype(int).tolist()))
            continue
        assert all(sum(end) <= length and max(sum(end) - each for each in end) <= bits for end in ends)
        for i in range(bits + 1):
            for k in range(bits + 1 - i):
                for m in range(min(bits - max(i, k), length - k - i) + 1):
                    above = [(m - n, k + n, i + n) for n in range(min(m, length - m - k - i) + 1)]
                    above = [one for one in above if one[1] + one[2] <= bits]
                    assert any(all(x <= y for x, y in zip(one, end, strict=True)) for one in above for end in ends)
    assert kinds(33, 33)[0].size == 35  # too many for a sum at every point


@pytest.mark.audit
@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(2, 6), st.floats(0.05, 6.0), st.floats(0.5, 3.5), st.floats(0.0, 0.95), st.data())
def test_what_is_known_never_costs(bits, epsilon0, log_users, share, data):
    users = round(10**log_users)
    ones = data.draw(st.just(0) | st.integers((bits + 1) // 2, 2 * bits))
    length = data.draw(st.just(0) | st.integers(bits, 4 * bits))
    before, after = (
        log_bits_delta(epsilon0 / bits, Facts(bits, *known), users, share * epsilon0)
        for known in ((0, 0), (ones, length))
    )
    # thetas are found for other numbers of slots, and no race, which is nearer, is run where these cost little
    assert after <= before + 0.12


@pytest.mark.parametrize(("bits", "epsilon", "users"), [(3, 1.2, 10**5), (3, 0.5, 10**5), (5, 0.8, 10**6)])
def test_an_odd_number_of_bits(bits, epsilon, users):
    """Inputs may differ in all but one bit, and the others in (b + 1)/2 from both: worse where the odds are large."""
    half, found, ratio = bits // 2, [], 2 * math.cosh(epsilon) - 1
    for m, k, i in ((half, half + 1, half), (half + 1, half, half)):
        found.append(ratio**m * (ratio**k + ratio**i - 2))
    deviation = math.sqrt(max(found) / users)
    assert (found[1] > found[0]) == (ratio**half > 2)
    delta = math.exp(log_bits_delta(epsilon, Facts(bits), users, 0.0))
    assert 1.0 < delta / (deviation / math.sqrt(2 * math.pi)) < 1.05


def test_facts_change_nothing_else(tmp_path):
    plain = ac.RandomizedResponse(0.5, 4, "replace")
    known = ac.RandomizedResponse(0.5, 4, "replace", ones=2, length=10)
    assert known != plain
    assert np.all(known.renyi([1.5, 8.0, math.inf]) == plain.renyi([1.5, 8.0, math.inf]))
    assert ac.epsilon(3 * known, 1e-5, method="tight").epsilon == ac.epsilon(3 * plain, 1e-5, method="tight").epsilon
    assert known._with_coordinates(100) == ac.RandomizedResponse(0.5, 100, "replace")
    path = tmp_path / "plan.toml"
    path.write_text((2 * known).to_toml(1e-5))
    assert ac.load_plan(path).composition == 2 * known


@pytest.mark.parametrize(
    ("name", "facts"), [("ones", (1, 0)), ("length", (0, 3)), ("ones", (-1, 0)), ("length", (0, 2.5))]
)
def test_facts_that_cannot_be(name, facts):
    with pytest.raises(ac.ParameterError, match=f"{name} = "):
        ac.RandomizedResponse(0.5, 4, "replace", ones=facts[0], length=facts[1])


# --- work ---------------------------------------------------------------------------------------------------


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("bits", "epsilon0", "users"),
    [
        pytest.param(6, 2.0, 60, marks=pytest.mark.audit),
        pytest.param(16, 6.0, 10**5, marks=pytest.mark.audit),
        (64, 8.0, 100),
        (5, 1.0, 5000),
        pytest.param(3, 1.0, 16, marks=pytest.mark.audit),
    ],
)
def test_work_is_told_before_it_starts(bits, epsilon0, users, monkeypatch):
    """What every 16th point takes, or a race about, tells what all do, within a factor; known results count alike."""
    local = ac.RandomizedResponse(epsilon0 / bits, bits)
    grid_pair.cache_clear()
    with tally_work() as told:
        losses, log_masses = grid_pair(local, users)
    with tally_work() as again:
        grid_pair(local, users)
    taken = patience.Allowance(math.inf)

    def counted(*args, **options):
        token = patience._current.set(taken)
        try:
            return log_round_delta(*args, **options)
        finally:
            patience._current.reset(token)

    grid_pair.cache_clear()
    monkeypatch.setattr(rounds, "log_round_delta", counted)
    grid_pair(local, users)
    assert again == told
    assert taken.spent / 3.0 < told[0] < 3.0 * taken.spent
    # and every value is used, or above the polygon between others
    assert np.exp(np.logaddexp.reduce(log_masses)) == pytest.approx(1.0, abs=1e-9)
    assert set(losses[losses > 0].tolist()) <= set(grid(local, users).tolist())


def test_more_work_than_patience_is_refused_at_once():
    run = 2 * ac.Shuffled(ac.RandomizedResponse(4.0 / 64, 64), 300)
    for _ in range(2):
        with pytest.raises(
            ac.OutOfPatience, match=r"a round of shuffled bits would take about .* patience = 0.5"
        ) as error:
            ac.epsilon(run, 1e-6, method="tight", patience=0.5)
        assert 1.0 < error.value.seconds < 20.0


@pytest.mark.parametrize(("bits", "epsilon", "users"), [(2, 1.0, 100), (7, 0.5, 1000), (16, 0.1, 10**6)])
def test_thetas_near_others_are_as_good(bits, epsilon, users):
    """From any start the search ends near the same theta, so that the bound is the same but for its square."""
    numbers, ratios = np.stack(kinds(bits), axis=1), products(epsilon, bits)
    kind, away = numbers[bits // 2], math.expm1(0.1 * bits * epsilon)
    both = int(numbers[numbers[:, 2] > 0, 0].max())
    best = tilt(ratios, kind, away, float(users), both)
    for start in (0.01 * best, 0.8 * best, best, 1.3 * best):
        assert tilt(ratios, kind, away, float(users), both, start) == pytest.approx(best, rel=3e-3)


# --- limits -----------------------------------------------------------------------------------------------------


def test_limits():
    assert log_bits_delta(0.5, Facts(65), 1000, 0.1) == math.inf
    assert log_bits_delta(5.0, Facts(4), 1000, 0.1) == math.inf
    assert log_bits_delta(0.5, Facts(4), 1, 0.1) == math.inf
    assert log_bits_delta(0.0, Facts(4), 10, 0.0) == math.inf
    assert log_bits_delta(0.5, Facts(4), 1000, 2.0) == math.inf
    # total variation falls as the root of the number of users
    few, many = (log_bits_delta(0.25, Facts(8), users, 0.0) for users in (10**6, 10**12))
    assert few - many == pytest.approx(math.log(1e3), abs=0.05)
    # one bit costs less than other local randomizers with its epsilon
    assert ac.shuffled_epsilon(ac.RandomizedResponse(1.0), 1000, 1e-6) < 0.97 * ac.shuffled_epsilon(1.0, 1000, 1e-6)


@pytest.mark.audit
@pytest.mark.parametrize("bits", [2, 3, 33])
@pytest.mark.parametrize("users", audit_after(2, [1000, 10**12, 2, 10**6]))
@pytest.mark.parametrize("epsilon0", audit_after(3, [15.9, 0.5, 1e-6, 4.0]))
def test_falls_with_epsilon_and_users(bits, users, epsilon0):
    points = np.array([0.0, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.999]) * epsilon0
    found = np.array([ac.shuffled_delta(ac.RandomizedResponse(epsilon0 / bits, bits), users, x) for x in points])
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) <= 1e-6 * found[:-1] + 1e-200)


def test_rounds_of_bits():
    """Of many rounds the price is that of nearly normal losses, and no more than 2 % above the attack's."""
    local, users = ac.RandomizedResponse(0.25, 8), 10**5
    alone, many = (ac.epsilon(r * ac.Shuffled(local, users), 1e-6, method="tight", tolerance=0.02) for r in (1, 100))
    assert ac.shuffled_epsilon(local, users, 1e-6) <= alone.epsilon * (1 + 1e-9)
    ratio = 2 * math.cosh(0.25) - 1
    sigma = math.sqrt(users / (2 * ratio**8 - 2 * ratio**4))
    normal = ac.epsilon(100 * ac.Gaussian(sigma), 1e-6, method="tight").epsilon
    assert normal * 0.995 < many.epsilon < normal * 1.02


@pytest.mark.parametrize(
    ("bits", "epsilon0", "users"), [(8, 4.0, 60), pytest.param(17, 5.0, 1000, marks=pytest.mark.audit)]
)
def test_rounds_of_many_bits_are_raced_where_patience_is_enough(bits, epsilon0, users, monkeypatch):
    """Slots alone say several times as much; what is said hangs on the patience, not on what was asked before."""
    monkeypatch.setattr("accountant.events.shuffled_rounds.MANY_BITS", min(bits - 1, 16))
    run = 2 * ac.Shuffled(ac.RandomizedResponse(epsilon0 / bits, bits), users)

    def prices(seconds):
        return [ac.epsilon(run, 1e-6, method=method, patience=seconds) for method in ("auto", "renyi")]

    much, little = prices(60.0), prices(3.0)
    grid_pair.cache_clear()
    again = [prices(seconds) for seconds in (3.0, 60.0, 3.0)]
    assert again == [little, much, little]
    assert much[0].lower <= much[0].epsilon < 0.4 * little[0].epsilon
    assert much[0].epsilon <= much[1].epsilon < 0.7 * little[1].epsilon
    grid_pair.cache_clear()  # its words hang on the number of bits that count as many


@pytest.mark.each_run(30)
@pytest.mark.parametrize("epsilon", [1e-300, 1e-200, 1e-30, 1e-20, 1e-17, 1e-15])
@pytest.mark.parametrize("bits", [2, 3, 40])
@pytest.mark.parametrize("users", [3, 1000])
def test_tiny_epsilons_cost_at_most_what_they_do_alone(epsilon, bits, users):
    """To first order in epsilon, alone: E (L - e)_+, L the sum of as many even signs times epsilon."""
    local = ac.RandomizedResponse(epsilon, bits)
    for share in (0.0, 0.5, 0.9):
        told = sum(math.comb(bits, k) * max(2 * k - bits - share * bits, 0.0) for k in range(bits + 1)) / 2.0**bits
        found = ac.shuffled_delta(local, users, share * bits * epsilon)
        assert 0 < found <= epsilon * told * (1 + 1e-7)
