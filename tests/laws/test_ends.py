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
WORK = 2e7
"""Operations (see `accountant.patience`) that a profile may take here."""

REFUSALS = (ac.NoGuarantee, ac.ProfileUnavailable, ac.ToleranceUnreachable)
NO_NUMBER = (None, math.nan, -1, "nonsense", object(), ())
KINDS = list(event_kinds())


def ends_of(parameter: Parameter) -> list[float]:
    assert parameter.range is not None
    low, high = parameter.range.low, parameter.range.high
    ends = [0.0, low, high] if parameter.range.zero else [low, high]
    return [int(end) for end in ends] if parameter.whole else [float(end) for end in ends]


def ranged(kind: type[ac.Event]) -> list[Parameter]:
    return [each for each in parameters_of(kind) if each.range is not None]


def refused(make: Callable[[], Any], errors: Any) -> str | None:
    """What a refusal says, which must be one line with advice; None where nothing is refused."""
    try:
        make()
    except errors as error:
        assert "\n" not in str(error)
        assert "accepted" in str(error), error
        return str(error)
    return None


def events_at_ends(kind: type[ac.Event]) -> Iterator[ac.Event]:
    """All combinations of ends with what an example has beside them, but those that are refused."""
    names = [each.name for each in ranged(kind)]
    for base in kind.examples():
        for values in itertools.product(*(ends_of(each) for each in ranged(kind))):
            given = dict(zip(names, values, strict=True))
            if not refused(lambda base=base, given=given: replace(base, **given), (ac.ParameterError, ac.SubsamplingError)):
                yield replace(base, **given)


def check_curve(event: ac.Event) -> float:
    curve = event.renyi(ORDERS)
    assert (curve >= 0).all(), (event, curve)
    assert (curve[1:] >= curve[:-1] * (1 - ROUNDING)).all(), (event, curve)
    return float(curve[-1])


def check_profile(event: ac.Event) -> None:
    if event._profile_work() * EPSILONS.size > WORK:
        return
    try:
        profile = event.profile(EPSILONS)
    except ac.ProfileUnavailable as error:
        assert "accepted" in str(error), error
        return
    for half in (profile.remove, profile.add):
        assert ((half >= 0) & (half <= 1)).all(), (event, half)
        assert (half[1:] <= half[:-1] * (1 + 1e-10)).all(), (event, half)
        assert half[0] >= -math.expm1(-5.0) * (1 - ROUNDING), (event, half)


def check_prices(event: ac.Event, limit: float) -> None:
    found = {}
    for method in ("renyi", "auto"):
        if not refused(lambda method=method: found.update({method: ask(event, method)}), REFUSALS):
            price = found[method]
            assert 0 <= (price.lower or 0.0) <= price.epsilon <= limit * (1 + ROUNDING), (event, price)
            check_against_profile(event, price)
    if len(found) == 2:
        assert found["auto"].epsilon <= found["renyi"].epsilon * (1 + ROUNDING), (event, found)


def ask(event: ac.Event, method: str) -> ac.Guarantee:
    return ac.epsilon(event, DELTA, method=method, patience=1.0)


def check_against_profile(event: ac.Event, price: ac.Guarantee) -> None:
    """Delta is at most what is said at the upper end, and at least at the lower one."""
    if event.between_bounds or event._profile_work() > WORK:
        return
    try:
        upper = event.profile(min(price.epsilon * (1 + ROUNDING) + 1e-25, 1e308))
    except ac.ProfileUnavailable:
        return
    assert upper.worst <= DELTA * (1 + 1e-9), (event, price)
    if price.lower and price.method == "tight":
        assert event.profile(price.lower).worst >= DELTA * (1 - 1e-9), (event, price)


@pytest.mark.parametrize("name", KINDS)
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
        groups: list[ac.Event] = []
        refused(lambda event=event: groups.append(ac.Group(event, size)), (ac.ParameterError, ac.SubsamplingError))
        for group in groups:
            check_curve(group)
            check_profile(group)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_beyond_the_ends_is_refused(name):
    kind = event_kinds()[name]
    base = kind.examples()[0]
    for each in ranged(kind):
        first, *_, last = ends_of(each)
        beyond = (first - 1, last + 1) if each.whole else (math.nextafter(first, -math.inf), math.nextafter(last, math.inf))
        for value in beyond:
            said = refused(lambda name=each.name, value=value: replace(base, **{name: value}), ac.ParameterError)
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
            said = refused(lambda name=each.name, value=value: replace(base, **{name: value}), ac.ParameterError)
            assert said is not None, (name, each.name, value)
            assert each.name in said, said
