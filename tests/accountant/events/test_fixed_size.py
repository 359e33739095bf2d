"""Samples of a fixed size: against enumeration of all samples, the definition at high precision, limits, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import accountant as ac
from accountant.events.drawn_gaussians import DrawnGaussians, reverse_excess
from accountant.numerics.quadrature import log_integral
from tests.cases import audit_after

REPLACE = ac.Adjacency.REPLACE
ORDERS = np.array([1.5, 2.0, 8.0, 60.0])
PURE = ac.PureDP(1.0, REPLACE)


def released(data, batch, mechanism):
    """Probabilities of the answers of a mechanism on all samples of the data."""
    rows = [mechanism(sample) for sample in itertools.combinations(data, batch)]
    return [sum(row[i] for row in rows) / len(rows) for i in range(len(rows[0]))]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_mechanism_costs_more(data):
    """Every function of a sample into {0, 1, 2}, told by randomized response of three answers."""
    records, batch = data.draw(st.sampled_from([(3, 1), (4, 2), (5, 2), (5, 4)]))
    ratio = data.draw(st.sampled_from([2, 5]))
    answers = {}

    def mechanism(sample):
        key = tuple(sorted(sample))
        if key not in answers:
            answers[key] = data.draw(st.integers(0, 2))
        return [Fraction(ratio if answer == answers[key] else 1, ratio + 2) for answer in range(3)]

    p, q = (released([*range(records - 1), own], batch, mechanism) for own in (10, 11))
    for event in (ac.KaryRandomizedResponse(math.log(ratio), 3), ac.PureDP(math.log(ratio), REPLACE)):
        priced = ac.FixedSizeSampled(event, batch, records)
        curves = priced.renyi(ORDERS).tolist()
        for a, b in ((p, q), (q, p)):
            for t in (0.0, 0.1, 0.3, 1.0):
                exact = float(sum(max(x - Fraction(math.exp(t)) * y, 0) for x, y in zip(a, b, strict=True)))
                assert exact <= float(priced.profile(t).worst) + 1e-12
            losses = [(float(x), math.log(x / y)) for x, y in zip(a, b, strict=True)]
            for order, curve in zip(ORDERS.tolist(), curves, strict=True):
                moment = sum(x * math.exp((order - 1) * loss) for x, loss in losses)
                assert math.log(moment) / (order - 1) <= curve + 1e-12


def test_the_profile_is_reached():
    """A mechanism that looks for one record only."""
    ratio = 3

    def mechanism(sample):
        return [Fraction(ratio if answer == (10 in sample) else 1, ratio + 1) for answer in (True, False)]

    p, q = (released([0, 1, 2, 3, own], 2, mechanism) for own in (10, 11))
    event = ac.FixedSizeSampled(ac.PureDP(math.log(ratio), REPLACE), 2, 5)
    for t in (0.0, 0.2, 0.5):
        exact = float(sum(max(x - Fraction(math.exp(t)) * y, 0) for x, y in zip(p, q, strict=True)))
        assert float(event.profile(t).worst) == pytest.approx(exact, rel=1e-12)


@pytest.mark.each_run(1)
@pytest.mark.parametrize(
    ("sigma", "batch", "records", "order"),
    audit_after(3, [(1.0, 10, 1000, 1.5), (1.0, 10, 1000, 4.0), (4.0, 256, 60000, 20.0), (0.8, 1, 3, 4.0)]),
)
def test_gaussian_noise_against_the_definition(sigma, batch, records, order):
    """1 + a (a-1) int (e^{(a-1)t} + e^{-at}) g H dt, H of N(2/sigma, 1) against N(0, 1)."""
    curve = float(ac.FixedSizeSampled(ac.ClippedSum(sigma, adjacency=REPLACE), batch, records).renyi(order))
    with mp.workdps(25):
        mu, g = mp.mpf(2) / sigma, mp.mpf(batch) / records

        def integrand(e):  # over the event's own epsilon, with dt = g e^e / (1 + g (e^e - 1)) de
            u = 1 + g * mp.expm1(e)
            height = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
            return (u ** (order - 1) + u**-order) * g * height * g * mp.exp(e) / u

        top = order * mu**2 + 14 * mu + 2
        moment = 1 + order * (order - 1) * mp.quad(integrand, mp.linspace(0, top, 16))
        exact = float(mp.log(moment) / (order - 1))
    assert curve == pytest.approx(exact, rel=1e-7)


def test_limits():
    noise = ac.ClippedSum(1.3, adjacency=REPLACE)
    assert ac.FixedSizeSampled(noise, 50, 50).renyi(ORDERS) == pytest.approx(noise.renyi(ORDERS))
    assert (ac.FixedSizeSampled(noise, 49, 50).renyi(ORDERS) <= noise.renyi(ORDERS)).all()
    rare = ac.FixedSizeSampled(noise, 1, 10**12)
    assert float(rare.renyi(2.0)) < 1e-10
    assert float(rare.profile(0.0).worst) < 1e-11
    # not the price of a Poisson sample of the same mean size
    poisson, sampled = ac.PoissonSubsampled(noise, 0.01), ac.FixedSizeSampled(noise, 600, 60000)
    assert (sampled.renyi(ORDERS) > poisson.renyi(ORDERS)).all()


def test_prices_agree():
    run = 100 * ac.FixedSizeSampled(ac.ClippedSum(1.5, adjacency=REPLACE), 100, 10000)
    tight, renyi = ac.epsilon(run, 1e-6, method="tight"), ac.epsilon(run, 1e-6)
    assert tight.lower <= tight.epsilon <= renyi.epsilon < 1.5 * tight.lower
    assert renyi.adjacency is REPLACE


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ac.FixedSizeSampled(ac.Gaussian(1.0), 1, 2), ac.SubsamplingError, "nothing is proven; accepted"),
        (lambda: ac.FixedSizeSampled(PURE, 3, 2), ac.ParameterError, r"batch = 3; accepted: \[1, 2"),
        (lambda: ac.FixedSizeSampled(ac.ApproximateDP(1.0, 0.1, REPLACE), 1, 2), ac.ParameterError, "no proven"),
        (lambda: ac.FixedSizeSampled(ac.ZeroConcentratedDP(1.0, 0.0, REPLACE), 1, 2), ac.ParameterError, "no proven"),
        (lambda: ac.FixedSizeSampled(3, 1, 2), ac.ParameterError, "event = 3; accepted: an event"),
        (lambda: ac.FixedSizeSampled(ac.Shuffled(1.0, 100), 5, 10), ac.SubsamplingError, "for 100 records, .* has 5"),
        (lambda: ac.FixedSizeSampled(ac.Group(ac.Shuffled(1.0, 100), 1), 5, 10), ac.SubsamplingError, "has 5"),
        (lambda: ac.FixedSizeSampled(ac.FixedSizeSampled(PURE, 5, 10), 5, 10), ac.SubsamplingError, "samples of 10"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_sample_of_as_many_records_as_are_public_may_be_drawn_from():
    """A sample of 3 of 5 of 10 is one of 3 of 10."""
    twice, once = ac.FixedSizeSampled(ac.FixedSizeSampled(PURE, 3, 5), 5, 10), ac.FixedSizeSampled(PURE, 3, 10)
    assert ac.delta(twice, 0.1).delta == pytest.approx(ac.delta(once, 0.1).delta, rel=1e-9)
    assert ac.delta(ac.FixedSizeSampled(ac.Shuffled(1.0, 5), 5, 10), 0.1).delta > 0.0


def plan_of(tmp_path, text):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return ac.load_plan(path)


def test_plans_read_back_what_a_run_wrote(tmp_path):
    run = 7 * ac.FixedSizeSampled(ac.ClippedSum(1.1, 3.0, REPLACE), 3, 40) + 2 * ac.FixedSizeSampled(PURE, 1, 2)
    assert plan_of(tmp_path, run.to_toml(delta=1e-5)).run == run
    assert ac.composition_from_tables(ac.composition_to_tables(run)) == run


def test_a_plan_states_batch_and_records_as_parameters(tmp_path):
    head = 'adjacency = "replace"\n[[release]]\nevent = "fixed-size-sampled"\nbatch = 3\nrecords = 40\n'
    of = 'of = {event = "clipped-sum", sigma = 1.1}\n'  # with the adjacency of the plan
    event = ac.FixedSizeSampled(ac.ClippedSum(1.1, adjacency=REPLACE), 3, 40)
    assert plan_of(tmp_path, head + of).run == 1 * event
    plan = plan_of(tmp_path, head + of + "epochs = 2\n")
    assert plan.run == 27 * event  # 2 * 40 / 3, rounded up
    assert plan.with_text("fixed-size-sampled.batch", 4).run.releases == 20
    assert plan.with_value("fixed-size-sampled.batch", 4).run.entries == {
        ac.FixedSizeSampled(ac.ClippedSum(1.1, adjacency=REPLACE), 4, 40): 27
    }
    for more, words in (
        ("epochs = 2\ncount = 3\n", "count beside records, batch, epochs; accepted: one of them"),
        ("sampling_rate = 0.1\n", "replace"),
        ("epochs = 0\n", "epochs = 0 is out of range"),
    ):
        with pytest.raises(ac.AccountantError, match=words) as caught:
            plan_of(tmp_path, head + of + more)
        assert "\n" not in str(caught.value)
    with pytest.raises(ac.AccountantError, match="batch missing; fixed-size-sampled needs of, batch, records"):
        plan_of(tmp_path, head.replace("batch = 3\n", "") + of)
    with pytest.raises(ac.AccountantError, match="nothing is proven"):
        plan_of(tmp_path, head.replace('adjacency = "replace"\n', "") + of)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.floats(-2.0, 1.3).map(lambda x: 10.0**x),
    st.one_of(st.floats(-12.0, 0.0).map(lambda x: 10.0**x), st.just(0.5)),
    st.floats(-8.0, 4.0).map(lambda x: 1 + 10.0**x),
)
def test_one_table_serves_all_orders(mu, rate, order):
    """What the smaller direction adds is what adaptive integrals at one order say."""
    drawn = DrawnGaussians(min(rate, 0.999), (0.0,), (mu,), (False,))
    pair, lost = ac.GaussianDP(mu), -math.log1p(-drawn.rate)
    far = 60.0 / order
    places = np.unique([*(far * 0.5 ** np.arange(60)), *np.minimum(lost * (1 - 0.5 ** np.arange(60.0)), far)])

    def integral(log_height):
        return math.exp(log_integral(lambda t: log_height(t) - order * t, places, 1e-13))

    high = integral(lambda t: pair._subsampled_log_profile(drawn.rate, t)[0])
    low = integral(lambda t: pair._subsampled_log_profile(drawn.rate, t)[1])
    assert reverse_excess(drawn, np.array([order]))[0] == pytest.approx(high - low, rel=1e-9, abs=4e-12 * high)


@pytest.mark.parametrize("sigma", [1e6, 1e14, 1e20, 1e30])
@pytest.mark.parametrize(("batch", "records"), [(1, 1000), (10, 1000), (999, 1000)])
def test_much_noise_costs_what_the_square_of_the_mean_shift_does(sigma, batch, records):
    """a (g/sigma)^2/2 is what is left of the curve, at every order: it does not fall, nor rise to that of no sample."""
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-6, 100.0, 40)])
    share = batch / records
    found = ac.FixedSizeSampled(ac.Gaussian(sigma, adjacency=REPLACE), batch, records).renyi(orders)
    assert found == pytest.approx(orders * (share / sigma) ** 2 / 2, rel=1e-3 if sigma == 1e6 else 1e-9)
    assert (found >= orders * (share / sigma) ** 2 / 2 * (1 - 1e-9)).all()
    assert (np.diff(found) >= 0).all()
    drawn = ac.SampledWithReplacement(ac.Gaussian(sigma, adjacency=REPLACE), 1, records).renyi(orders)
    assert drawn == pytest.approx(orders / (records * sigma) ** 2 / 2, rel=1e-3 if sigma == 1e6 else 1e-9)
