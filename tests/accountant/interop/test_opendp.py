import functools
import math

import pytest

import accountant as ac

pytest.importorskip("opendp")

import opendp.prelude as dp

from accountant.interop.opendp import to_event, to_map, to_privacy_profile

NUMBERS = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
RUN = 300 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.02)


@pytest.fixture(autouse=True)
def features():
    dp.enable_features("contrib", "honest-but-curious")


def test_measurements_become_events():
    gaussian, laplace = dp.m.make_gaussian(*NUMBERS, scale=2.0), dp.m.make_laplace(*NUMBERS, scale=2.0)
    assert to_event(gaussian, 1.0) == ac.ZeroConcentratedDP(gaussian.map(1.0))
    assert to_event(laplace, 3.0) == ac.PureDP(laplace.map(3.0))
    assert laplace.map(3.0) == pytest.approx(1.5)
    both = dp.c.make_composition([gaussian, gaussian])
    assert to_event(both, 1.0, adjacency="replace") == ac.ZeroConcentratedDP(0.25, adjacency="replace")
    assert to_event(dp.c.make_approximate(gaussian), 1.0) == ac.ZeroConcentratedDP(0.125)


def test_profiles_become_events_at_many_points():
    """A Gaussian profile of OpenDP, read at 128 epsilons, composes as Gaussian noise of that scale does."""
    profile = dp.new_privacy_profile(lambda epsilon: float(ac.Gaussian(2.0).profile(epsilon).remove))
    run = 10 * to_event(profile)
    exact = ac.epsilon(10 * ac.Gaussian(2.0), 1e-5, method="tight", tolerance=1e-3)
    assert exact.lower <= ac.epsilon(run, 1e-5, method="tight", tolerance=1e-3).epsilon <= 1.01 * exact.epsilon
    few = to_event(profile, epsilons=[0.5, 1.0])
    assert few.epsilons == (0.5, 1.0)
    assert few.deltas == pytest.approx([float(ac.Gaussian(2.0).profile(e).remove) for e in (0.5, 1.0)], rel=1e-9)
    with pytest.raises(ac.ParameterError, match="accepted: either"):
        to_event(profile, delta=1e-6, epsilons=[1.0])
    with pytest.raises(ac.ParameterError, match="accepted: less at some"):
        to_event(dp.new_privacy_profile(lambda epsilon: 1.0), epsilons=[1.0])


def test_profiles_become_events_at_a_point():
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*NUMBERS, scale=2.0))
    profile = measurement.map(1.0)
    for source in (measurement, profile, dp.c.make_fix_delta(measurement, 1e-6)):
        event = to_event(source, 1.0, delta=1e-6, adjacency="replace")
        assert event == ac.ApproximateDP(profile.epsilon(1e-6), 1e-6, "replace")
    assert ac.epsilon(1 * event, 1.001e-6, method="tight").epsilon == pytest.approx(event.epsilon, rel=1e-3)


def test_other_sources_are_refused():
    profile = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*NUMBERS, scale=2.0))
    with pytest.raises(ac.ParameterError, match="accepted"):
        to_event("a measurement", 1.0)
    with pytest.raises(ac.ParameterError, match="out of range"):
        to_event(profile, 1.0, delta=1.0)


def test_measurements_compose_tighter_than_theirs():
    """Of 60 Laplace releases theirs says 30; that is 60 times as much as one, which is the price at delta = 0."""
    laplace = dp.m.make_laplace(*NUMBERS, scale=2.0)
    together = dp.c.make_composition([laplace] * 60)
    ours = ac.epsilon(60 * to_event(laplace, 1.0), 1e-6, method="tight").epsilon
    assert ours < 0.9 * together.map(1.0)
    assert ac.epsilon(60 * to_event(laplace, 1.0), 0.0, method="tight").epsilon == pytest.approx(together.map(1.0))


@pytest.mark.each_run(1)
@pytest.mark.parametrize("run", [RUN, ac.Gaussian(2.0), 5 * ac.ZeroConcentratedDP(0.1), ac.Composition()], ids=str)
def test_runs_become_profiles_that_bound_them(run):
    profile = to_privacy_profile(run)
    whole = 1 * run if isinstance(run, ac.Event) else run
    for epsilon in (0.0, 0.3, 0.70005, 2.0, 30.0):
        found = ac.delta(whole, epsilon, method="auto", tolerance=1e-3, conversion="optimal")
        assert profile.delta(epsilon) >= (found.lower if found.lower is not None else found.delta) * (1 - 1e-9)
        if found.method == "tight":
            assert profile.delta(epsilon) <= found.delta * 1.02 + 1e-19
    if whole.releases and run is not RUN:
        truth = ac.epsilon(whole, 1e-6, method="auto", conversion="optimal").epsilon
        assert profile.epsilon(1e-6) == pytest.approx(truth, rel=2e-3)


def test_maps_make_measurements_that_compose():
    price = to_map(RUN, 1e-6)
    mechanism = dp.m.make_user_measurement(
        dp.vector_domain(dp.atom_domain(T=float, nan=False)),
        dp.symmetric_distance(),
        dp.approximate(dp.max_divergence()),
        lambda records: 0.0,
        price,
    )
    epsilon, delta = mechanism.map(1)
    assert delta == 1e-6
    certified = ac.epsilon(RUN, 1e-6, method="tight", tolerance=1e-5)
    assert certified.lower <= epsilon <= certified.epsilon * (1 + 1e-9)
    assert dp.c.make_composition([mechanism, mechanism]).map(1)[0] == pytest.approx(2 * epsilon)
    assert mechanism.map(0) == (0.0, 0.0)
    with pytest.raises(dp.OpenDPException):
        mechanism.map(2)
    for distance in ("a", None, float("nan")):
        with pytest.raises(ac.ParameterError, match=r"d_in = .* accepted: at most 1"):
            price(distance)


def test_costs_that_depend_on_private_data_are_not_exported():
    votes = ac.DataDependentGNMax(40.0, (200.0, 40.0))
    with pytest.raises(ac.DataDependentError, match="depends on private data"):
        to_privacy_profile(votes)
    with pytest.raises(ac.DataDependentError, match="depends on private data"):
        to_map(3 * votes, 1e-5)


def test_losses_that_may_be_infinite_are_exported():
    run = 3 * ac.ApproximateDP(0.1, 1e-3)
    profile = to_privacy_profile(run)
    for epsilon in (0.0, 0.15, 2.0):
        exact = ac.delta(run, epsilon, tolerance=1e-6)
        assert exact.lower * (1 - 1e-12) <= profile.delta(epsilon) <= exact.delta * (1 + 1e-6)
    assert profile.delta(math.inf) == profile.delta(1e300)


@pytest.mark.parametrize("epsilons", [1.0, "a", ["a"], [], [-1.0], [math.nan], [math.inf]])
def test_epsilons_that_cannot_be_read_are_refused(epsilons):
    profile = dp.new_privacy_profile(lambda epsilon: 1e-3)
    with pytest.raises(ac.ParameterError, match="epsilons"):
        to_event(profile, epsilons=epsilons)


def test_profiles_at_negative_epsilons_are_above_the_exact_ones():
    """They were those at 0: 0.197 at -1 for Gaussian noise of 2, where it is 0.635."""
    for run in (ac.Gaussian(2.0), ac.PoissonSubsampled(ac.Gaussian(1.0), 0.2), ac.Laplace(1.0, adjacency="replace")):
        profile = to_privacy_profile(run)
        for epsilon in (-1e-9, -0.3, -1.0, -5.0, -100.0):
            exact = float(run.profile(epsilon).worst)
            assert exact * (1 - 1e-15) <= profile.delta(epsilon) <= min(1.001 * exact + 1e-4, 1.0)
    assert to_privacy_profile(ac.Gaussian(2.0)).delta(-1.0) == pytest.approx(0.635, abs=5e-4)


# --- neighbouring inputs -------------------------------------------------------------------------------------------

RECORDS = dp.atom_domain(T=int)


def measured(metric, *, size=None, price=float):
    """A measurement of records whose map is a function of the distance."""
    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(RECORDS, size=size)
    return dp.m.make_user_measurement(domain, metric, dp.max_divergence(), lambda records: 0, price)


@pytest.mark.parametrize("metric", [dp.change_one_distance(), dp.hamming_distance()], ids=str)
def test_records_that_are_replaced_are_not_amplified(metric):
    """They were said to be added or removed: sampled at 0.1 they cost 0.158565 for 1."""
    for size in (None, 10):
        event = to_event(measured(metric, size=size))
        assert event == to_event(measured(metric, size=size), 1, adjacency="replace") == ac.PureDP(1.0, "replace")
        assert to_event(measured(metric), 3) == ac.PureDP(3.0, "replace")
        with pytest.raises(ac.SubsamplingError, match="replace"):
            ac.PoissonSubsampled(event, 0.1)
        with pytest.raises(ac.ParameterError, match=r"adjacency = add-remove .*Distance; accepted: replace"):
            to_event(measured(metric, size=size), adjacency="add-remove")


@pytest.mark.parametrize("metric", [dp.symmetric_distance(), dp.insert_delete_distance()], ids=str)
def test_a_record_that_is_replaced_is_at_distance_two(metric):
    """It was priced at distance 1, where one is added or removed."""
    source = measured(metric)
    assert to_event(source) == to_event(source, 1, adjacency="add-remove") == ac.PureDP(1.0)
    assert to_event(source, 3) == ac.PureDP(3.0)
    for event in (to_event(source, adjacency="replace"), to_event(source, 2, adjacency=ac.Adjacency.REPLACE)):
        assert event == ac.PureDP(2.0, "replace")
    with pytest.raises(ac.ParameterError, match=r"d_in in .* under replace adjacency = 1 .* accepted: \[2, inf"):
        to_event(source, 1, adjacency="replace")
    with pytest.raises(ac.ParameterError, match=r"under add-remove adjacency = 0 .* accepted: \[1, inf"):
        to_event(source, 0)


def test_no_record_comes_or_goes_where_their_number_is_fixed():
    """At distance 1 a sum of ten records has a map of 0: it was said to cost nothing."""
    inner = dp.vector_domain(dp.atom_domain(bounds=(0, 10)), size=10)
    source = dp.t.make_sum(inner, dp.symmetric_distance()) >> dp.m.then_laplace(scale=10.0)
    assert source.map(1) == 0.0
    assert to_event(source) == to_event(source, 2) == ac.PureDP(1.0, "replace")
    with pytest.raises(ac.ParameterError, match=r"d_in in SymmetricDistance .* = 1 is out of range"):
        to_event(source, 1)
    with pytest.raises(ac.ParameterError, match=r"adjacency = add-remove .* size=10\) .* accepted: replace"):
        to_event(source, 2, adjacency="add-remove")


def test_arrays_with_a_fixed_number_of_rows_are_known():
    """Their domain has no size of its own: a sum of 100 rows was said to cost nothing."""
    dp.enable_features("idealized-numerics")
    for size, price in ((100, ac.ZeroConcentratedDP(2.0, adjacency="replace")), (None, ac.ZeroConcentratedDP(0.5))):
        inner = dp.numpy.array2_domain(num_columns=2, T=float, size=size, norm=1.0, p=2, origin=0, nan=False)
        total = dp.t.make_user_transformation(
            inner, dp.symmetric_distance(), VECTORS, dp.l2_distance(T=float), sum, sum_of_rows(size)
        )
        source = total >> dp.m.then_gaussian(scale=1.0)
        assert to_event(source) == price
        if size is not None:
            with pytest.raises(ac.ParameterError, match=r"adjacency = add-remove .* accepted: replace"):
                to_event(source, adjacency="add-remove")


VECTORS = dp.vector_domain(dp.atom_domain(T=float, nan=False))


def sum_of_rows(size):
    return lambda distance: float(distance if size is None else distance // 2 * 2)


def test_frames_of_a_fixed_length_are_known():
    """Their domain keeps it in a margin: a sum was said to cost the rounding alone, 1.1e-12."""
    pl = pytest.importorskip("polars")
    columns = dp.lazyframe_domain([dp.series_domain("a", dp.atom_domain(T=float, nan=False))])
    for invariant, price in (("lengths", ac.PureDP(1.0, "replace")), (None, ac.PureDP(1.0))):
        domain = dp.with_margin(columns, dp.polars.Margin(by=[], max_length=50, invariant=invariant))
        query = pl.LazyFrame({"a": [1.0]}).select(pl.col("a").fill_null(0.0).dp.sum((0.0, 10.0), scale=10.0))
        make = functools.partial(dp.m.make_private_lazyframe, output_measure=dp.max_divergence(), lazyframe=query)
        found = to_event(make(domain, dp.symmetric_distance()))
        assert found.adjacency == price.adjacency
        assert found.epsilon == pytest.approx(price.epsilon)
        bounded = make(domain, dp.frame_distance(dp.symmetric_distance()))
        many = [dp.polars.Bound(by=[], per_group=2)]
        assert to_event(bounded, many, adjacency="replace") == ac.PureDP(bounded.map(many), "replace")
        with pytest.raises(ac.ParameterError, match=r"under replace adjacency = 1 .* accepted: \[2, inf"):
            to_event(bounded, [dp.polars.Bound(by=[], per_group=1)], adjacency="replace")


@pytest.mark.parametrize(
    ("measure", "price", "convert"),
    [
        (dp.max_divergence(), lambda distance: float(distance // 2), None),
        (dp.max_divergence(), lambda distance: distance // 2 + 1e-12, None),
        (dp.zero_concentrated_divergence(), lambda distance: float(distance // 2), None),
        (dp.zero_concentrated_divergence(), lambda distance: float(distance // 2), dp.c.make_zCDP_to_approxDP),
        (dp.approximate(dp.max_divergence()), lambda distance: (0.0, distance // 2 * 1e-3), None),
    ],
)
def test_a_map_that_charges_only_for_two_asks_for_the_adjacency(measure, price, convert):
    """Domains may fix the number of records in ways that are not known here; then distance 1 costs nothing."""
    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.user_domain("ten rows", lambda rows: len(rows) == 10)
    source = dp.m.make_user_measurement(domain, dp.symmetric_distance(), measure, len, price)
    source = convert(source) if convert else source
    for distance in (None, 1, 2):
        with pytest.raises(ac.ParameterError, match=r"^adjacency = None .* accepted: replace, or add-remove") as caught:
            to_event(source, distance, delta=1e-6)
        assert "\n" not in str(caught.value)
    assert to_event(source, adjacency="replace", delta=1e-6).adjacency is ac.Adjacency.REPLACE


def test_another_measure_is_refused_by_its_name():
    measure = dp.user_divergence("another")
    for price in (lambda distance: float(distance // 2), lambda distance: "much"):
        source = dp.m.make_user_measurement(dp.vector_domain(RECORDS), dp.symmetric_distance(), measure, len, price)
        with pytest.raises(ac.ParameterError, match=r"^(adjacency = None|output measure another) .*; accepted: "):
            to_event(source)


def test_sensitivities_have_the_adjacency_of_the_caller():
    laplace = dp.m.make_laplace(*NUMBERS, scale=2.0)
    for name in ("add-remove", "replace"):
        assert to_event(laplace, 3.0, adjacency=name) == ac.PureDP(laplace.map(3.0), name)
    assert to_event(laplace) == ac.PureDP(laplace.map(1.0))
    user = measured(dp.user_distance("ChangeOneDistance()"))
    assert to_event(user, 1.0).adjacency is ac.Adjacency.ADD_REMOVE


# --- what has no value -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "how", "words"),
    [
        (0.2, {"delta": 0.1}, "whose epsilon is inf at delta = 0.1; accepted: a delta that it reaches"),
        (math.nan, {}, 'at delta = 1e-12 fails: FailedMap("not comparable"); accepted: '),
        (math.nan, {"delta": 0.1}, "a privacy profile .*delta = 0.1"),
        (math.nan, {"epsilons": [1.0]}, "a privacy profile .*epsilon = 1"),
        (-0.5, {"epsilons": [1.0]}, "whose delta is -0.5 at epsilon = 1; accepted"),
        ("a", {"epsilons": [1.0]}, "a privacy profile at epsilon = 1 fails: "),
    ],
)
def test_profiles_without_a_value_are_refused_in_a_line(answer, how, words):
    """An epsilon of inf was out of range; nan was an error of two lines; a delta below 0 was taken for none."""
    with pytest.raises(ac.ParameterError, match=words.replace("(", r"\(").replace(")", r"\)")) as caught:
        to_event(dp.new_privacy_profile(lambda epsilon: answer), **how)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("distance", ["a", -1.0, math.nan])
def test_maps_without_a_value_are_refused_in_a_line(distance):
    for source in (measured(dp.symmetric_distance()), dp.m.make_laplace(*NUMBERS, scale=2.0)):
        with pytest.raises(ac.ParameterError, match="d_in") as caught:
            to_event(source, distance)
        assert "\n" not in str(caught.value)
