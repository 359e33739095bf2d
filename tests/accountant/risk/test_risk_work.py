"""The work of attack risks is counted before it is done, and answers stay certified where patience ends."""

import math

import numpy as np
import pytest

import accountant as ac
from accountant import advice, patience
from accountant.cli import main
from accountant.events import subsampling
from accountant.tight import loss_trade_off
from accountant.tight.directed_run import DirectedRun

RUN = 1000 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01) + 10 * ac.Laplace(20.0)
GAME = 100 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01) + 2 * ac.NoisyScreening(30.0, 20.0, 42)

ASKED = [
    ac.advantage,
    ac.bayes_risk,
    ac.gaussian_dp,
    lambda run, **how: ac.true_positive_rate(run, 1e-3, **how),
    lambda run, **how: ac.precision(run, 1e-3, 0.1, **how),
    lambda run, **how: ac.posterior(run, 1e-3, **how),
    lambda run, **how: ac.assess(run, [1e-3], **how).mu,
]


def counted(ask):
    """What is answered, and the seconds of work that were counted for it."""
    seen = [0.0]
    with patience.watch_work(lambda done, until: seen.append(until)):
        return ask(), seen[-1]


@pytest.mark.each_run(1)
@pytest.mark.parametrize("ask", ASKED)
def test_every_figure_has_a_patience(ask):
    for wrong in (0.0, -1.0, math.nan, "5"):
        with pytest.raises(ac.ParameterError, match=r"patience = .* accepted: \(0, inf\]"):
            ask(RUN, patience=wrong)
    for run in (RUN, GAME):
        with pytest.raises(ac.OutOfPatience, match=r"would take .* patience = 1e-09; accepted: patience = ") as error:
            ask(run, method="tight", patience=1e-9)
        assert "\n" not in str(error.value)
    whole, seconds = counted(lambda: ask(RUN, method="tight"))
    assert seconds > 0.01
    assert np.array_equal(whole.upper, ask(RUN, method="tight", patience=1.001 * seconds).upper)
    bound = ask(RUN, patience=0.2 * seconds)
    assert bound.method in ("tight", "renyi")
    assert (bound.upper >= whole.lower).all() if np.ndim(bound.upper) else bound.upper >= whole.lower * (1 - 1e-12)


@pytest.mark.audit
def test_what_is_left_of_patience_makes_intervals_narrower():
    """Values before a game were not counted: they took four times the patience."""
    found, taken = [], []
    for seconds in (2.5, 4.0, 8.0):
        answer, spent = counted(lambda s=seconds: ac.true_positive_rate(GAME, 1e-3, method="tight", patience=s))
        found.append(answer)
        taken.append(spent)
        assert spent <= seconds
    widths = [float(each.upper - each.lower) for each in found]
    assert widths == sorted(widths, reverse=True)
    assert max(float(each.lower) for each in found) <= min(float(each.upper) for each in found)


def test_grids_and_what_is_read_from_them_are_counted(monkeypatch):
    few, many = (counted(lambda n=n: ac.true_positive_rate(RUN, np.geomspace(1e-3, 2e-3, n)))[1] for n in (2, 200))
    assert many > few + 150 * loss_trade_off.PLACE * 1000 / patience.OPERATIONS_PER_SECOND
    monkeypatch.setattr(loss_trade_off, "Table", lambda *_: pytest.fail("work that is refused was begun"))
    monkeypatch.setattr(advice, "_advise", lambda refusal, *_: refusal)  # coarser tolerances are tried for it
    with pytest.raises(ac.OutOfPatience):
        ac.true_positive_rate(RUN, 1e-3, method="tight", patience=few / 10)


@pytest.mark.audit
@pytest.mark.parametrize("epsilons", [np.linspace(0.0, 3.0, 31), np.linspace(3.0, 0.0, 31)])
def test_a_profile_at_many_epsilons_takes_few_grids(epsilons, monkeypatch):
    run, composed, compose = 300 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.03), [], DirectedRun.compose

    def count(self):
        composed.append(self)
        compose(self)

    exact = [ac.delta(run, epsilon, method="tight", tolerance=1e-4) for epsilon in epsilons.tolist()]
    monkeypatch.setattr(DirectedRun, "compose", count)
    sides = [loss_trade_off.LossTradeOff(list(run), direction, 0.02) for direction in ("remove", "add")]
    for epsilon, price in zip(epsilons.tolist(), exact, strict=True):
        found = [side.profile(epsilon) for side in sides]
        assert max(each.lower for each in found) <= price.delta
        assert max(each.upper for each in found) >= price.lower
        assert all(0 < each.upper - each.lower <= 0.02 * each.upper for each in found)
    assert len(composed) <= 20  # one for each epsilon and direction: 62


@pytest.mark.audit
def test_the_renyi_bound_is_counted_and_given_where_the_tight_route_takes_too_long():
    run = 10 * ac.PoissonSubsampled(ac.Laplace(1.0), 0.1) + ac.Gaussian(20.0)
    found, seconds = counted(lambda: ac.advantage(run, method="renyi"))
    assert found.method == "renyi"
    fewer = ac.advantage(run, method="renyi", patience=0.9 * 701e6 / patience.OPERATIONS_PER_SECOND)
    assert found.upper <= fewer.upper <= found.upper * 1.05
    assert found.upper <= ac.advantage(run, patience=0.05).upper <= found.upper * 1.2
    assert ac.advantage(run, method="renyi", patience=1.001 * seconds).upper == found.upper
    many = ac.Composition((ac.PoissonSubsampled(ac.Laplace(1.0 + i), 0.1), 1) for i in range(40))
    with pytest.raises(ac.OutOfPatience, match=r"a Rényi curve at 88 orders would take about 3\.6 s"):
        ac.advantage(many, method="renyi", patience=1.0)


def test_profiles_of_single_releases_are_counted():
    event = ac.LNMax(10.0)
    _, one = counted(lambda: ac.true_positive_rate(event, 1e-3))
    rates = np.geomspace(1e-9, 0.5, 50)
    _, many = counted(lambda: ac.true_positive_rate(event, rates))
    assert many > 20 * one > 0.0


@pytest.mark.parametrize("scale", [1e-50, 1e-6])
def test_curves_of_losses_far_above_one_take_few_rounds(scale, monkeypatch):
    """Towards 0 panels were halved a hundred times, a round each: an attack risk of Laplace noise took 20 s."""
    rounds = []
    plain = subsampling._remembered_profile

    def remembered(event):
        profile = plain(event)
        return lambda e: rounds.append(e.size) or profile(e)

    monkeypatch.setattr(subsampling, "_remembered_profile", remembered)
    event = ac.PoissonSubsampled(ac.Laplace(scale), 0.01)
    curve = event.renyi([1.5, 10.0, 1e4])
    assert len(rounds) <= 3 * 2 * 15
    # the losses are 1/scale or its opposite, but for a share e^(-1/scale): D_a = 1/scale + log(rate) a/(a - 1) + ...
    for order, found in zip((1.5, 10.0, 1e4), curve.tolist(), strict=True):
        b = order - 1
        low = 1 / scale + (order * math.log(0.01) + math.log(0.5)) / b
        assert low * (1 - 1e-12) <= found <= 1 / scale


def test_the_command_takes_a_patience(capsys):
    assert main(["risk", "dp-sgd", "--patience", "0"]) == 2
    assert "patience = 0 is out of range; accepted: (0, inf]" in capsys.readouterr().err
    assert main(["risk", "dp-sgd", "--method", "tight", "--patience", "1e-9"]) == 2
    assert "patience = 1e-09" in capsys.readouterr().err
    assert main(["risk", "dp-sgd", "--patience", "1e-9"]) == 0
    assert "Route: renyi" in " ".join(capsys.readouterr().out.split())


@pytest.mark.audit
def test_a_patience_that_is_named_is_that_of_the_whole():
    """Each piece of work named what it took by itself, and the next one was refused: that took up to nine refusals."""
    for run in (RUN, 2 * ac.DiscreteGaussian(3.0) + 5 * ac.PoissonSubsampled(ac.Laplace(2.0), 0.1)):
        seconds, told = 0.01, False
        for _ in range(3):
            try:
                found = ac.assess(run, [1e-3], method="tight", patience=seconds)
            except ac.OutOfPatience as error:
                if told:
                    raise
                seconds, told = error.seconds, " or more" in str(error).partition("accepted: patience = ")[2][:16]
            else:
                break
        assert found.mu.method == "tight"


def test_a_tolerance_of_1_needs_a_table_for_mu_all_the_same():
    """Guesses are as near as that, so that nothing was composed, and there were no lines to bound mu by."""
    run = 710 * ac.PermuteAndFlip(0.0093)
    wide, near = (ac.gaussian_dp(run, method="tight", tolerance=tolerance) for tolerance in (1.0, 0.1))
    assert wide.lower <= near.upper <= wide.upper * (1 + 1e-9)


@pytest.mark.audit
@pytest.mark.parametrize("ask", ASKED[:2])
def test_a_refusal_shows_no_interval_of_a_delta(ask):
    """The interval of a delta on the way was shown as "certified so far", as one of the advantage and of the error."""
    with pytest.raises(ac.ToleranceUnreachable) as caught:
        ask(1000 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01), method="tight", tolerance=1e-6)
    assert "a grid of" in str(caught.value)
    assert "certified so far" not in str(caught.value)
    assert caught.value.found is None
