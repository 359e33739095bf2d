"""What both kinds of audits share: the lower bound that they return, and their random generator."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

import accountant as ac

__all__ = ["LowerBound", "generator_of"]


class LowerBound(ABC):
    """A lower confidence bound on epsilon; ``float(bound)`` is its value."""

    epsilon_lower: float
    delta: float
    confidence: float

    def __float__(self) -> float:
        return self.epsilon_lower

    def __str__(self) -> str:
        lower, evidence = math.floor(self.epsilon_lower * 1e4) / 1e4, self._describe_evidence()
        return f"epsilon >= {lower:g} at delta {self.delta:g}, confidence {self.confidence:g} ({evidence})"

    @abstractmethod
    def _describe_evidence(self) -> str:
        """Counts that prove the bound, in a few words."""


def generator_of(rng: object) -> np.random.Generator:
    """The Generator given, or one from a seed or from system entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0):
        return np.random.default_rng(None if rng is None else int(rng))
    raise ac.ParameterError(f"rng = {ac.shorten(rng)}; accepted: a numpy Generator, an integer >= 0, or None")
