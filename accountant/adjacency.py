"""The neighbouring relation and its two directions, as types."""

from __future__ import annotations

from enum import Enum
from typing import Literal, get_args

from accountant.errors import ParameterError, shorten

__all__ = ["DIRECTIONS", "Adjacency", "Direction", "as_adjacency"]

Direction = Literal["remove", "add"]
"""Of a pair (P, Q): P with the individual and Q without ("remove"), or the other way round ("add")."""

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


class Adjacency(Enum):
    """Which data sets count as neighbours.

    ADD_REMOVE: one has one record more than the other.
    REPLACE: they have equal size and differ in one record.
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"Adjacency.{self.name}"


def as_adjacency(value: object) -> Adjacency:
    """An adjacency, or the one that a string names: "add-remove" or "replace".

    Raises
    ------
    ParameterError
        It is neither.
    """
    try:
        return Adjacency(value)
    except ValueError:
        accepted = " or ".join(f'"{member}"' for member in Adjacency)
        raise ParameterError(f"adjacency = {shorten(value)}; accepted: {accepted}") from None
