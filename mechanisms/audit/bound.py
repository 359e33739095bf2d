"""What both kinds of audits share: the lower bound that they return, their mechanism and their random generator."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

import accountant as ac

__all__ = ["LowerBound", "check_mechanism", "generator_of"]


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


def check_mechanism(mechanism: Any, *names: str) -> None:
    """Refuse what cannot be called with so many arguments by position, before anything runs.

    Raises
    ------
    ParameterError
    """
    accepted = f"a callable, mechanism({', '.join(names)})"
    if not callable(mechanism):
        raise ac.ParameterError(f"mechanism = {ac.shorten(mechanism)}; accepted: {accepted}")
    try:
        signature = inspect.signature(mechanism)
    except (TypeError, ValueError):  # some functions written in C have none: only a call can tell
        return
    try:
        signature.bind(*names)
    except TypeError as error:  # defaults may be data
        takes = ", ".join(signature.parameters)
        raise ac.ParameterError(f"mechanism takes ({takes}): {error}; accepted: {accepted}") from None


def generator_of(rng: object) -> np.random.Generator:
    """The Generator given, or one from a seed or from system entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0):
        return np.random.default_rng(None if rng is None else int(rng))
    raise ac.ParameterError(f"rng = {ac.shorten(rng)}; accepted: a numpy Generator, an integer >= 0, or None")
