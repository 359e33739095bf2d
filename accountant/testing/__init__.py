"""Laws that any event must keep, as a feature: see `check_event`."""

from accountant.testing.check import (
    LAWS,
    Law,
    LawBroken,
    broken_laws,
    check_event,
    compositions,
    epsilons_of,
    events,
    example_events,
    laws_for,
    orders,
)

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
