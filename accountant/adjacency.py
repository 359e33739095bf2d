"""The neighbouring relation, as a type."""

from __future__ import annotations

from enum import Enum

__all__ = ["Adjacency"]


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
