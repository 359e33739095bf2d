"""Every registered event at the ends of its parameters: accepted, priced, and refused just beyond."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import accountant as ac
from accountant.events.parameters import Parameter, parameters_of
from accountant.events.registry import event_kinds
from accountant.events.subsampling import can_be_sampled

ORDERS = np.array([1.0, 1 + 1e-6, 2.0, 1e6, math.inf])
EPSILONS = np.array([-5.0, 0.0, 1e-3, 1.0, 50.0, 1e4])
DELTA = 1e-5
ROUNDING = 1e-12
WORK = 5e6
"""Operations (see `accountant.patience`) that a profile may take here."""

NOT_MADE = (ac.ParameterError, ac.SubsamplingError)
NO_PROFILE = (ac.ProfileUnavailable, ac.ParameterError)
REFUSALS = (ac.NoGuarantee, ac.ProfileUnavailable, ac.ToleranceUnreachable)
NO_NUMBER = (None, math.nan, -1, "nonsense", object(), ())
KINDS = list(event_kinds())
SLOW = {"random-allocation", "truncated-poisson-gaussian", "shuffled-epoch"}
"""A million steps, or many combinations: with the audits."""


def ends_of(parameter: Parameter) -> list[float]:
    assert parameter.range is not None
    low, high = parameter.range.low, parameter.range.high
    ends = [0.0, low, high] if parameter.range.zero else [low, high]
    return [int(end) for end in ends] if parameter.whole else [float(end) for end in ends]


def ranged(kind: type[ac.Event]) -> list[Parameter]:
    return [each for each in parameters_of(kind) if each.range is not None]


def refused(errors: Any, make: Callable[..., Any], *values: Any, **options: Any) -> str | None:
    """What a refusal says, which must be one line with advice; None where nothing is refused."""
    try:
        make(*values, **options)
    except errors as error:
        said = str(error)
    else:
        return None
    assert "\n" not in said, said
    assert "accepted" in said, said
    return said


def events_at_ends(kind: type[ac.Event]) -> Iterator[ac.Event]:
    """All combinations of ends with what an example has beside them, but those that are refused."""
    names = [each.name for each in ranged(kind)]
    for base in kind.examples():
        for values in itertools.product(*(ends_of(each) for each in ranged(kind))):
            given = dict(zip(names, values, strict=True))
            if not refused(NOT_MADE, replace, base, **given):
                yield replace(base, **given)


def check_curve(event: ac.Event) -> float:
    curve = event.renyi(ORDERS)
    assert (curve >= 0).all(), (event, curve)
    assert (curve[1:] >= curve[:-1] * (1 - ROUNDING)).all(), (event, curve)
    return float(curve[-1])


def check_profile(event: ac.Event) -> None:
    if event._profile_work() * EPSILONS.size > WORK:
        return
    if refused(NO_PROFILE, event._log_profile, np.zeros(1)):
        return
    profile = event.profile(EPSILONS)
    for half in (profile.remove, profile.add):
        assert ((half >= 0) & (half <= 1)).all(), (event, half)
        assert (half[1:] <= half[:-1] * (1 + 1e-10)).all(), (event, half)
        assert half[0] >= -math.expm1(-5.0) * (1 - ROUNDING), (event, half)


def check_prices(event: ac.Event, limit: float) -> None:
    found = {}
    for method in ("renyi", "auto"):
        if not refused(REFUSALS, ask, event, method):
            price = found[method] = ask(event, method)
            assert 0 <= (price.lower or 0.0) <= price.epsilon <= limit * (1 + ROUNDING), (event, price)
            check_against_profile(event, price)
    if len(found) == 2:
        assert found["auto"].epsilon <= found["renyi"].epsilon * (1 + ROUNDING), (event, found)


def ask(event: ac.Event, method: str) -> ac.Guarantee:
    return ac.epsilon(event, DELTA, method=method, patience=0.3)


def check_against_profile(event: ac.Event, price: ac.Guarantee) -> None:
    """Delta is at most what is said at the upper end, and at least at the lower one."""
    if event.between_bounds or event._profile_work() > WORK:
        return
    if refused(NO_PROFILE, event._log_profile, np.zeros(1)):
        return
    upper = event.profile(min(price.epsilon * (1 + ROUNDING) + 1e-25, 1e308))
    assert upper.worst <= DELTA * (1 + 1e-9), (event, price)
    if price.lower and price.method == "tight":
        assert event.profile(price.lower).worst >= DELTA * (1 - 1e-9), (event, price)


@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.audit) if k in SLOW else k for k in KINDS])
def test_events_are_priced_at_the_ends_of_their_parameters(name):
    events = list(events_at_ends(event_kinds()[name]))
    assert events
    for event in events:
        check_prices(event, check_curve(event))
        check_profile(event)


@pytest.mark.audit
@pytest.mark.parametrize("rate", [1e-15, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("name", KINDS)
def test_samples_are_priced_at_the_ends_of_their_parameters(name, rate):
    for event in filter(can_be_sampled, events_at_ends(event_kinds()[name])):
        sample = ac.PoissonSubsampled(event, rate)
        check_prices(sample, check_curve(sample))
        check_profile(sample)


@pytest.mark.parametrize("size", [2, 10**6])
@pytest.mark.parametrize("name", KINDS)
def test_groups_are_priced_at_the_ends_of_their_parameters(name, size):
    for event in events_at_ends(event_kinds()[name]):
        if refused(NOT_MADE, ac.Group, event, size):
            continue
        group = ac.Group(event, size)
        if group._profile_work() > WORK or group._curve_work() * ORDERS.size > WORK:
            continue
        if not refused(ac.ParameterError, group.renyi, 2.0):
            check_curve(group)
            check_profile(group)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_beyond_the_ends_is_refused(name):
    kind = event_kinds()[name]
    base = kind.examples()[0]
    for each in ranged(kind):
        first, *_, last = ends_of(each)
        beyond = (first - 1, last + 1)
        if not each.whole:
            beyond = (math.nextafter(first, -math.inf), math.nextafter(last, math.inf))
        for value in beyond:
            said = refused(ac.ParameterError, replace, base, **{each.name: value})
            assert said is not None, (name, each.name, value)
            assert f"{each.name} = " in said, said


@pytest.mark.parametrize("name", KINDS)
def test_every_parameter_has_a_range_or_says_what_it_accepts(name):
    kind = event_kinds()[name]
    base = kind.examples()[0]
    for each in parameters_of(kind):
        for value in NO_NUMBER:
            if each.range is not None and each.range.low <= -1 and value == -1:
                continue
            said = refused(ac.ParameterError, replace, base, **{each.name: value})
            assert said is not None, (name, each.name, value)
            assert each.name in said, said
