"""Work is counted before it is done: what is refused, what is answered in its stead, and what counting let through."""

import math
import re
from contextlib import suppress

import mpmath as mp
import numpy as np
import pytest

import accountant as ac
from accountant import errors, patience, price
from accountant.adjacency import DIRECTIONS
from accountant.cli import main
from accountant.events import screening_groups
from accountant.numerics.decimals import format_up_short
from accountant.numerics.quadrature import INTEGRAL
from accountant.tight import block_answers, clock_blocks, fourier, kind_blocks, screening_blocks
from accountant.tight.loss_composition import PLANNED
from accountant.tight.screening_blocks import SamePair, ScreeningBlock
from accountant.tight.screening_families import solve_game

SCREENING = ac.NoisyScreening(85.0, 210.0, 300)
MANY = 10**9 * ac.PoissonSubsampled(ac.Laplace(1.0), 1e-5)
FEW_NODES = 10**9 * ac.PoissonSubsampled(ac.Gaussian(1.0), 1e-5)


def counted(ask):
    """What is answered, and the seconds of work that were counted for it."""
    seen = [0.0]
    with patience.watch_work(lambda done, until: seen.append(until)):
        return ask(), seen[-1]


def tight(run, delta, **more):
    return ac.epsilon(run, delta, method="tight", **more)


def test_what_takes_too_long_is_refused_before_it_begins():
    with pytest.raises(
        ac.OutOfPatience, match=r"would take about .* s, patience = 0.01; accepted: patience = "
    ) as error:
        tight(MANY, 1e-5, patience=0.01)
    assert "\n" not in str(error.value)
    assert error.value.seconds > 0.01
    assert ac.epsilon(MANY, 1e-5, method="auto", patience=1e-3).method == "renyi"
    assert ac.delta(MANY, 5.0, method="auto", patience=1e-3).method == "renyi"
    assert ac.curve(MANY, [5.0], method="auto", patience=1e-3).method == "renyi"


def test_the_named_patience_is_enough_and_the_named_tolerance_too():
    run = 10**4 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01) + ac.Laplace(100.0)
    with pytest.raises(ac.OutOfPatience, match="tolerance = ") as error:
        tight(run, 1e-5, patience=0.03, tolerance=1e-3)
    words = str(error.value).split("tolerance = ")[1].split()[0]
    assert tight(run, 1e-5, patience=0.03, tolerance=float(words)).method == "tight"
    for each in (run, FEW_NODES):  # by grids, by Fourier inversion
        price_, seconds = counted(lambda each=each: tight(each, 1e-5))
        assert tight(each, 1e-5, patience=1.001 * seconds) == price_
        with pytest.raises(ac.OutOfPatience):
            tight(each, 1e-5, patience=0.999 * seconds)


def tight_delta(run, **more):
    return ac.delta(run, 0.5, method="tight", **more)


def tight_epsilon(run, **more):
    return tight(run, 1e-5, **more)


BY_GRIDS = 10**4 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01) + ac.Laplace(100.0)
BY_GAMES = 1 * ac.NoisyScreening(2.0, 1.0, 4) + 11 * ac.ExponentialMechanism(0.5)
BITS = 1000 * ac.RandomizedResponse(0.3, 4) + 500 * ac.RandomizedResponse(0.1, 3) + 10**4 * ac.Laplace(300.0)


@pytest.mark.each_run(2)
@pytest.mark.parametrize(
    ("ask", "run", "tolerance", "seconds"),
    [
        (tight_epsilon, BY_GRIDS, 3e-5, 0.5),
        (tight_delta, BY_GRIDS, 1e-3, 0.13),
        (tight_epsilon, BITS, 1e-4, 0.2),
        (tight_delta, BITS, 3e-6, 0.1),
        (tight_epsilon, BY_GAMES, 1e-3, 0.018),
        (tight_delta, BY_GAMES, 1e-3, 0.018),
        (tight_epsilon, 300 * ac.NoisyScreening(7.0, 3.0, 9), 1e-3, 0.06),
        (tight_delta, 300 * ac.NoisyScreening(7.0, 3.0, 9), 1e-3, 0.06),
    ],
)
def test_a_tolerance_that_is_named_is_accepted(ask, run, tolerance, seconds):
    """It was asked before it was named; estimates were too small in four of five refusals."""
    with pytest.raises(ac.OutOfPatience) as refused:
        ask(run, tolerance=tolerance, patience=seconds)
    assert len(set(re.findall(r"tolerance = ([0-9.e-]+[0-9])", str(refused.value)))) == 1
    wide, (lower, upper) = float(refused.value.wide), refused.value.found
    found = ask(run, tolerance=wide, patience=seconds)
    assert wide > tolerance
    assert found.lower <= lower <= upper <= (found.epsilon if ask is tight_epsilon else found.delta)


@pytest.mark.audit
def test_no_tolerance_is_named_that_was_not_asked():
    """Parts of a price get a share of the tolerance, and named another share of that: 0.0047 where 0.01 was asked."""
    kinds = 1000 * ac.PoissonSubsampled(ac.NoisyScreening(1.0, -3.0, 300), 0.01) + 100 * ac.NoisyScreening(20.0, 3, 300)
    for seconds, tolerance in ((2.0, 0.01), (2.0, 0.005), (0.2, 0.03)):
        with pytest.raises(ac.OutOfPatience) as error:
            tight(kinds, 1e-4, patience=seconds, tolerance=tolerance)
        assert ("tolerance = " in str(error.value)) == bool(error.value.wide)


def test_a_message_counts_in_words():
    with pytest.raises(ac.OutOfPatience, match=r"^1 characteristic function would take about"):
        tight(FEW_NODES, 1e-5, patience=1e-9)
    assert [errors.count_of(number, "release") for number in (1, 2)] == ["1 release", "2 releases"]


def test_a_cache_does_not_change_what_is_refused():
    run = 40 * ac.NoisyScreening(7.0, 3.0, 9)
    refusals = []
    for _ in range(2):
        with pytest.raises(ac.OutOfPatience) as error:
            tight(run, 1e-5, patience=1e-5)
        refusals.append(str(error.value))
        assert tight(run, 1e-5).epsilon > 0
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, True, "5"])
def test_patience_out_of_range(value):
    for ask in (
        lambda: ac.epsilon(MANY, 1e-5, patience=value),
        lambda: ac.delta(MANY, 1.0, patience=value),
        lambda: ac.calibrate(ac.Gaussian, 1.0, 1e-5, patience=value),
        lambda: ac.sweep(ac.Gaussian, {"sigma": [1.0]}, patience=value),
    ):
        with pytest.raises(ac.ParameterError, match=r"patience = .* accepted: \(0, inf\]"):
            ask()


def test_command(tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'delta = 1e-5\n[[release]]\nname = "a"\nevent = "gaussian"\nsigma = 1.0\nsampling_rate = 0.01\ncount = 100000\n'
    )
    assert main(["epsilon", str(plan), "--method", "tight", "--patience", "1e-6"]) == 2
    assert "patience = 1e-06" in capsys.readouterr().err
    assert main(["epsilon", str(plan), "--method", "tight", "--tolerance", "0.3"]) == 0


def screening(sigma, threshold, most, least=0):
    return ac.NoisyScreening(sigma, threshold, most, least)


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (2 * screening(7.33, 0.18, 2) + ac.PoissonSubsampled(ac.DiscreteLaplace(0.86), 0.0075), 0.045),
        (10**5 * ac.DiscreteLaplace(1000.0), 1e-12),
        (2 * ac.RandomizedResponse(1.0) + 2 * ac.RandomizedResponse(0.5), 1e-300),
        (8192 * SCREENING, 1e-5),
        (1 * ac.NoisyScreening(85.0, 210.0, 10**7), 1e-5),
        (300 * ac.NoisyScreening(85.0, 210.0, 10**7), 1e-5),
        (
            18000 * ac.PoissonSubsampled(SCREENING, 0.2) + 3877 * ac.PoissonSubsampled(ac.Gaussian(20, 2**0.5), 0.2),
            1e-5,
        ),
    ],
    ids=str,
)
def test_answered_within_the_default(run, delta):
    price_ = tight(run, delta)
    assert price_.epsilon - price_.lower <= 0.01 * price_.epsilon
    assert price_.epsilon <= ac.epsilon(run, delta, method="renyi").epsilon * 1.01


def test_a_huge_crowd_is_priced_from_above():
    """Its lower end was that of the pair above; scores of so many users are too coarse for one of their own."""
    price_ = tight(1 * ac.Shuffled(1.0, 10**12), 1e-9)
    assert price_.lower <= price_.epsilon <= 3.52e-6


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    "ask",
    [
        lambda: tight(2 * screening(0.5, 1.53, 2) + 5 * ac.Gaussian(27.0) + ac.Laplace(2.0), 1e-3, patience=1e-3),
        lambda: tight(10**6 * SCREENING + 10**6 * screening(40.0, 90.0, 150), 1e-5, patience=0.05),
    ],
)
def test_refused_at_once(ask):
    with pytest.raises(ac.OutOfPatience):
        ask()


def test_delta_beside_a_probable_infinite_loss():
    """What the finite losses add may be known as widely as the whole."""
    event = ac.ShuffledCounts(1000.0, 20.0, 0.99)
    found = ac.delta(event, 1.0, method="tight")
    assert found.lower <= found.delta <= found.lower * 1.01
    assert found.lower >= event.delta_infinite * (1 - 1e-9)


def test_a_window_with_the_least_loss_has_nothing_below():
    """The bound on what lies below the window used to grow as the grid became finer."""
    run = 2 * screening(7.33, 0.18, 2) + ac.PoissonSubsampled(ac.DiscreteLaplace(0.86), 0.0075)
    wide, narrow = (tight(run, 0.045, tolerance=width) for width in (0.3, 1e-4))
    assert wide.lower <= narrow.lower <= narrow.epsilon <= wide.epsilon


# --- blocks of screenings ------------------------------------------------------------------------------------


@pytest.mark.each_run(3)
@pytest.mark.parametrize("event", [SCREENING, ac.PoissonSubsampled(SCREENING, 0.25), screening(5.0, 2.0, 10)], ids=str)
@pytest.mark.parametrize("count", [300, 350])
def test_blocks_against_one_game(monkeypatch, event, count):
    monkeypatch.setattr(screening_blocks, "LEAST_BLOCK", 32)
    monkeypatch.setattr(block_answers, "MANY", 100)
    monkeypatch.setattr(kind_blocks, "MANY", 100)
    run = count * event
    found, delta = tight(run, 1e-5, tolerance=0.3), ac.delta(run, 0.3, method="tight", tolerance=0.9)
    assert "blocks" in found.source
    games = [solve_game(run, direction, delta=1e-5, tolerance=1e-3) for direction in DIRECTIONS]
    whole = [game.epsilon(1e-5) for game in games]
    low, high = max(each.lower for each in whole), max(each.upper for each in whole)
    assert found.lower <= high
    assert low <= found.epsilon
    exact = [game.delta(0.3) for game in games]
    assert delta.lower <= max(each.upper for each in exact)
    assert max(each.lower for each in exact) <= delta.delta


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_pair_of_a_block_dominates_every_strategy(direction):
    """Whatever pair is played, also after looking, the profile of the dominating pair is above; in 40 digits."""
    event, steps = screening(3.0, 4.0, 6), 6
    block = ScreeningBlock(((event, steps),), 4.0, -30.0, 1e-3)
    way, points = DIRECTIONS.index(direction), np.array([0.0, 0.2, 0.7, 1.3])
    above, below = (
        block.dominating()._log_profile(points)[way],
        SamePair(event, steps, direction, 4.0)._log_profile(points)[way],
    )
    pairs = event._screening().pairs(1.0)
    with mp.workdps(40):
        outcomes = [
            [(mp.exp(q + r), mp.exp(q)) for q, r in zip(logs, ratios, strict=True)]
            for logs, ratios in (
                ((a, b), (c, d))
                for a, b, c, d in zip(pairs.log_pass, pairs.log_fail, pairs.ratio_pass, pairs.ratio_fail, strict=True)
            )
        ]
        if way:
            outcomes = [[(q, p) for p, q in pair] for pair in outcomes]
        for i, point in enumerate(points.tolist()):
            best = mp.mpf(0)
            for pair in outcomes:
                (p, q), (p2, q2) = pair
                masses = [
                    mp.binomial(steps, k)
                    * max(p**k * p2 ** (steps - k) - mp.exp(point) * q**k * q2 ** (steps - k), mp.mpf(0))
                    for k in range(steps + 1)
                ]
                best = max(best, mp.fsum(masses))
            log_best = float(mp.log(best))
            assert log_best <= above[i] + 1e-12
            assert below[i] <= log_best + 1e-9
    assert (below <= above).all()


def test_longer_blocks_are_tighter():
    gaps = []
    for steps in (16, 64, 256):
        block = ScreeningBlock(((SCREENING, steps),), 6.0, -24.0, 1e-3)
        above, below = block.dominating(), SamePair(SCREENING, steps, "remove", 6.0)
        gaps.append((above.divergence("remove", 6.0) - below.divergence("remove", 6.0)) / steps)
        assert below.divergence("remove", 6.0) == pytest.approx(steps * float(SCREENING.renyi(6.0)), rel=1e-6)
    assert gaps[0] > gaps[1] > gaps[2] > 0


# --- calibration, sweeps -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda sigma: 10**4 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01), {}),
        (lambda bit: 1000 * ac.RandomizedResponse(bit), {}),
        (lambda count: int(count) * ac.RandomizedResponse(0.01), {"integer": True}),
    ],
)
def test_calibration_asks_for_few_tight_prices(monkeypatch, make, options):
    asked = []
    before = price._certified_epsilon
    monkeypatch.setattr(price, "_certified_epsilon", lambda *args: asked.append(args) or before(*args))
    found = ac.calibrate(make, epsilon=1.0, delta=1e-6, method="tight", **options)
    assert len(asked) <= 12
    assert tight(make(found), 1e-6).epsilon <= 1.0
    beside = [found + 1, found - 1] if options else [found * 1.001, found / 1.001]
    assert max(tight(make(each), 1e-6).epsilon for each in beside) > 1.0


def test_a_sweep_that_does_not_fit_is_refused_before_it_uses_memory():
    with pytest.raises(ac.ParameterError, match=r"499999999999 settings need .* GB of .* GB of free memory"):
        ac.sweep(ac.Gaussian, {"sigma": range(1, 5 * 10**11)})
    with pytest.raises(ac.ParameterError, match=r"settings need"):
        ac.sweep(ac.Gaussian, {"sigma": range(1, 10**6), "sensitivity": range(1, 10**6)})


def test_what_is_remembered_counts_again_in_each_price():
    @patience.remember("squares", 4)
    def square(x):
        patience.spend(2e9, "a square")
        made.append(x)
        return x * x

    made = []
    for _ in range(2):
        with patience.allow_work(3.0):
            assert square(3) == square(3) == 9  # counted once
            with pytest.raises(ac.OutOfPatience, match="a square"):
                square(4)
        assert made == [3]
    assert square(4) == 16  # nothing is counted outside of a price
    with patience.allow_work(1.0), pytest.raises(ac.OutOfPatience, match="squares would take about 2 s"):
        square(4)
    with patience.allow_work(1.0), patience.skip_counting():
        assert square(4) == square(-4) == 16
    assert made == [3, 4, -4]


def test_what_is_free_is_free_where_it_was_remembered_too():
    """Or a price would be refused because it was asked before."""

    @patience.remember("of many", 8)
    def make(key):
        patience.spend(1e6, "little", free=2e6)
        return key

    for _ in range(3):
        with patience.allow_work(1e-9) as allowance:
            assert make(1) == 1
        assert allowance.taken == 0.0
        with patience.allow_work(1e-9, pool=1.5e6) as allowance:
            assert make(1) == 1
        assert allowance.pool == 0.5e6
    with patience.allow_work(1e-9, pool=0.5e6), pytest.raises(ac.OutOfPatience):
        make(1)


def test_what_is_remembered_takes_no_names():
    """They were left out in silence: the defaults were computed instead."""

    @patience.remember("powers", 4)
    def power(base: int, exponent: int = 2) -> int:
        return base**exponent

    assert power(3, 3) == 27
    with pytest.raises(TypeError, match="positional arguments, not by exponent"):
        power(3, exponent=3)


def test_what_is_remembered_within_what_is_remembered_counts_once():
    @patience.remember("squares", 4)
    def square(x):
        patience.spend(1e9, "a square")
        return x * x

    @patience.remember("sums", 4)
    def sum_of_squares(x):
        patience.spend(1e8, "a sum")
        return square(x) + square(x + 1)

    for _ in range(2):  # first made, then found
        for first in (square, sum_of_squares, lambda x: square(x + 1)):
            with patience.allow_work(2.2):
                first(3)
                assert sum_of_squares(3) == 25
                assert square(3) == 9
                assert patience.fits(0.09e9)
                assert not patience.fits(0.11e9)
    with patience.tally_work() as tally:
        sum_of_squares(3)
    assert tally[0] == 2.1e9


def test_what_is_tried_within_what_is_remembered_is_counted_as_it_says():
    @patience.remember("squares", 4)
    def square(x):
        with patience.tally_work() as tally:
            patience.spend(1e9, "a trial")
        patience.spend(2 * tally[0], "a square")
        return x * x

    for _ in range(2):
        with patience.allow_work(2.5):
            assert square(3) == 9
            assert patience.fits(0.4e9)


def test_sums_of_likelihood_ratios_are_counted():
    epoch = ac.RandomAllocation(ac.Laplace(0.3), 100)
    first, second = (counted(lambda: tight(epoch, 1e-5))[1] for _ in range(2))
    assert 1e-4 < first == second
    with pytest.raises(ac.OutOfPatience):
        tight(epoch, 1e-5, patience=first / 2)


def test_a_search_does_not_crawl_to_an_end_where_values_are_dear():
    seen = []

    def make(ratio):
        run = 10 * ac.ShuffledCounts(100, 20, ratio)
        seen.append(ratio)
        return run

    found = ac.calibrate(make, 1.0, 1e-6, method="tight", bounds=(1e-6, 1 - 1e-7))
    assert tight(make(found), 1e-6).epsilon <= 1.0
    # messages of a count spread as 1/(1 - ratio): next to the end they are millions
    assert sum(ratio > 0.99 for ratio in seen) <= 2


# --- work beside grids ---------------------------------------------------------------------------------------


def test_orders_of_slow_curves_are_counted_before_a_grid_is_chosen():
    """A grid is chosen by some hundred orders of a curve; where each is an integral they take most of the time."""
    event = ac.TruncatedPoissonGaussian(0.75, 1e-6, 352, 10, 62.0, ac.Adjacency.REPLACE)
    least = PLANNED * event._curve_work() / patience.OPERATIONS_PER_SECOND
    # sampled sums under replacement, and full batches of a fixed size
    assert 2.5 * INTEGRAL <= event._curve_work() < 2.6 * INTEGRAL
    with pytest.raises(ac.OutOfPatience, match="a grid chosen by a Rényi curve") as error:
        tight(2 * event + ac.Laplace(2.0, adjacency=ac.Adjacency.REPLACE), 1e-5, patience=0.9 * least)
    assert error.value.seconds > least


def test_curves_by_integrals_are_counted():
    slow = ac.ClippedSum(1.0, 1.0, ac.Adjacency.REPLACE)
    assert ac.PoissonSubsampled(slow, 0.1)._curve_work() == 1.5 * INTEGRAL
    assert slow._curve_work() == 0.0
    assert ac.PoissonSubsampled(ac.ClippedSum(1.0), 0.1)._curve_work() == 0.0
    assert ac.PoissonSubsampled(ac.Laplace(1.0), 0.1)._curve_work() == 2 * INTEGRAL
    for event in (ac.Laplace(1.0, coordinates=5), ac.LNMax(5.0), ac.DiscreteGaussian(2.0), ac.ZeroConcentratedDP(0.1)):
        assert ac.PoissonSubsampled(event, 0.1)._curve_work() == 2 * INTEGRAL
        assert event._curve_work() == 0.0
    few, many = (ac.PoissonSubsampled(ac.RandomizedResponse(1.0, n), 0.1)._curve_work() for n in (10, 1000))
    assert many == 100 * few
    few, many = (ac.MixtureOfGaussians(1.0, (1.0,) * n, (1 / n,) * n)._curve_work() for n in (2, 100))
    assert INTEGRAL < few < many < 10 * INTEGRAL


def test_a_search_that_no_epsilon_ends_is_short(monkeypatch):
    """Where delta is less than what a game leaves at any epsilon, that is found by one look, not by doubling."""
    screening_, delta = screening(1e-4, 2.6e7, 77), 1e-170
    run = 10 * screening_ + 1000 * ac.DiscreteLaplace(5.0)
    looks, log_delta = [], fourier.ComposedLoss.log_delta

    def look(self, epsilon, remainder, sign):
        looks.append(epsilon)
        return log_delta(self, epsilon, remainder, sign)

    monkeypatch.setattr(fourier.ComposedLoss, "log_delta", look)
    with suppress(ac.AccountantError):
        tight(run, delta)
    assert len(looks) < 400


@pytest.mark.audit
def test_a_calibration_without_patience_for_the_last_digits_meets_its_target():
    def make(sigma):
        return 3 * ac.PoissonSubsampled(ac.ClippedSum(sigma, 1.0, ac.Adjacency.REPLACE), 0.1)

    best, (_, seconds) = ac.calibrate(make, 1.0, 1e-5), counted(lambda: ac.calibrate(make, 1.0, 1e-5))
    for share in (0.5, 0.7, 0.9):
        with suppress(ac.OutOfPatience):
            found = ac.calibrate(make, 1.0, 1e-5, patience=share * seconds)
            assert ac.epsilon(make(found), 1e-5).epsilon <= 1.0 + 1e-9
            assert best <= found * (1 + 1e-4)


def test_groups_in_a_screening_of_many_counts_are_refused_before_their_pairs_are_made(monkeypatch):
    screenings = ac.NoisyScreening(85.0, 210.0, 9 * 10**6)
    whole, sampled = ac.Group(screenings, 2), ac.Group(ac.PoissonSubsampled(screenings, 0.5), 2)

    def fail(*_):
        pytest.fail("work that is refused was begun")

    monkeypatch.setattr(screening_groups, "group_pairs", fail)
    for run, methods in (
        (1 * sampled, ("tight", "renyi", "auto")),
        (2 * whole, ("tight", "auto")),
        (whole, ("renyi",)),
    ):
        for method in methods:
            with pytest.raises(ac.OutOfPatience, match=r"the pairs of 9000000 counts|a Rényi curve of"):
                ac.epsilon(run, 1e-5, method=method)


def test_groups_in_a_screening_of_usual_size_are_priced():
    for event in (screening(85.0, 210.0, 20000), ac.PoissonSubsampled(screening(85.0, 210.0, 2000), 0.1)):
        assert ac.epsilon(ac.Group(event, 5), 1e-5).epsilon < ac.epsilon(ac.Group(event, 6), 1e-5).epsilon


def test_values_of_the_profile_of_many_coordinates_are_counted():
    """They were counted as a single coordinate's: 15 000 coordinates beside other noise took over half a minute."""
    noise = [ac.DiscreteLaplace(0.14, coordinates=14_598, adjacency="replace"), ac.ClippedSum(3.8, adjacency="replace")]
    run = 13 * noise[0] + 255 * noise[1] + ac.FixedSizeSampled(ac.PureDP(1.28, adjacency="replace"), 2, 4)
    with pytest.raises(ac.OutOfPatience, match="a grid of"):
        tight(run, 2e-7, patience=1.0)
    few, many = (ac.DiscreteLaplace(0.14, coordinates=n)._profile_work() for n in (1000, 10_000))
    assert few == ac.RandomizedResponse(1.0, 1000)._profile_work()
    assert 8 * few < many < 10 * few


def test_a_share_of_the_patience_is_of_what_is_left_and_ends_with_the_block():
    with patience.allow_work(2.0):
        patience.spend(1e9, "this")
        with patience.share_patience(0.5):
            assert patience.fits(0.5e9)
            assert not patience.fits(0.51e9)
            with pytest.raises(ac.OutOfPatience, match=r"that would take about 1\.6 s"):
                patience.spend(0.6e9, "that")
        assert patience.fits(1e9)
        assert not patience.fits(1.01e9)
    with patience.share_patience(0.5):
        assert patience.fits(math.inf)


@pytest.mark.audit
def test_very_many_kinds_of_screening_are_refused_before_the_first_game(monkeypatch):
    run = ac.Composition((ac.NoisyScreening(20.0 + i / 100, 50.5, 100), 1) for i in range(1000))
    begun = []
    monkeypatch.setattr(clock_blocks, "play_on_clock", lambda *setup: begun.append(setup))
    monkeypatch.setattr(kind_blocks, "cut_in_one", lambda *kind: begun.append(kind))
    with pytest.raises(ac.OutOfPatience, match=r"kinds of screening") as refusal:
        ac.epsilon(run, 1e-6, method="tight", patience=0.5)
    assert not begun
    assert 0.5 < refusal.value.seconds < 30.0
    assert ac.epsilon(run, 1e-6, patience=0.5).method == "renyi"


@pytest.mark.audit
def test_blocks_of_all_grids_have_one_game(monkeypatch):
    played = []
    play = screening_blocks.block_values
    monkeypatch.setattr(screening_blocks, "block_values", lambda *game: played.append(game) or play(*game))
    run = ac.Composition((ac.NoisyScreening(20.0 + i, 50.5, 100), 40) for i in range(20))
    ac.epsilon(run, 1e-6, tolerance=0.05)
    assert len(played) == len(set(played))


@pytest.mark.parametrize(
    ("value", "text"), [(301.0, "310"), (12345.0, "13000"), (0.0271, "0.028"), (5.0, "5"), (2.04e7, "2.1e+07")]
)
def test_a_number_that_is_rounded_up_is_written_out(value, text):
    assert format_up_short(value) == text


def test_games_of_all_blocks_are_known_before_the_first_is_played():
    """Each was refused by itself, so that patiences of 0.9, 2.6 and 27 s were named one after the other."""
    kinds = [screening(1.0 + 0.3 * k, 0.7, 20) for k in range(7)]
    blocks = [ScreeningBlock(((event, 30),), 4.0, -40.0, 3e-5) for event in kinds]
    begun, games = (math.fsum(operations for _, operations in pieces) for pieces in zip_of(blocks))
    needed = games + screening_blocks.COMPOSED * len(blocks)
    assert games > 1.5 * begun
    with patience.allow_work(1e-9 * (needed - 1e3)) as work, pytest.raises(ac.OutOfPatience) as refusal:
        screening_blocks.foresee_blocks(blocks, len(blocks))
    assert work.spent == pytest.approx(begun, rel=0.01)
    # longer blocks are likely to follow: it named the first games, and after them refused ten times as much
    later = patience.LIKELY * screening_blocks.AFTER_FIRST * (games - begun)
    assert refusal.value.seconds * 1e9 == pytest.approx(needed + later, rel=0.01)
    with patience.allow_work(1e-9 * (needed + 1e6)) as work:
        screening_blocks.foresee_blocks(blocks, len(blocks))
    assert work.spent == pytest.approx(begun, rel=0.01)  # games are counted when they are played


def zip_of(blocks):
    """What blocks begin with, and what they take in all."""
    return [block.begun() for block in blocks], [block.work() for block in blocks]


def test_an_allowance_counts_where_it_is_entered():
    """Not where it is made; and whoever enters it again has all of it."""
    made = patience.allow_work(1.0)
    with patience.allow_work(0.5) as outer:
        with made as within:
            assert within is outer
        assert patience.has_limit()
    for _ in range(2):
        with made as own:
            assert own.left == 1.0
            patience.spend(1e8, "something")
        assert not patience.has_limit()


def test_what_was_counted_when_it_was_done_is_not_refused_where_it_is_remembered():
    """It ended a price with little patience, which a first price of the same had not."""

    @patience.remember("work that is done", 4)
    def make(number):
        patience.spend(0.1 * patience.OPERATIONS_PER_SECOND, "work")
        patience.count_done(number * patience.OPERATIONS_PER_SECOND, once=("done", number))
        return number

    for _ in range(2):
        with patience.allow_work(0.5) as allowance:
            assert make(1.0) == 1.0
            assert allowance.taken == pytest.approx(1.1)
            with pytest.raises(ac.OutOfPatience):
                patience.spend(1.0, "more work")


def test_what_is_done_by_itself_makes_nothing_known():
    """Work that makes nothing is foreseen again, whatever was counted before."""
    with patience.allow_work(1.0):
        patience.count_done(1e6)
        with pytest.raises(ac.OutOfPatience, match="squares would take about 2"):
            patience.foresee([(None, 2e9)], "squares")


def test_what_hangs_on_granted_seconds_is_made_anew():
    """A result with little patience stood for whoever had more."""

    @patience.remember("inner work", 4)
    def make_inner(number):
        return number * patience.grant("inner", 0.5)

    @patience.remember("outer work", 4)
    def make(number):
        patience.spend(0.1 * patience.OPERATIONS_PER_SECOND, "work")
        return make_inner(number)

    for seconds in (1.0, 3.0, 1.0, 5.0):
        with patience.allow_work(seconds) as allowance:
            assert make(2.0) == pytest.approx(seconds - 0.1)
            assert allowance.taken == pytest.approx(0.1)
