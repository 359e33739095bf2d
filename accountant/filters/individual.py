"""Individual budgets: a record is charged for its own part in each release, up to its budget."""

from __future__ import annotations

import math
import os
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountant.errors import AccountantError, FilterError, ParameterError, integer, real, shorten
from accountant.events.curve import as_reals
from accountant.events.gaussian import GaussianDP
from accountant.events.zero_concentrated import ZeroConcentratedDP
from accountant.guarantee import Guarantee
from accountant.numerics.decimals import format_down, format_up
from accountant.numerics.kernel import FloatArray
from accountant.price import epsilon
from accountant.processes import free_memory
from accountant.targets import calibrate

__all__ = ["BudgetExceeded", "FilterConversion", "IndividualFilter"]

FilterConversion: TypeAlias = Literal["gdp", "renyi"]

Units: TypeAlias = NDArray[np.int64]

AMOUNT_ROUNDING = 2.0**-50
"""Bound on the relative error of amounts: eight roundings of 2^-53 each. The budget is priced with it."""

MOST_ROWS = 2**40

ROW_BYTES = 8


class BudgetExceeded(AccountantError, ValueError):
    """A charge is more than a record has left."""


class IndividualFilter:
    """Budgets of records under the individual Rényi filter, which is a GDP filter too.

    A release that adds N(0, s^2) to a sum charges a record ``|q|^2 / (2 s^2)``, q being its own part in the sum. If a
    record takes part only while what it has left covers the charge, its total never exceeds the budget B, and the
    whole interaction is (a, B a)-RDP for every order a (Feldman & Zrnic 2021, Thm 4.3) and, all noise being Gaussian,
    mu-GDP with ``mu^2 / 2 = B`` (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023). Whether a record takes
    part, and what it is charged, may depend on that record and on what was released before: on nothing else.

    Budgets are counted in whole units of a power of two, of which B is at least 2^60, and charges are rounded up: sums
    are exact, and B is spent by any charges that add up to it, of which each is at least B/256. The last of more equal
    shares may be refused, as each may be rounded up by 2^-60 of B.

    It is in the memory of one process: forked children may read it and are refused charges, and it cannot be copied or
    pickled, as what one spends the other would not know.

    Parameters
    ----------
    budget : float
        B, in nats; [1e-100, 1e99].
    size : int
        Number of records, rows 0..size-1, all with the whole budget.

    Attributes
    ----------
    left : int64 array of shape (size,)
        What every row has left, in units.
    UNITS : int
        Units in a budget, in [2^60, 2^61).

    Raises
    ------
    ParameterError
        A value is out of range, or so many rows do not fit into memory.
    """

    def __init__(self, budget: float, size: int = 0) -> None:
        self.budget = real("budget", budget, 1e-100, 1e99)
        share, exponent = math.frexp(self.budget)
        self.UNITS, self._exponent = int(math.ldexp(share, 61)), exponent - 61
        self.left = _make_rows(integer("size", size, 0, MOST_ROWS), self.UNITS, f"size = {shorten(size)}")
        self._process = os.getpid()

    def __getstate__(self) -> object:
        """Refuse copies and pickles.

        Raises
        ------
        FilterError
            Always.
        """
        raise FilterError(
            "a copy of this IndividualFilter would not know what the other one spends; accepted: one that is made "
            "anew, with what its rows have spent (`admit`)"
        )

    # --- charges ---------------------------------------------------------------------------------------

    @property
    def remaining(self) -> FloatArray:
        """What every row has left, in nats."""
        return self.nats(self.left)

    def nats(self, units: Units) -> FloatArray:
        """Units as a number of nats."""
        left: FloatArray = np.ldexp(np.asarray(units, np.float64), self._exponent)
        return left

    def units(self, amounts: ArrayLike) -> Units:
        """Amounts in nats as whole units, rounded up; whatever is above the budget is one unit above it.

        Raises
        ------
        ParameterError
            An amount is negative or not a number.
        """
        values = as_reals("charge", amounts, "[0, inf]")
        if not (values >= 0).all():
            bad = values[~(values >= 0)].flat[0]
            raise ParameterError(f"charge = {bad:g}; accepted: [0, inf]")
        within = values <= self.budget
        whole: Units = np.ceil(np.ldexp(np.where(within, values, 0.0), -self._exponent)).astype(np.int64)
        # whatever is above 0 costs something, also where its share underflows
        return np.where(within, np.maximum(whole, values > 0), self.UNITS + 1)

    def covers(self, charge: ArrayLike) -> NDArray[np.bool_]:
        """Whether every row has the charge left: one number for all, or one for each."""
        covered: NDArray[np.bool_] = self.left >= _for_each("charge", self.units(charge), len(self.left))
        return covered

    def charge(self, rows: ArrayLike, amounts: ArrayLike) -> None:
        """Take an amount in nats, one for all or one for each, from distinct rows; all of it or, on an error, nothing.

        Raises
        ------
        BudgetExceeded
            A row has less left.
        FilterError
            This is a forked child of the process that made the filter, which would not know of the charge.
        ParameterError
            A row does not exist or is named twice, or amounts are negative, no numbers, or another number of them.
        """
        self.spend(rows, self.units(amounts))

    def spend(self, rows: ArrayLike, units: ArrayLike) -> None:
        """As `charge`, in units, which are integers."""
        if self._process != os.getpid():
            raise FilterError(
                f"an IndividualFilter in the memory of process {self._process}, which would not know what is spent "
                "here; accepted: one that was made in this process"
            )
        where = self._rows(rows, len(self.left))
        paid = _for_each("charge", _as_units("charge", units), where.size)
        if (paid < 0).any():
            raise ParameterError(f"charge = {paid.min()} units; accepted: at least 0")
        after = self.left[where] - paid
        if (after < 0).any():
            short = int(np.argmax(after < 0))
            need, has = np.broadcast_to(paid, where.shape)[short], self.left[where[short]]
            asked = f"= {format_up(float(self.nats(need)))}" if need <= self.UNITS else f"above {self.budget:g}"
            raise BudgetExceeded(
                f"charge {asked} for row {where[short]}; "
                f"accepted: up to the {format_down(float(self.nats(has)))} that it has left"
            )
        self.left[where] = after

    # --- records come and go ---------------------------------------------------------------------------

    def admit(self, rows: ArrayLike, spent: ArrayLike = 0) -> None:
        """Give distinct rows, new ones too, to records that have spent so many units before.

        Raises
        ------
        ParameterError
            A row is negative, named twice or beyond what fits into memory, or more was spent than the budget.
        """
        where = self._rows(rows, MOST_ROWS)
        before = _for_each("spent", _as_units("spent", spent), where.size)
        if not ((before >= 0) & (before <= self.UNITS)).all():
            raise ParameterError(f"spent = {shorten(spent)} units; accepted: [0, {self.UNITS}]")
        if (size := 1 + int(np.max(where, initial=-1))) > len(self.left):
            grown = _make_rows(size, 0, f"rows = {shorten(rows)}")
            grown[: len(self.left)] = self.left
            self.left = grown
        self.left[where] = self.UNITS - before

    def retire(self, rows: ArrayLike) -> None:
        """Leave nothing to distinct rows."""
        self.left[self._rows(rows, len(self.left))] = 0

    def _rows(self, rows: ArrayLike, size: int) -> NDArray[np.intp]:
        given = _as_array(rows)
        if given.size == 0:
            return np.empty(0, np.intp)
        if given.ndim != 1 or given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= size:
            raise ParameterError(f"rows = {shorten(rows)}; accepted: a list of integers in [0, {size - 1}]")
        where = given.astype(np.intp)  # first: differences of unsigned integers are none
        if (np.diff(where) <= 0).any() and len(np.unique(where)) < len(where):
            raise ParameterError(f"rows = {shorten(rows)}; accepted: every row once")
        return where

    # --- the price of it all ---------------------------------------------------------------------------

    def guarantee(self, delta: float, conversion: FilterConversion = "gdp") -> Guarantee:
        """The guarantee for the whole interaction, however long it is.

        Parameters
        ----------
        delta : float
            In (0, 1).
        conversion : {"gdp", "renyi"}
            "gdp": exactly, as mu-GDP with mu^2 / 2 = B. "renyi": from (a, B a)-RDP, by the improved conversion.

        Raises
        ------
        ParameterError
            `delta` is out of range, or `conversion` is unknown.
        """
        event, method = _equivalent(self.budget, conversion)
        return epsilon(event, delta, method=method)

    @staticmethod
    def budget_for(epsilon: float, delta: float, conversion: FilterConversion = "gdp") -> float:
        """The largest budget B with which the interaction is (epsilon, delta)-DP; parameters as for `guarantee`.

        Raises
        ------
        CalibrationError
            No budget meets the target.
        ParameterError
            A value is out of range.
        """
        _, method = _equivalent(1.0, conversion)
        return calibrate(
            lambda budget: _equivalent(budget, conversion)[0],
            epsilon,
            delta,
            method=method,
            bounds=(1e-30, 1e30),
            start=0.1,
        )


def _make_rows(size: int, units: int, given: str) -> Units:
    """So many rows, of which each has the same number of units left; `given` is what asked for them."""
    try:
        return np.full(size, units, np.int64)
    except MemoryError:
        fits = format_down(min(free_memory() / ROW_BYTES, size - 1), 3)
        raise ParameterError(f"{given}: {size} rows do not fit into memory; accepted: up to about {fits}") from None


def _as_array(values: ArrayLike) -> NDArray[np.generic]:
    """An array of whatever it is; of what is ragged, of one object."""
    try:
        return np.asarray(values)
    except (ValueError, OverflowError):
        return np.full(1, None)


def _as_units(name: str, values: ArrayLike) -> Units:
    """Integers as they are: to cut off what is behind the point would charge less."""
    given = _as_array(values)
    if given.size and (given.dtype.kind not in "iu" or given.max() > np.iinfo(np.int64).max):
        raise ParameterError(f"{name} = {shorten(values)}; accepted: integers, units below 2^63")
    return given.astype(np.int64)


def _for_each(name: str, units: Units, rows: int) -> Units:
    """One number for all rows, or one for each."""
    if units.size != 1 and units.shape != (rows,):
        raise ParameterError(f"{name} of shape {units.shape} for {rows} rows; accepted: one number, or one for each")
    return units.reshape(()) if units.size == 1 else units


def _equivalent(budget: float, conversion: FilterConversion) -> tuple[GaussianDP | ZeroConcentratedDP, str]:
    """The event that the whole interaction is as private as, and the route that prices it."""
    budget *= 1 + AMOUNT_ROUNDING
    if conversion == "gdp":
        return GaussianDP(math.sqrt(2 * budget)), "tight"
    if conversion == "renyi":
        return ZeroConcentratedDP(budget), "renyi"
    raise ParameterError(f"conversion = {shorten(conversion)}; accepted: gdp, renyi")
