"""Work that was not counted, or counted as far less than it takes, so that prices came after their patience."""

import numpy as np
import pytest

import accountant as ac
from accountant.adjacency import DIRECTIONS
from accountant.events import (
    exponential_mechanism,
    generic_subsampling,
    laplace,
    mixture_of_gaussians,
    randomized_response,
    shuffled,
    subsampling,
    truncated_readings,
)
from accountant.events.shuffled import grid_pair
from accountant.events.shuffled_counts import SPREAD, MovedCount, spread
from accountant.events.sticks import connect
from accountant.events.tries import Poisson
from accountant.numerics.decimals import format_up_short
from accountant.numerics.quadrature import INTEGRAL
from accountant.patience import allow_work, fits, spend, tally_work
from accountant.renyi import order_search, route
from accountant.renyi.route import SEARCHED, VALUE
from accountant.samplers.allocation_pairs import lower_pair, upper_pair
from accountant.samplers.allocation_scores import best_rate
from accountant.samplers.allocation_subsets import Drawn
from accountant.tight import directed_run
from accountant.tight.screening_blocks import Aim, foresee_blocks, unsized_work

REPLACE = ac.Adjacency.REPLACE


def tallied(ask):
    with tally_work() as tally:
        ask()
    return tally[0]


@pytest.mark.parametrize("make", [upper_pair, lower_pair])
def test_transforms_of_sums_on_a_lattice_are_counted(make):
    asked = [(ac.Gaussian(2.0), 10**5, DIRECTIONS[0], step, -40.0) for step in (2e-4, 1e-4)]
    wide, narrow = (tallied(lambda each=each: make(*each)) for each in asked)
    assert 1e6 < wide < narrow < 1e8
    assert tallied(lambda: make(*asked[0])) == wide  # what is found again counts again


def test_scores_of_an_epoch_are_counted():
    """The search for their rate and the transforms of the best one took as long as all else of a price."""
    event, drawn = ac.Gaussian(12.0), Drawn(5000, 100, 0.0)
    found = [tallied(lambda: best_rate(event, drawn, DIRECTIONS[0], -20.0, 1)) for _ in range(2)]
    assert found[0] == found[1] > 1e6
    run = ac.Composition([(ac.RandomAllocation(event, 5000, 100), 1)])
    fine, coarse = (tallied(lambda t=t: ac.epsilon(run, 1e-6, method="tight", tolerance=t)) for t in (0.01, 0.1))
    assert fine > coarse > found[0]


def count_values(monkeypatch, module, name):
    values, compute = [], getattr(module, name)

    def look(*args):
        values.append(args[-1].size)
        return compute(*args)

    monkeypatch.setattr(module, name, look)
    return values


@pytest.mark.parametrize("bits", [40, 400])
def test_the_first_integral_over_a_profile_is_most_of_the_work(bits, monkeypatch):
    """Between any two knots lies a panel, whose values serve other orders."""
    event = ac.FixedSizeSampled(ac.RandomizedResponse(0.613, bits, adjacency=REPLACE), 10, 1000)
    values = count_values(monkeypatch, randomized_response, "bernoulli_log_profile")
    event.renyi(np.geomspace(1.01, 50.0, int(subsampling.ORDERS)))
    knots = len(event._profile_knots())
    expected = subsampling.FIRST_VALUES + subsampling.PANEL * knots
    assert expected / 2 < sum(values) < 2 * expected
    profiles = expected * event._profile_work() / subsampling.ORDERS
    assert event._curve_work() == 2 * INTEGRAL + subsampling.KNOT * knots + profiles


@pytest.mark.audit
def test_an_integral_over_many_knots_is_refused_before_it_begins(monkeypatch):
    """Samples with replacement of 50 000 bits took an hour instead of seconds, for a single order of the curve."""
    run = ac.SampledWithReplacement(ac.RandomizedResponse(0.613, 49_963, adjacency=REPLACE), 2, 78)
    values = count_values(monkeypatch, randomized_response, "bernoulli_log_profile")
    with pytest.raises(ac.OutOfPatience, match="would take about"):
        ac.epsilon(run, 1e-5, method="renyi")
    assert sum(values) < 100
    assert ac.epsilon(run, 1e-5).source.startswith("profile of one release")  # alone it needs no integral


def test_parts_of_a_sample_that_are_not_rare_are_integrated_at_once():
    often, few, rarely = (ac.SampledWithReplacement(ac.PureDP(0.3, REPLACE), draws, 3) for draws in (3, 30, 60))
    for sampled in (often, few):
        assert not any(part.rare for part, _ in sampled._parts())
    assert sum(not part.rare for part, _ in rarely._parts()) == 44
    assert 2 * INTEGRAL < often._curve_work() < few._curve_work() < rarely._curve_work() < 5 * 2 * INTEGRAL


@pytest.mark.parametrize(
    ("noise", "idle"),
    [
        (ac.Laplace(1.0, adjacency=REPLACE), 1.2e6),
        (ac.PureDP(1.0, REPLACE), 1.65e6),
        (ac.RandomizedResponse(1.0, bits=1, adjacency=REPLACE), 4e6),
    ],
)
def test_an_order_of_32_parts_is_counted_as_what_it_takes(noise, idle):
    """Nanoseconds of an idle core; all were counted as 1.1e7."""
    assert idle <= ac.SampledWithReplacement(noise, 32, 1000)._curve_work() <= 2.5 * idle


def test_values_of_short_gaussian_mixtures_take_four_times_as_long():
    """Their differences of Mills' ratio are integrated: 4.7 microseconds for each number of draws, counted as 0.5."""
    short, long = (ac.SampledWithReplacement(ac.Gaussian(s, adjacency=REPLACE), 30, 3) for s in (4369.0, 1.0))
    assert short._profile_work() == 4 * long._profile_work()


def test_rounding_does_not_split_panels_of_mixtures(monkeypatch):
    """Where lengths are a thousand deviations an integral took a hundred times as many points as it needs."""
    points, fill = [], mixture_of_gaussians.fill_log_terms

    def look(*args):
        points.append(args[-1].size)
        fill(*args)

    monkeypatch.setattr(mixture_of_gaussians, "fill_log_terms", look)
    lengths = tuple(np.linspace(1 / 6, 1.0, 6) * 1000)
    curve = ac.MixtureOfGaussians(1.0, lengths, (1 / 6,) * 6).renyi(1 + 1e-6)
    # of parts that are far apart the moment is the sum of theirs
    moments = (1 + 1e-6) * (1e-6 * np.square(lengths) / 2 - np.log(6))
    assert curve == pytest.approx(np.logaddexp.reduce(moments) / 1e-6, rel=1e-9)
    assert sum(points) < 10_000


def test_equal_losses_are_one():
    """Counts without a flood have millions of equal losses, and every order of their curve summed up all of them."""
    losses, log_p = np.full(5000, 0.25), np.log(np.arange(1.0, 5001.0) / 12_502_500)
    found = connect(losses, log_p, 100)
    assert found[0].tolist() == [0.25]
    assert found[1] == pytest.approx([0.0], abs=1e-12)
    sizes = 1000.0, 0.0, 1e-9
    assert spread(*sizes)[0].size == 1
    event = MovedCount(*sizes, rises=True)
    assert event.renyi([1.0, 2.0, np.inf]) == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)
    assert event._curve_work() > 100.0 * SPREAD


def test_curves_of_random_allocation_count_when_they_are_done():
    """They do not depend on the patience of a price, but a calibration asks for many: it took 12 s."""
    epochs = [ac.RandomAllocation(ac.Gaussian(sigma), 100) for sigma in (2.0, 2.1)]
    work = [tallied(lambda epoch=epoch: epoch.renyi(2.0)) for epoch in epochs]
    assert tallied(lambda: epochs[0].renyi([3.0, 4.0])) == work[0] > 5e7  # found again, counted again
    with allow_work(1e-9 * 0.9 * work[0]):
        epochs[0].renyi(2.0)  # what is there to fall back on is not refused
        epochs[0].renyi(3.0)
        with pytest.raises(ac.OutOfPatience, match="a Rényi curve of random allocation would take about"):
            epochs[1].renyi(2.0)
    with allow_work(1e-9 * 1.1 * work[0]):
        for order in (2.0, 3.0):
            epochs[0].renyi(order)  # counted once
        assert fits(0.09 * work[0])
        assert not fits(0.11 * work[0])


def test_what_is_refused_is_not_tallied():
    with tally_work() as tally, allow_work(1.0):
        spend(4e8, "something")
        with pytest.raises(ac.OutOfPatience):
            spend(7e8, "much")
    assert tally[0] == 4e8


def test_profiles_that_take_longer_are_counted_as_more():
    """A sample asks twice; much discrete noise is expanded, and short differences are integrated."""
    for event in (ac.Gaussian(1.0), ac.Gaussian(100.0), ac.Laplace(3.0, coordinates=4)):
        assert ac.PoissonSubsampled(event, 0.1)._profile_work() == 2 * event._profile_work() + 100.0
    assert ac.Gaussian(100.0)._profile_work() == 2 * ac.Gaussian(1.0)._profile_work()
    assert ac.DiscreteGaussian(400.0)._profile_work() == 4 * ac.DiscreteGaussian(30.0)._profile_work()


@pytest.mark.parametrize("order", [900.5, 90_000.5, 2e6])
def test_sums_over_integer_orders_are_counted(order, monkeypatch):
    """They were not, and a sampled zCDP release asks for a hundred sums of a million terms."""
    terms, compute = [], generic_subsampling.log_binomial_excess
    monkeypatch.setattr(
        generic_subsampling, "log_binomial_excess", lambda n, *more: terms.append(n) or compute(n, *more)
    )
    sampled = ac.PoissonSubsampled(ac.ZeroConcentratedDP(0.001), 1e-3)
    generic_subsampling._last_sum.cache_clear()
    first, second = (tallied(lambda: sampled.renyi(order)) for _ in range(2))
    assert first == second >= generic_subsampling.TERM * max(terms)  # what is kept counts again


def test_curves_of_many_points_ask_for_few_curves(monkeypatch):
    """Each point had a search of its own, of forty orders one after the other: three thousand took 18 seconds."""
    run, calls = 2 * ac.LNMax(100.0), []
    curve = ac.Composition._curve
    monkeypatch.setattr(ac.Composition, "_curve", lambda self, orders: calls.append(orders.size) or curve(self, orders))
    points = np.linspace(0.0, float(run.renyi(5.0)), 500)
    del calls[:]
    found = ac.curve(run, points, method="renyi")
    assert len(calls) < 1000  # of a search by itself there are 40
    some = [ac.delta(run, epsilon, method="renyi").delta for epsilon in points[::50].tolist()]
    assert found.upper[::50] == pytest.approx(some, rel=1e-6)
    work = tallied(lambda: ac.curve(run, points, method="renyi"))
    assert work >= VALUE * SEARCHED * points.size


def test_curves_over_all_patterns_and_of_mixtures_are_counted():
    few, many = (ac.Collision(1.0, n, 10**6)._curve_work() for n in (2, 100))
    assert many == 2500 * few > 0.0
    clipped = ac.ClippedSum(1.0, adjacency=REPLACE)
    assert ac.FixedSizeSampled(clipped, 10, 1000)._curve_work() == INTEGRAL
    assert ac.FixedSizeSampled(clipped, 10, 10)._curve_work() == 0.0
    assert ac.PoissonSubsampled(ac.ExponentialMechanism(1.0), 0.1)._curve_work() == exponential_mechanism.SAMPLED
    assert ac.Shuffled(1.0, 1000)._curve_work() >= grid_pair(1.0, 1000)[0].size


def test_every_composition_is_counted_however_small_its_grid(monkeypatch):
    """Selections ask for hundreds of small ones, of which each takes milliseconds beside its grid."""
    made, compose = [], directed_run.DirectedRun._compose
    monkeypatch.setattr(
        directed_run.DirectedRun,
        "_compose",
        lambda self, wanted: made.append(len(self.entries)) or compose(self, wanted),
    )
    run = 3 * ac.Laplace(2.0) + 2 * ac.DiscreteLaplace(3.0)
    work = tallied(lambda: ac.delta(run, 0.5, method="tight", tolerance=0.1))
    assert made
    assert work >= sum(directed_run.BEGUN + directed_run.PIECE * kinds for kinds in made)


def test_a_round_of_bits_that_takes_too_long_is_refused_after_few_values(monkeypatch):
    """Every fifteenth value and a race at each were computed first, and again by each way that needs the round."""
    asked, bound = [], shuffled.log_round_delta
    monkeypatch.setattr(
        shuffled, "log_round_delta", lambda *args, **options: asked.append(1) or bound(*args, **options)
    )
    local = ac.RandomizedResponse(0.48419965368166673, 4, ones=2)
    with allow_work(0.3), pytest.raises(ac.OutOfPatience):
        grid_pair(local, 2770)
    assert len(asked) <= 3


def test_orders_of_a_curve_are_sought_once_and_counted():
    run = sum((i * ac.NoisyScreening(3.0 + i, 4.0, 20) for i in range(1, 10)), 2 * ac.Gaussian(9.0))
    points = np.linspace(0.1, 3.0, 7)
    with allow_work(1.0) as work:
        found = route.best_orders_at(run, points.tolist())
        first = work.spent
        again = route.best_orders_at(run, points.tolist())
    assert again is found
    assert work.spent == first >= 7 * 9 * order_search.SCREENED
    alone = [route.renyi_delta(run, point, "improved") for point in points.tolist()]
    assert found.values == pytest.approx([each.delta for each in alone], rel=1e-12)
    assert found.orders == pytest.approx([each.order for each in alone], rel=1e-3)
    together = np.concatenate([*route.renyi_deltas_at(run, points, "improved")])
    assert together == pytest.approx(found.values, rel=1e-12)


def test_blocks_that_are_refused_before_they_are_sized_are_said_to_take_their_games():
    blocks = [Aim(3.0, -40.0, 0.01, 0.01).block((ac.NoisyScreening(3.0 + i, 4.0, 20), 400)) for i in range(6)]
    with allow_work(0.05), pytest.raises(ac.OutOfPatience) as refusal:
        foresee_blocks(blocks, 6)
    begun = sum(block.begun()[1] for block in blocks)
    assert refusal.value.seconds * 1e9 > 5 * begun
    games = sum(block.work()[1] for block in blocks)
    assert unsized_work([400] * 6) > games


@pytest.mark.parametrize(
    "run",
    [50 * ac.TruncatedPoissonGaussian(4.35, 1e-3, 4216, 10), 3 * ac.PoissonSubsampled(ac.Laplace(1.0), 0.1)],
)
def test_a_curve_by_the_renyi_route_names_what_all_its_points_take(run):
    """Each part named itself and those before it."""
    epsilons = np.linspace(0.1, 3.0, 3000)
    with pytest.raises(ac.OutOfPatience) as error:
        ac.curve(run, epsilons, method="renyi", patience=1e-3)
    parts = 1 + len(epsilons) // 256
    assert error.value.seconds * 1e9 > (parts - 1) * route.LONG / 20
    with allow_work(error.value.seconds, route.pool_of(error.value.seconds)):
        for some in np.array_split(epsilons, parts):
            spend(SEARCHED * some.size * max(run._curve_work(), VALUE), "a part", free=route.LONG)


def test_a_profile_of_many_parts_counts_its_calls():
    """A price of 1000 draws took 0.5 to 4 s, whatever the patience."""
    for event in (ac.DiscreteLaplace(10.0, adjacency=REPLACE), ac.RandomizedResponse(0.1, adjacency=REPLACE)):
        run = ac.SampledWithReplacement(event, 1000, 100)
        with pytest.raises(ac.OutOfPatience):
            ac.epsilon(run, 1e-6, method="tight", patience=0.05)


def test_values_of_noise_on_many_coordinates_grow_with_how_far_a_shift_reaches():
    """Vectors with large shifts have more nodes: 2.5 times the time that was counted, and calls were not counted."""
    near, far = (ac.Laplace(1.0, shift, 5)._profile_work() for shift in (0.01, 1e6))
    assert 3.3 * near < far < 3.6 * near
    assert ac.Laplace(1.0, 1e6, 5)._profile_work() == ac.Laplace(1.0, 1e9, 5)._profile_work()
    few, many = (ac.Laplace(1.0, coordinates=m)._call_work() for m in (2, 60))
    assert 0.0 == ac.Laplace(1.0)._call_work() < few < many
    event = ac.Laplace(1e3, 1e6, 5, "replace")
    drawn = ac.SampledWithReplacement(event, 100, 50)
    parts = len(drawn._parts())
    assert drawn._call_work() > parts * event._call_work()
    assert drawn._profile_work() > parts * event._profile_work()


def test_attacks_count_calls_of_a_profile_beside_its_values():
    """A value by itself took a hundred times what was counted."""
    drawn = ac.SampledWithReplacement(ac.Laplace(1e3, 1e6, 5, "replace"), 100, 50)
    work = tallied(lambda: ac.advantage(drawn, method="tight"))
    assert work >= 2 * (drawn._profile_work() + drawn._call_work())


def test_curves_are_counted_before_a_tilt_is_chosen(monkeypatch):
    """The first orders of slow curves were asked before it was known that all of them take too long: 4 s at 0.05 s."""
    slow = ac.SampledWithReplacement(ac.Laplace(86.0, coordinates=48, adjacency="replace"), 4, 489)
    run = slow + 12 * ac.PureDP(0.1, adjacency="replace")
    asked = count_values(monkeypatch, laplace, "laplace_log_profile")
    with pytest.raises(ac.OutOfPatience, match="tilts chosen by a Rényi curve"):
        ac.true_positive_rate(run, 0.01, method="tight", patience=0.05)
    assert sum(asked) < 1000


def test_readings_of_a_full_batch_are_counted_before_the_best_is_chosen(monkeypatch):
    """Calls of a profile of hundreds of cells: 3 s at a patience of 0.05 s."""
    seen = ac.TruncatedPoissonGaussian(13.0, 0.007, 1355, 124, adjacency="replace")._certain(0)
    cells = sum(len(each) for each in seen.readings)
    assert seen._call_work() == truncated_readings.CALL * cells
    asked = []
    monkeypatch.setattr(truncated_readings, "log_sum_of", lambda *given: asked.append(given))
    with allow_work(0.01), pytest.raises(ac.OutOfPatience, match="readings of a full batch"):
        seen.best(23)
    assert not asked


def test_a_curve_in_many_parts_is_answered_at_the_patience_that_is_named(monkeypatch):
    """Calls of parts that follow were left out: 4 s were named, and 4.1 s after them."""
    run = 16 * ac.SampledWithReplacement(ac.Gaussian(12.4, adjacency="replace"), 15, 6581696386)
    epsilons = np.linspace(0.0, 1.0, 300)
    with pytest.raises(ac.OutOfPatience) as refusal:
        ac.curve(run, epsilons, method="renyi", patience=0.2)
    parts = []
    monkeypatch.setattr(route, "_best_together", lambda run, some, conversion: parts.append(some) or -some)
    ac.curve(run, epsilons, method="renyi", patience=float(format_up_short(refusal.value.seconds)))
    assert len(parts) > 10


def test_a_selection_names_a_patience_of_which_its_profile_has_enough():
    """The seconds that the profile may take are a share: what it named was less than the patience that was refused."""
    run = ac.Selection(ac.Shuffled(ac.PureDP(0.28), 8), Poisson(1.96))
    with pytest.raises(ac.OutOfPatience, match=r"the profile of one try .*, patience = 0.05;") as refusal:
        ac.epsilon(run, 1e-6, method="renyi", patience=0.05)
    assert refusal.value.seconds > 0.05
    assert ac.epsilon(run, 1e-6, method="renyi", patience=float(format_up_short(refusal.value.seconds))).epsilon > 0.28


def test_curves_of_sampled_groups_are_counted():
    """Gaussians far apart: an order of a hundred records took 3 to 90 ms of work that was not counted at all."""
    sample = ac.PoissonSubsampled(ac.Gaussian(1.0), 1e-3)
    for size in (5, 50):
        group = ac.Group(sample, size)
        parts = tuple(float(number) for number in range(size + 1))
        mixture = ac.MixtureOfGaussians(1.0, parts, (1 / (size + 1),) * (size + 1))
        assert group._curve_work() >= mixture._curve_work()
    with pytest.raises(ac.OutOfPatience, match="a Rényi curve"):
        ac.gaussian_dp(ac.Group(sample, 1000))
