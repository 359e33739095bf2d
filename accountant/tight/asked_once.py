"""A Rényi curve of which both directions of a plan ask the same orders."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from accountant.events.composition import Composition
from accountant.numerics.kernel import FloatArray

__all__ = ["AskedOnce"]


@dataclass(frozen=True)
class AskedOnce:
    """The curve of a run; orders that were asked together before are not computed again."""

    run: Composition
    known: dict[bytes, FloatArray] = field(default_factory=dict)

    def renyi(self, orders: ArrayLike) -> FloatArray:
        points = np.asarray(orders, dtype=float)
        key = points.tobytes()
        if key not in self.known:
            self.known[key] = self.run.renyi(points)
        return self.known[key]
