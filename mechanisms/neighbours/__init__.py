"""Which records are near: nearest neighbours (`euclidean`), kernels (`kernels`, `records`, `hashing`), `reverse` votes.

`rounding` bounds the rounding errors in all of them.
"""

from mechanisms.neighbours.euclidean import Neighbours

__all__ = ["Neighbours"]
