"""Lower ends of shuffled rounds: inputs of all users that reach them, by enumeration and in rationals."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant.events.shuffled_attacks import attacks_on, bits_of, kinds_that_may_be
from accountant.events.shuffled_below import law_of_sums, pair_of_sums, pairs_below, pairs_of, points_of
from accountant.events.shuffled_inputs import Facts
from accountant.plan import parse_plan
from accountant.summary import assumptions
from tests.accountant.events.test_shuffled_bits import report_at
from tests.accountant.test_shuffling import collision, exact_worst, with_report
from tests.cases import audit_after

RR = ac.RandomizedResponse
SLACK = 1 + 1e-9


def laws_of_words(epsilon, words):
    return np.array([list(report_at(word, epsilon)) for word in words])


def all_words(length):
    return list(itertools.product((0, 1), repeat=length))


@pytest.mark.parametrize(
    ("local", "users", "epsilon", "known"),
    [(RR(10 / 17, 17), 6, 1.0, 0.467), (RR(10 / 17, 17), 6, 2.0, 0.290), (RR(1.0, 8, length=8), 100, 4.0, 2.2e-5)],
)
def test_large_scores_of_few_users_are_not_cut_off(local, users, epsilon, known):
    """Of six users drawn a million times, 0.4670 and 0.2901 (deviation 0.0004); 0.439 and 0.279 were said, and 0."""
    found = ac.delta(ac.Shuffled(local, users), epsilon, patience=30.0)
    assert 0.98 * known <= found.lower <= min(1.005 * known, found.delta)


def test_wider_grids_take_no_lower_end_away():
    """They took what patience was left: 17 bits of 100 users had 0 for 0.978, three rounds of 32 bits 0 for 0.0719."""
    assert ac.epsilon(ac.Shuffled(RR(5 / 17, 17), 100), 1e-6).lower > 0.97
    assert ac.epsilon(3 * ac.Shuffled(RR(1 / 16, 32), 1000), 1e-6).lower > 0.0715


@pytest.mark.parametrize("local", [RR(5 / 17, 17), RR(5 / 40, 40)])
def test_lower_ends_hang_on_the_patience_and_not_on_what_was_asked_before(local):
    """What was found with little patience was returned to those with more, and the other way round was refused."""
    event = ac.Shuffled(local, 300)
    found = {seconds: clean_price(event, seconds) for seconds in (0.6, 60.0)}
    again = {seconds: ac.epsilon(event, 1e-6, patience=seconds) for seconds in (0.6, 60.0, 0.6)}
    assert found[60.0].lower > found[0.6].lower > 0.9 * found[60.0].lower
    for seconds, price in again.items():
        assert (price.lower, price.epsilon) == (found[seconds].lower, found[seconds].epsilon)


def clean_price(event, seconds):
    pairs_of.cache_clear()
    return ac.epsilon(event, 1e-6, patience=seconds)


@pytest.mark.parametrize(("bits", "near"), [(12, 1.006), (14, 1.1)])
def test_many_bits_of_few_users_are_priced_in_the_usual_patience(bits, near):
    """They were refused: a race was counted ten times too long, and what knows nearly as much was not asked."""
    found = ac.epsilon(ac.Shuffled(RR(2 / bits, bits), 100), 1e-6)
    assert found.lower <= found.epsilon < near * found.lower


def test_without_patience_for_a_race_much_is_not_paid_for():
    with pytest.raises(ac.OutOfPatience, match="patience = "):
        ac.epsilon(ac.Shuffled(RR(5 / 16, 16), 60), 1e-6)
    with pytest.raises(ac.OutOfPatience, match="patience = "):  # slots would say 0.92
        ac.shuffled_epsilon(RR(3 / 14, 14), 210, 1e-6, patience=1.5)
    assert ac.shuffled_epsilon(RR(3 / 14, 14), 210, 1e-6, patience=30.0) < 0.272
    assert ac.delta(ac.Shuffled(RR(1 / 8, 16), 100), 0.4, patience=20.0).delta < 3e-15


@pytest.mark.parametrize(("local", "users"), [(RR(3 / 17, 17), 301), (RR(3 / 18, 18), 60)])
def test_more_patience_refuses_nothing_that_less_prices(local, users):
    """A race was begun without patience for what is computed beside it."""
    found = [ac.shuffled_epsilon(local, users, 1e-5, patience=seconds) for seconds in (2.0, 3.8, 4.5, 5.0, 20.0)]
    assert found == sorted(found, reverse=True)


# --- one user -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("local", [RR(1.0, 3, length=3), RR(0.7, 5), RR(2.0), ac.Collision(1.0, 3, 4), ac.PureDP(1.5)])
@pytest.mark.parametrize("share", [0.0, 0.3, 2 / 3, 0.95])
def test_one_user_costs_what_the_report_does(local, share):
    """Both ends were those of a pair above it: 0.428 for 0.247, and the lower one was no lower bound."""
    epsilon = share * float(local.renyi(math.inf))
    found, own = ac.delta(ac.Shuffled(local, 1), epsilon, method="tight"), ac.delta(local, epsilon, method="tight")
    assert found.lower == pytest.approx(own.lower, rel=1e-9)
    assert found.delta == pytest.approx(own.delta, rel=1e-9)
    assert own.lower / SLACK <= ac.shuffled_delta(local, 1, epsilon) <= own.delta * SLACK


def test_one_user_in_rationals():
    odds = Fraction(math.exp(1.0))
    laws = [Fraction(math.comb(3, k)) * odds**k / (1 + odds) ** 3 for k in range(4)]  # of bits told truly
    u = Fraction(math.exp(2.0))
    exact = float(sum(max(laws[k] - u * laws[3 - k], Fraction(0)) for k in range(4)))
    assert exact == pytest.approx(0.2469769645, rel=1e-9)
    found = ac.delta(ac.Shuffled(RR(1.0, 3, length=3), 1), 2.0, method="tight")
    assert exact * (1 - 1e-8) <= found.lower <= exact * SLACK
    assert exact / SLACK <= found.delta <= exact * (1 + 1e-8)


@pytest.mark.parametrize(
    ("local", "users"),
    [
        (RR(2.1, 3, length=3), 2),
        pytest.param(RR(2.1, 5), 2, marks=pytest.mark.audit),
        (RR(0.7, 4, length=4), 2),
        (ac.Collision(2.0, 3, 4), 2),
        (RR(9.0, 2), 100),
    ],
)
def test_no_round_costs_more_than_one_report(local, users):
    epsilons = np.linspace(0.0, 0.999, 60) * float(local.renyi(math.inf))
    own = local._log_profile(epsilons)[0]
    assert np.all(ac.Shuffled(local, users)._log_profile(epsilons)[0] <= own + 1e-8)
    shuffled = [ac.shuffled_delta(local, users, epsilon) for epsilon in epsilons[::10].tolist()]
    assert np.all(np.array(shuffled) <= np.exp(own[::10]) * SLACK)


# --- all data of few users ----------------------------------------------------------------------------------

EVEN = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]

ENUMERATED = [
    # randomizer, laws of its inputs, users, and how near the lower end is to the worst of all data
    (RR(0.6245, 2), laws_of_words(0.6245, EVEN), 3, 0.999),
    (RR(2.1, 3, length=3), laws_of_words(2.1, all_words(3)), 2, 0.999),
    (RR(0.5, 2, length=2), laws_of_words(0.5, all_words(2)), 4, 0.98),
    (RR(0.5, 2), laws_of_words(0.5, EVEN), 3, 0.98),
    (RR(1.5), laws_of_words(1.5, all_words(1)), 6, 0.98),
    (RR(0.8, 2, ones=1, length=3), laws_of_words(0.8, [w for w in all_words(3) if sum(w) <= 1]), 3, 0.98),
    (ac.Collision(2.0, 1, 4), collision(2.0, 1, 4), 3, 0.95),
    (ac.Collision(1.0, 2, 4), collision(1.0, 2, 4), 3, 0.8),
    (ac.Collision(2.0, 2, 3), collision(2.0, 2, 3), 2, 0.8),
]


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("local", "laws", "users", "near"),
    audit_after(8, ENUMERATED[1:] + ENUMERATED[:1]),
    ids=lambda value: str(value)[:45],
)
def test_lower_ends_are_below_the_worst_of_all_data(local, laws, users, near):
    end = float(ac.Shuffled(local, users)._largest_loss())
    epsilons = np.array([0.0, 0.1, 0.32, 0.6, 0.9]) * end
    worst = exact_worst(laws, users, epsilons)
    for epsilon, exact in zip(epsilons.tolist(), worst.tolist(), strict=True):
        found = ac.delta(ac.Shuffled(local, users), epsilon, method="tight", tolerance=0.5)
        assert exact * near <= found.lower <= exact * SLACK, epsilon
        assert exact / SLACK <= found.delta


@pytest.mark.parametrize("share", [0.0, 0.4, 0.8])
def test_any_randomizer_costs_what_one_of_two_or_three_values_does(share):
    worst = max(exact_worst(collision(2.0, 1, values), 3, [2.0 * share])[0] for values in (2, 3))
    found = ac.delta(ac.Shuffled(2.0, 3), 2.0 * share, method="tight", tolerance=0.5)
    assert 0.9 * worst <= found.lower <= worst * SLACK
    assert worst / SLACK <= found.delta


@pytest.mark.audit
def test_what_the_price_of_words_without_a_known_length_was():
    """The lower end was 0.1458, of the pair above; all words of which any two differ in 2 bits reach 0.10639."""
    found = ac.delta(ac.Shuffled(RR(0.6245, 2), 3), 0.39975, method="tight")
    worst = exact_worst(laws_of_words(0.6245, EVEN), 3, [0.39975])[0]
    assert 0.1063 < found.lower <= worst * SLACK < 0.1064
    assert "Shuffled is known between two bounds only" in found.source


def test_words_that_differ_in_more_bits_hide_less():
    """What `bits` stands for: beside a user whose word is farther away the price with fewer bits is too small."""
    laws = laws_of_words(0.6245, [(0,) * 5, (1, 1, 0, 0, 0), (1,) * 5])
    u = math.exp(0.39975)
    sides = [with_report(with_report({(0,) * 32: 1.0}, laws[2]), law) for law in laws[:2]]
    exact = math.fsum(max(mass - u * sides[1][seen], 0.0) for seen, mass in sides[0].items())
    assert exact > ac.shuffled_delta(RR(0.6245, 2, length=5), 2, 0.39975)
    assert exact <= ac.shuffled_delta(RR(0.6245, 5, length=5), 2, 0.39975)
    assert exact == pytest.approx(0.1881342, abs=1e-7)


def test_rounds_are_below_what_data_reach():
    """Two rounds of three users with one bit: all inputs of both rounds."""
    laws = laws_of_words(1.0, all_words(1))
    rounds = []
    for others in itertools.combinations_with_replacement(laws, 2):
        counts = {(0, 0): 1.0}
        for law in others:
            counts = with_report(counts, law)
        sides = [np.array([mass for _, mass in sorted(with_report(counts, law).items())]) for law in laws]
        rounds += [sides, sides[::-1]]
    run = 2 * ac.Shuffled(RR(1.0), 3)
    for epsilon in (0.0, 0.3, 0.9, 1.5):
        u = math.exp(epsilon)
        worst = max(
            np.maximum(np.outer(p, r) - u * np.outer(q, s), 0.0).sum()
            for (p, q), (r, s) in itertools.product(rounds, repeat=2)
        )
        found = ac.delta(run, epsilon, method="tight", tolerance=0.5)
        assert 0.7 * worst <= found.lower <= worst * SLACK
        assert worst / SLACK <= found.delta


# --- attacks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [Facts(1), Facts(2), Facts(3), Facts(2, 0, 2), Facts(3, 0, 4), Facts(3, 2, 0), Facts(2, 1, 3), Facts(4, 2, 5)],
)
def test_kinds_are_of_words_that_may_be(facts):
    """Three words of the length, of as many ones, any two of which differ in no more bits."""
    words = all_words(facts.length or facts.bits + facts.bits // 2)
    words = [word for word in words if not facts.ones or sum(word) <= facts.ones]

    def differ(x, y):
        return sum(a != b for a, b in zip(x, y, strict=True))

    found = set()
    for r, x, y in itertools.product(words, repeat=3):
        if max(differ(r, x), differ(r, y), differ(x, y)) <= facts.bits:
            both = sum(a != b and b == c for a, b, c in zip(r, x, y, strict=True))
            found.add((both, differ(r, x) - both, differ(r, y) - both))
    kinds = kinds_that_may_be(facts)
    assert set(kinds) <= found
    assert (0, 0, facts.bits) in kinds
    assert max(sum(kind) for kind in kinds) == max(sum(kind) for kind in found if kind[1] + kind[2] >= facts.bits - 1)


@pytest.mark.parametrize("kind", [(0, 0, 2), (1, 2, 1), (2, 1, 1)])
@pytest.mark.parametrize("odds", [Fraction(11, 10), Fraction(20)])
def test_probabilities_of_flips_in_rationals(kind, odds):
    """Reports are one where both ratios are equal, and only there."""
    attack = bits_of(math.log(odds), kind)
    m, k, i = kind
    exact = {side: {} for side in ("first", "second", "others")}
    for a, b, c in itertools.product(range(m + 1), range(k + 1), range(i + 1)):
        for side, turned in (("first", (1, 1, 0)), ("second", (1, 0, 1)), ("others", (0, 0, 0))):
            mass = Fraction(1)
            for number, l, other in zip(kind, (a, b, c), turned, strict=True):  # noqa: E741
                l = number - l if other else l  # noqa: E741
                mass *= math.comb(number, l) * odds ** (number - l) / (1 + odds) ** number
            exact[side].setdefault((a + b, a + c), []).append(mass)
    for side, masses in exact.items():
        found = [float(sum(masses[place])) for place in sorted(masses)]
        assert getattr(attack, side) == pytest.approx(found, rel=1e-14)
    of_places = {
        place: {
            (p / r, q / r)
            for p, q, r in zip(*(exact[side][place] for side in ("first", "second", "others")), strict=True)
        }
        for place in exact["others"]
    }
    assert all(len(each) == 1 for each in of_places.values())
    assert len(set.union(*of_places.values())) == len(of_places)


@pytest.mark.parametrize(("c", "l"), [(1, 2), (1, 5), (2, 3), (3, 4), (3, 5), (2, 9), (4, 6)])
def test_buckets_of_inputs_that_may_be(c, l):  # noqa: E741
    """Three sets of c buckets: classes have the probabilities that inputs which hit these have."""
    t = math.exp(-1.3)
    omega = c + (l - c) * t
    likely = 1 / omega
    for attack in attacks_on(ac.Collision(1.3, c, l)):
        numbers = []
        for first, second, others in zip(attack.first, attack.second, attack.others, strict=True):
            sizes = {round(mass / (likely * share), 9) for mass in (first, second, others) for share in (1.0, t)}
            whole = [size for size in sizes if abs(size - round(size)) < 1e-6]
            numbers.append(whole)
            assert whole
        for law in (attack.first, attack.second, attack.others):
            assert np.all(law > 0)
            assert math.fsum(law.tolist()) == pytest.approx(1.0, rel=1e-14)
        ratio = attack.first / attack.second
        assert np.all(np.isclose(ratio, 1.0) | np.isclose(ratio, 1 / t) | np.isclose(ratio, t))


@pytest.mark.parametrize(("scores", "masses", "count", "size"), [
    ([-3, 0, 5], [Fraction(1, 3), Fraction(1, 2), Fraction(1, 6)], 9, 64),
    ([0, 1], [Fraction(999, 1000), Fraction(1, 1000)], 40, 32),
    ([-7, -1, 2, 11], [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5)], 1, 64),
    ([0, 1], [Fraction(1, 2), Fraction(1, 2)], 7, 16),
])  # fmt: skip
def test_sums_of_scores_in_rationals(scores, masses, count, size):
    exact = [Fraction(int(place == 0)) for place in range(size)]
    for _ in range(count):
        exact = [
            sum(mass * exact[(place - score) % size] for score, mass in zip(scores, masses, strict=True))
            for place in range(size)
        ]
    floats = np.array([float(mass) for mass in masses])
    found, error = law_of_sums(np.array(scores), floats, count, size)
    assert error < 1e-12
    assert np.max(np.abs(found - np.array([float(mass) for mass in exact]))) <= error


@pytest.mark.parametrize(("count", "chance"), [(1000, 0.3), (10**6, 0.25), (10**8, 1e-6)])
def test_many_scores_by_the_binomial_law(count, chance):
    size = 2**14
    found, error = law_of_sums(np.array([0, 1]), np.array([1 - chance, chance]), count, size)
    with mp.workdps(40):
        p = mp.mpf(chance)
        for offset in (-2.0, 0.0, 3.0):
            k = round(count * chance + offset * math.sqrt(count * chance * (1 - chance)))
            log_mass = mp.loggamma(count + 1) - mp.loggamma(k + 1) - mp.loggamma(count - k + 1)
            exact = float(mp.exp(log_mass + k * mp.log(p) + (count - k) * mp.log(1 - p)))
            # that of 1 - chance is rounded
            assert abs(found[k % size] - exact) <= error + 2.0**-53 * count * exact
            assert error < 1e-9 * float(found.max())


@pytest.mark.parametrize("kind", [(0, 0, 2), (0, 2, 0), (1, 1, 1), (2, 1, 1)])
@pytest.mark.parametrize("point", [0.0, 0.4, 0.9])
def test_a_sum_of_scores_tells_what_all_reports_do(kind, point):
    """At the epsilon it is made for: E (mean of Y)_+ of three users (Balle et al. 2019, Lemma 5.3)."""
    attack, u = bits_of(0.6, kind), math.exp(point)
    values = (attack.first - u * attack.second) / attack.others
    exact = sum(
        math.prod(attack.others[list(seen)]) * max(float(np.mean(values[list(seen)])), 0.0)
        for seen in itertools.product(range(values.size), repeat=3)
    )
    pair = pair_of_sums(attack, 3, point, 2**14).directed(ac.adjacency.DIRECTIONS[0])
    found = math.exp(float(pair._log_profile(np.array([point]))[0][0]))
    assert exact * 0.998 <= found <= exact * SLACK


@pytest.mark.each_run(1)
@pytest.mark.parametrize("users", audit_after(3, [2, 5000, 10**6, 30]))
def test_known_probabilities_are_no_more_than_all(users):
    above = ac.Shuffled(RR(0.5, 2), users)
    for pair in pairs_below(above.local, users, points_of(above.local, users, above)):
        assert pair.likely.sum() <= 1.0
        assert pair.other.sum() + 1e-9 >= 1.0 - 1e-6
        assert np.all(pair.likely > 0) and np.all(pair.other > 0)  # noqa: PT018


# --- how near the ends are ----------------------------------------------------------------------------------


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("local", "users", "near"),
    [
        (RR(1.0), 1000, 0.995),
        (RR(0.5, 2), 1000, 0.99),
        pytest.param(RR(1.0, 4), 1000, 0.97, marks=pytest.mark.audit),
        (4.0, 1000, 0.95),
        (ac.Collision(2.0, 4, 13), 1000, 0.99),
        pytest.param(ac.Collision(2.0, 4, 40), 50_000, 0.99, marks=pytest.mark.audit),
        pytest.param(ac.Collision(2.0, 4, 225), 10**6, 0.99, marks=pytest.mark.audit),
    ],
    ids=str,
)
def test_ends_are_near_each_other(local, users, near):
    found = ac.epsilon(ac.Shuffled(local, users), 1e-6, method="tight", tolerance=0.5)
    assert near * found.epsilon < found.lower <= found.epsilon


PLAN = """
delta = 1e-6
[[release]]
event = "shuffled"
n = 100
local = { event = "randomized-response", epsilon = 0.5, bits = 4, adjacency = "replace" }
"""


@pytest.mark.parametrize(("epsilon", "delta"), [(0.25, 1e-6), (2.0, 0.01)])
def test_two_users_are_priced_however_small_transforms_are(epsilon, delta):
    """Their law was wrong by 400 times what it said, and a check stopped the price."""
    found = ac.epsilon(ac.Shuffled(ac.Collision(epsilon, 2, 4), 2), delta)
    assert 0.0 < found.lower <= found.epsilon <= epsilon


def test_a_plan_says_which_inputs_differ():
    event = ac.Shuffled(RR(0.5, 4, ones=2, length=6), 100)
    said = event.caveats()
    assert said[0] == "the inputs of any two users, not of neighbours alone, differ in at most 4 bits"
    assert said[1:] == ("no input has more than 2 ones", "reports have at most 6 bits")
    assert ac.Shuffled(RR(0.5, 4), 100).caveats() == said[:1]
    plan = parse_plan("counts", PLAN)
    assert any("any two users, not of neighbours alone, differ in at most 4 bits" in line for line in assumptions(plan))
    assert ac.Shuffled(1.0, 100).caveats() == ()
    assert ac.Shuffled(ac.Collision(1.0, 1, 4), 100).caveats() == ()
