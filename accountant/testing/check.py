"""Laws that every event must keep, for your events as much as for the built-in ones.

``check_event(event)`` holds an event against all of them with inputs drawn by Hypothesis, and says which law
broke, where, and by how much. `events()` and `compositions()` are strategies for tests of your own. Needs
Hypothesis: ``pip install 'knn-accountant[testing]'``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events.event import Event
from accountant.events.registry import event_kinds
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.subsampling import can_be_sampled
from accountant.testing.laws import FORM, LAWS, Law, LawBroken, laws_for
from accountant.testing.strategies import compositions, epsilons_of, events, hypothesis, orders

__all__ = [
    "LAWS",
    "Law",
    "LawBroken",
    "broken_laws",
    "check_event",
    "compositions",
    "epsilons_of",
    "events",
    "example_events",
    "laws_for",
    "orders",
]

GRID = [1 + 10 ** (exponent / 70) for exponent in range(-420, 421)]
"""Orders that are always tried: 70 to a decade of their distance from 1."""


MOST_WARNINGS = 5
"""Of the warnings of an event's own code, as many are shown."""


def example_events() -> list[Event]:
    """Examples of every registered event, also sampled where that makes sense: what ``accountant verify`` checks."""
    plain = [event for kind in event_kinds().values() for event in kind.examples()]
    return [*plain, *(PoissonSubsampled(event, 0.1) for event in plain if can_be_sampled(event))]


def broken_laws(event: Event, *, max_examples: int = 50, laws: Sequence[Law] | None = None) -> list[LawBroken]:
    """Hold `event` against the laws and return one LawBroken for each that it breaks.

    Parameters
    ----------
    event : Event
    max_examples : int
        Random inputs per law; the same ones every time.
    laws : sequence of Law, optional
        Instead of all that apply.

    Raises
    ------
    MissingExtra
        Hypothesis is not installed.
    """
    library = hypothesis()
    settings = library.settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[phase for phase in library.Phase if phase is not library.Phase.explain],  # slow, and not shown
        suppress_health_check=list(library.HealthCheck),
    )
    _refuse_unusable(event)
    chosen = laws_for(event) if laws is None else laws

    def hold(law: Law) -> None:
        if law.sweep is not None:
            law.sweep(event, GRID)

        def check(data: Any) -> None:
            law.check(event, data.draw)

        settings(library.given(library.strategies.data())(check))()

    broken: list[LawBroken] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # each line of code warns once, not at every input
        for law in chosen:
            try:
                hold(law)
            except LawBroken as failure:
                broken.append(failure)
            except Exception as error:
                first = next((each.law for each in broken if each.law in {form.name for form in FORM}), None)
                why = f"it raised {error!r}" if first is None else f"not to be told, as {first!r} is broken"
                broken.append(LawBroken(law.name, "evaluation", math.inf, why))
    _pass_on(caught, broken)
    return broken


def _pass_on(caught: Sequence[warnings.WarningMessage], broken: Sequence[LawBroken]) -> None:
    """Warnings of an event's code: a note at the first broken law, or else given again, each once."""
    distinct = {(str(each.message), each.filename, each.lineno): each for each in caught}
    for (text, file, line), each in list(distinct.items())[:MOST_WARNINGS]:
        if broken:
            broken[0].add_note(f"{file}:{line}: {each.category.__name__}: {text}")
        else:
            warnings.warn_explicit(each.message, each.category, file, line)


def _refuse_unusable(event: object) -> None:
    """Raise ParameterError for what no law can be held against."""
    if not isinstance(event, Event) or not isinstance(getattr(event, "adjacency", None), Adjacency):
        raise ParameterError(
            f"{shorten(event)} has no adjacency; accepted: an Event with a field such as "
            "`adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE`"
        )
    try:
        hash(event)
    except TypeError:
        raise ParameterError(f"{shorten(event)} cannot be hashed; accepted: a frozen dataclass") from None


def check_event(event: Event, *, max_examples: int = 50) -> None:
    """Hold an event against every law that applies to it.

    Parameters
    ----------
    event : Event
        Built in, or your own: a frozen dataclass derived from `accountant.Event`.
    max_examples : int
        Random inputs per law; the same ones every time.

    Raises
    ------
    LawBroken
        A law does not hold; the message says which, at which order, epsilon or rate, and by how much.
    MissingExtra
        Hypothesis is not installed.
    """
    failures = broken_laws(event, max_examples=max_examples)
    if failures:
        first = failures[0]
        if len(failures) > 1:
            first.add_note(f"also broken: {'; '.join(str(failure) for failure in failures[1:])}")
        raise first
