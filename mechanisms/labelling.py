"""The named result of a labelling run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import accountant as ac

__all__ = ["Labelling"]


@dataclass(frozen=True, eq=False)
class Labelling:
    """What a labelling run released, and what it cost.

    Attributes
    ----------
    labels : int array of shape (m,), or (m, c) for label sets
        -1 where a query was not answered.
    answered : bool array of shape (m,)
    composition : accountant.Composition
        What the run actually spent.
    planned : accountant.Composition or None
        What it could have spent at most, fixed before it began; None if nothing was fixed.
    """

    labels: NDArray[np.int64]
    answered: NDArray[np.bool_]
    composition: ac.Composition
    planned: ac.Composition | None = None

    @property
    def odometer(self) -> bool:
        """Whether the price can only be read afterwards, from how many answers there happened to be."""
        return self.planned is None

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """The guarantee that held before the run began; without a plan, an odometer reading, marked as one.

        Parameters and errors as for `accountant.epsilon`.
        """
        run = self.composition if self.planned is None else self.planned
        return replace(ac.epsilon(run, delta, conversion=conversion), odometer=self.odometer)
