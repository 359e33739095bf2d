"""The neighbouring relation and its two directions, as types."""

from __future__ import annotations

from enum import Enum
from typing import Literal, get_args

__all__ = ["DIRECTIONS", "Adjacency", "Direction"]

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
