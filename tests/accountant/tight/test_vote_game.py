"""Several votes that were cast: an adversary picks the neighbour anew at every step, after every label."""

import itertools
import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import log_ndtr

import accountant as ac
from accountant.events import vote_pairs
from accountant.events.vote_pairs import Pairs, pairs_of
from accountant.events.votes_seen import polygons_of
from accountant.patience import allow_work, foresee, tally_work
from accountant.tight.game_value import PlayedGame
from accountant.tight.vote_game import Board, solve_votes, work_of
from accountant.tight.vote_tables import SLACK, Kind, drop_dominated, tabulate
from tests.cases import audit_after

GN, LN = ac.DataDependentGNMax, ac.DataDependentLNMax
VOTES = GN(40.0, (200, 40, 10, 0))


def neighbours(votes):
    """All votes after one voter changed."""
    for lost, gained in itertools.product([None, *range(len(votes))], repeat=2):
        if lost != gained and (lost is None or votes[lost] > 0):
            yield tuple(v - (i == lost) + (i == gained) for i, v in enumerate(votes))


@cache
def law(event, votes):
    """Chances of all labels, by a sum over a fine grid."""
    gaussian = isinstance(event, GN)
    at = np.array(votes) / (event.sigma if gaussian else event.scale)
    x = (
        np.linspace(at.min() - 14.0, at.max() + 14.0, 40001)
        if gaussian
        else np.linspace(-60.0, at.max() + 60.0, 800001)
    )
    y = x - at[:, None]
    if gaussian:
        below, density = log_ndtr(y), -(y**2) / 2
    else:
        below = np.where(y < 0, y - math.log(2), np.log1p(-0.5 * np.exp(-np.maximum(y, 0.0))))
        density = -np.abs(y)
    chances = np.exp(density + below.sum(axis=0) - below).sum(axis=1)
    return chances / chances.sum()


@cache
def pairs(event):
    return law(event, event.votes), np.array([law(event, votes) for votes in neighbours(event.votes)])


def game(kinds, u):
    """W by its definition: the kind that comes next and the neighbour are chosen after every label."""
    if not kinds:
        return max(1 - u, 0.0)
    best = 0.0
    for place in {kind: i for i, kind in enumerate(kinds)}.values():
        p, others = pairs(kinds[place])
        rest = kinds[:place] + kinds[place + 1 :]
        if not rest:
            best = max(best, np.maximum(p - u * others, 0.0).sum(axis=1).max())
            continue
        for q in others:
            best = max(best, sum(a * game(rest, u * b / a) for a, b in zip(p, q, strict=True)))
    return best


def same_neighbours(kinds, u):
    """The largest H of independent releases whose neighbours are chosen before any label is seen."""
    best = 0.0
    for chosen in itertools.product(*(pairs(kind)[1] for kind in kinds)):
        p, q = np.ones(1), np.ones(1)
        for kind, other in zip(kinds, chosen, strict=True):
            p, q = np.outer(p, pairs(kind)[0]).ravel(), np.outer(q, other).ravel()
        best = max(best, np.maximum(p - u * q, 0.0).sum())
    return best


RUNS = [
    (GN(4.0, (9, 5, 1)),) * 3,
    (GN(1.0, (3, 3, 2)),) * 2,
    (GN(0.5, (2, 1)),) * 4,
    (LN(3.0, (9, 5, 1)),) * 2,
    (GN(4.0, (9, 5)), GN(4.0, (9, 5)), GN(2.0, (3, 1, 0))),
    (GN(2.0, (3, 1)), LN(2.0, (4, 2)), GN(4.0, (5, 5))),
]


@pytest.mark.each_run(3)
@pytest.mark.parametrize("kinds", RUNS)
def test_the_price_is_that_of_the_game(kinds):
    run = ac.Composition((kind, 1) for kind in kinds)
    for epsilon in (0.0, 0.1, 0.7, 1.5):
        truth = game(kinds, math.exp(epsilon))
        found = ac.delta(run, epsilon, method="tight", patience=60)
        assert found.lower * (1 - 1e-7) <= truth <= found.delta * (1 + 1e-7)
        assert found.delta - found.lower <= 0.01 * found.delta
    found = ac.epsilon(run, 1e-2, method="tight")
    assert game(kinds, math.exp(found.epsilon)) <= 1e-2 * (1 + 1e-7)
    assert game(kinds, math.exp(found.lower)) >= 1e-2 * (1 - 1e-7)


@pytest.mark.parametrize(("kinds", "epsilon", "gain"), [(RUNS[0], 1.0, 0.02), (RUNS[0][:2], 0.1, 0.02)])
def test_to_see_labels_before_choosing_pays(kinds, epsilon, gain):
    """A point that is asked next may depend on labels: what neighbours chosen before are worth is below."""
    before, after = (value(kinds, math.exp(epsilon)) for value in (same_neighbours, game))
    assert after > (1 + gain) * before
    assert ac.delta(ac.Composition((kind, 1) for kind in kinds), epsilon, method="tight").delta >= before


def test_whichever_comes_first_it_is_the_votes_that_were_cast():
    """Beside a release of which either order of neighbours counts, and that is not its own mirror image."""
    kinds, other = RUNS[1], ac.PoissonSubsampled(ac.RandomizedResponse(1.0), 0.3)
    wrong = 1 / (1 + math.e)
    without = np.array([wrong, 1 - wrong])
    sample = 0.3 * without[::-1] + 0.7 * without
    for epsilon in (0.0, 0.4, 1.0):
        truth = max(
            sum(a * game(kinds, math.exp(epsilon) * b / a) for a, b in zip(p, q, strict=True))
            for p, q in ((sample, without), (without, sample))
        )
        found = ac.delta(2 * kinds[0] + other, epsilon, method="tight", patience=60)
        assert found.lower * (1 - 1e-7) <= truth <= found.delta * (1 + 1e-7)
        assert found.delta - found.lower <= 0.02 * found.delta


@pytest.mark.audit
@given(
    st.sampled_from([GN, LN]),
    st.lists(st.integers(0, 60), min_size=2, max_size=5),
    st.floats(0.3, 100.0),
    st.integers(2, 60),
    st.floats(-12.0, -1.0),
)
def test_bounds_hold_one_another_and_the_papers_bound(kind, votes, scale, count, log_delta):
    event, delta = kind(scale, tuple(votes)), 10.0**log_delta
    assume(work_of(((event, count),), delta, 0.01) < 1e8)
    value = solve_votes(((event, count),), delta, 0.01, 1e8)
    found = value.epsilon(delta)
    assert 0.0 <= found.lower <= found.upper
    points = np.linspace(-2.0, 4.0, 25)
    assert (value.log_lower(points) <= value.log_upper(points)).all()
    assert found.lower <= ac.epsilon(count * event, delta, method="renyi").epsilon * (1 + 1e-9)
    one = solve_votes(((event, 1),), delta, 0.01).epsilon(delta)
    assert one.lower <= found.upper


@pytest.mark.parametrize(("count", "delta"), [(5, 1e-5), (5, 1e-200), (1000, 1e-6)])
def test_several_votes_are_known_nearly(count, delta):
    found = ac.epsilon(count * VOTES, delta, method="tight")
    assert found.epsilon - found.lower <= 0.003 * found.epsilon
    assert found.source == "dynamic programme"


def test_one_vote_is_priced_by_its_profile_and_by_the_game_alike():
    exact = ac.epsilon(VOTES, 1e-5, method="tight")
    found = solve_votes(((VOTES, 1),), 1e-5, 1e-4).epsilon(1e-5)
    assert found.lower <= exact.epsilon * (1 + 1e-12)
    assert exact.lower <= found.upper * (1 + 1e-12)
    assert found.upper - found.lower <= 1e-3 * found.upper


@pytest.mark.audit
def test_votes_for_which_a_game_would_take_too_long_are_composed():
    """And the price says by what it is computed."""
    few, many = (ac.epsilon(30_000 * VOTES, 1e-6, method="tight", patience=p) for p in (0.5, 5.0))
    assert few.source.startswith("privacy-loss distribution;")
    assert many.source.startswith("privacy-loss distribution before a dynamic programme")
    assert many.lower <= many.epsilon <= few.epsilon
    assert few.lower <= many.epsilon
    assert 0.9 * few.epsilon <= few.lower
    different = ac.Composition((GN(40.0, (200.0, 40.0 + i, 10.0, 0.0)), 1) for i in range(40))
    assert ac.epsilon(different, 1e-6, method="tight").source.startswith("privacy-loss distribution")


@pytest.mark.parametrize("votes", [(0, 0, 1, 1, 5), (1, 2, 3), (0, 4), (0, 0), (3, 3), (90, 40, 40, 2, 1, 1, 0)])
@pytest.mark.parametrize("make", [GN, LN])
def test_what_pairs_take_is_known_without_them(make, votes):
    event = make(8.0, votes)
    (pairs, own), (polygons, beside) = event._foreseen()
    with tally_work() as tally:
        event._pairs()
    assert own == pytest.approx(tally[0], rel=1e-12)
    with tally_work() as tally:
        polygons_of(*event._noise(), event.votes)
    assert own + beside == pytest.approx(tally[0], rel=1e-12)
    with allow_work(100.0):
        polygons_of(*event._noise(), event.votes)
        foresee([(pairs, 1e30), (polygons, 1e30)], "what was counted")  # each counts once
        with pytest.raises(ac.OutOfPatience, match="what was not would take about"):
            foresee([(pairs, 1e30), ("another", 1e12)], "what was not")


def test_runs_of_many_different_votes_are_refused_before_any_is_looked_at(monkeypatch):
    rng = np.random.default_rng(0)
    draws = (rng.multinomial(1000, rng.dirichlet(np.full(300, 0.3))) for _ in range(20))
    run = ac.Composition((GN(40.0, tuple(votes.tolist())), 1) for votes in draws)
    monkeypatch.setattr(vote_pairs, "fill_gaussian_moves", lambda *_: pytest.fail("work that is refused was begun"))
    with pytest.raises(ac.OutOfPatience, match=r"neighbours of 20 different votes .* would take about") as refusal:
        ac.epsilon(run, 1e-5, method="tight")
    assert refusal.value.seconds > 5.0
    assert ac.epsilon(run, 1e-5).method == "renyi"


def test_neighbours_that_are_left_out_are_dominated():
    """At places between all losses, too."""
    for event in (VOTES, LN(20.0, (100, 60, 40, 20, 10))):
        whole = pairs_of(*event._noise(), event.votes)
        kept = drop_dominated(whole)
        assert len(kept) < whole.losses.shape[1]
        few = Pairs(*(part[:, kept] for part in whole))
        places = np.linspace(0.0, float(whole.largest_losses().max()), 400)
        for way in range(2):
            least = few.log_heights(places, -1)[way]
            for v in range(whole.losses.shape[1]):
                height = whole.log_heights(places, -1)[way, v]
                assert (height <= least + 2 * SLACK + 1e-12).all(axis=1).any() or v in kept


def test_limits():
    """A certain winner costs nothing, noise that drowns all votes next to nothing, and losses may be huge."""
    assert ac.epsilon(10 * GN(1.0, (1e4, 0)), 1e-6).epsilon == 0.0
    assert ac.epsilon(10 * GN(1e9, (5, 5)), 1e-6).epsilon == 0.0
    huge = ac.epsilon(2 * GN(1e-2, (5, 5)), 0.4, method="tight")
    assert huge.lower <= huge.epsilon <= 2 * GN(1e-2, (5, 5))._largest_loss()
    assert huge.epsilon > 100.0


def rare_label(log_chance, loss, usual_loss):
    """P and Q of three labels: of a usual loss, of a large one, and one that hardly ever is, but more often under Q."""
    p = [mp.mpf(1), mp.exp(log_chance), mp.exp(-700)]
    p[0] -= p[1] + p[2]
    q = [p[0] * mp.exp(-mp.mpf(usual_loss)), p[1] * mp.exp(-loss)]
    return p, [*q, 1 - q[0] - q[1]]


def play_one_neighbour(p, q, votes, last):
    """The game of one neighbour only, on a grid of step 1."""
    logs = np.array([[[float(mp.log(each)) for each in side]] for side in (p, q)])
    losses = np.array([float(mp.log(a) - mp.log(b)) for a, b in zip(p, q, strict=True)])
    losses = np.stack([losses, -losses])[:, None, :]
    known = Pairs(logs, losses, np.full(losses.shape, 1e-15), 1e-15 * np.abs(losses))
    table = tabulate(Kind(known, 1.0, known.largest_losses()), 1.0, last)
    board = Board(last, int(np.abs(table.shifts).max()) + 2, 1.0, votes * table.error)
    value, window = board.nothing(), np.array([last, last])
    for _ in range(votes):
        value = board.play(value, table, window, 100 * window)
    upper, tests = board.both_ways(value)
    return PlayedGame(1.0, upper, tests, votes * table.error + 1e-13, np.ones(1), np.full(1, math.inf), 1e9)


@pytest.mark.parametrize("votes", audit_after(1, [100, 500]))
def test_slopes_that_underflow_claim_nothing(votes):
    """A slope that was lost grows by e^step with every vote, and came to as much as values."""
    with mp.workdps(60):
        p, q = rare_label(-280, 400, 0.001)
        game = play_one_neighbour(p, q, votes, 1000)

        # of at most four of the rare labels, of any number of the third under Q: more have chances below 1e-400
        chances = [
            [
                tuple(
                    mp.binomial(votes, large) * mp.binomial(votes - large, odd) * mp.fprod(map(mp.power, side, numbers))
                    for side in (first, second)
                )
                for large, odd in itertools.product(range(5), range(most + 1))
                for numbers in [(votes - large - odd, large, odd)]
            ]
            for first, second, most in ((p, q, 4), (q, p, votes))
        ]

        def exact(way, x):
            return mp.fsum(max(a - mp.exp(x) * b, 0) for a, b in chances[way])

        points = np.array([0.0, 50.0, 300.0, 399.0, 620.0, 700.0, 760.0, 790.0, 799.5, 800.5, 900.0])
        for way, x in itertools.product(range(2), points.tolist()):
            (low,) = game.log_lower(way, np.array([x])).tolist()
            assert mp.exp(low) <= exact(way, x) * (1 + mp.mpf("1e-9")), (way, x)
        for delta in (1e-130, 1e-239, 1e-240, 1e-245, 1e-250):
            least = game.least_epsilon(0, delta)
            assert least > 390.0
            assert exact(0, least) * (1 + mp.mpf("1e-9")) >= delta, delta
