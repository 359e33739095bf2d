"""Nearest neighbours, similar records, and which queries a record votes for."""

from mechanisms.neighbours.euclidean import Neighbours

__all__ = ["Neighbours"]
