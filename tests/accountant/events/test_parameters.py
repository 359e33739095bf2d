"""Ranges of parameters hold for subclasses too, whatever else their annotations say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import pytest

import accountant as ac
from accountant.events.parameters import parameters_of

if TYPE_CHECKING:
    from nowhere import Note

BAD = (-1.0, 0.0, float("nan"), 1e300, "1", True)


@dataclass(frozen=True)
class Annotation(ac.Gaussian):
    """Has a field whose type only a type checker can resolve."""

    note: Note | None = None


@dataclass(frozen=True)
class OtherDefault(ac.Gaussian):
    """Declares a field again, without a range."""

    sigma: float = 2.0


@dataclass(frozen=True)
class Narrower(ac.Gaussian):
    """Declares a field again, with a range of its own."""

    sigma: Annotated[float, ac.Range(1.0, 2.0)]


@pytest.mark.parametrize("kind", [Annotation, OtherDefault, Narrower])
@pytest.mark.parametrize("value", BAD)
def test_subclasses_keep_the_ranges(kind, value):
    with pytest.raises(ac.ParameterError, match=r"sigma = .*; accepted: "):
        kind(value)
    with pytest.raises(ac.ParameterError, match=r"sensitivity = .*; accepted: "):
        kind(1.5, value)


def test_an_adjacency_that_is_none_is_named():
    with pytest.raises(ac.ParameterError, match='adjacency = None; accepted: "add-remove" or "replace"'):
        ac.Gaussian(1.0, adjacency=None)


def test_classes_of_a_function_keep_the_ranges():
    class Unit:
        pass

    @dataclass(frozen=True)
    class Local(ac.Laplace):
        unit: Unit | None = None

    with pytest.raises(ac.ParameterError, match="scale = -1"):
        Local(-1.0)


def test_a_class_of_no_module_keeps_the_ranges():
    space = {"__name__": "of no module", "ac": ac, "dataclass": dataclass}
    exec("@dataclass(frozen=True)\nclass Loose(ac.Gaussian):\n    note: 'not an expression' = None", space)
    with pytest.raises(ac.ParameterError, match="sigma = -1"):
        space["Loose"](-1.0)
    assert space["Loose"](1.0).renyi(2.0) == ac.Gaussian(1.0).renyi(2.0)


def test_a_subclass_may_state_another_range():
    with pytest.raises(ac.ParameterError, match=r"accepted: \[1, 2\]"):
        Narrower(3.0)
    assert [each.name for each in parameters_of(Narrower) if each.noise] == []
    assert [each.name for each in parameters_of(OtherDefault) if each.noise] == ["sigma"]
    assert parameters_of(OtherDefault)[0].default == 2.0


def test_a_range_that_cannot_be_read_is_an_error():
    low = 0.5

    @dataclass(frozen=True)
    class Lost(ac.Event):
        width: Annotated[float, ac.Range(low, 1.0)]
        adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

        def _curve(self, orders):
            return orders / self.width

    with pytest.raises(ac.ParameterError, match=r"Lost.width: its range cannot be read .*; accepted: "):
        Lost(0.1)


def test_only_dataclasses_are_registered():
    class Plain(ac.Event):
        adjacency = ac.Adjacency.ADD_REMOVE

        def _curve(self, orders):
            return orders

    with pytest.raises(ac.ParameterError, match="no dataclass; accepted: "):
        ac.register_event("plain")(Plain)
