"""Both ends of a price whose releases are known between bounds, asked until nothing nearer is to be had."""

import pytest

from accountant.errors import OutOfPatience, ToleranceUnreachable
from accountant.numerics.roots import Interval
from accountant.tight.games_last import BetweenBounds
from accountant.tight.loss_composition import RemainderTooWide


def refuse(kind, found):
    error = kind("no")
    error.found = found
    raise error


def sides(*intervals):
    """Asks that answer one interval after the other, and what tolerances they were asked with."""
    left, tolerances = list(intervals), []

    def ask(tolerance, remainders):
        tolerances.append(tolerance)
        found = left.pop(0)
        return found if isinstance(found, Interval) else refuse(*found)

    return ask, tolerances


def test_both_sides_are_asked_as_long_as_they_come_nearer():
    above, tolerances = sides(*(Interval(0.0, high) for high in (1.5, 1.2, 1.25)))
    below, _ = sides(Interval(0.5, 0.6), (RemainderTooWide, (0.8, 0.9)), Interval(0.7, 0.9))
    price = BetweenBounds(above, below, 0.01)
    for known in ((0.5, 1.5), (0.8, 1.2)):
        with pytest.raises(RemainderTooWide) as refusal:
            price({})
        assert refusal.value.found == known
    assert price({}) == (0.8, 1.2)  # the last one was no nearer
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[0] == 0.01


def test_a_narrow_interval_is_taken_at_once():
    price = BetweenBounds(sides(Interval(0.0, 1.0))[0], sides(Interval(0.995, 1.0))[0], 0.01)
    assert price({}) == (0.995, 1.0)


@pytest.mark.parametrize(("found", "low"), [(None, 0.0), ((0.2, 0.7), 0.2)])
def test_with_nothing_after_it_one_interval_is_all(found, low):
    above, below = sides(Interval(0.0, 1.0))[0], sides((ToleranceUnreachable, found))[0]
    assert BetweenBounds(above, below, 0.01).answer((), 1e-5, None) == (low, 1.0)


@pytest.mark.parametrize("kind", [ToleranceUnreachable, RemainderTooWide])
def test_a_refusal_from_above_certifies_what_is_below(kind):
    """What stands above may be known from both sides; no data need reach its lower end."""
    price = BetweenBounds(sides((kind, (0.9, 1.0)))[0], sides(Interval(0.3, 0.4))[0], 0.01)
    with pytest.raises(kind) as refusal:
        price({})
    assert refusal.value.found == (0.3, 1.0)


def test_nothing_is_done_below_where_patience_ends_above():
    price = BetweenBounds(sides((lambda said: OutOfPatience(said, 9.0), (0.9, 1.0)))[0], sides()[0], 0.01)
    with pytest.raises(OutOfPatience) as refusal:
        price({})
    assert refusal.value.found == (0.0, 1.0)


def test_what_has_no_upper_end_is_refused():
    price = BetweenBounds(sides((ToleranceUnreachable, None))[0], sides()[0], 0.01)
    with pytest.raises(ToleranceUnreachable, match="no"):
        price.answer((), 1e-5, None)
