"""Discrete Laplace noise in shares, one from each record, sent as anonymous +1 and -1 messages (Ghazi et al. 2020).

Discrete Laplace noise of scale b is the difference of two geometric variables, ``P(z+1) = x P(z)``, x = exp(-1/b).
A geometric variable is the sum of n negative binomial ones of shape 1/n, and a negative binomial of shape r the sum of
a Poisson number, mean ``-r log(1-x)``, of logarithmic-series ones (Quenouille 1949). With many records most shares are
zero, so the Poisson number over all counts is drawn first. Whoever drops out takes his share with him: shares are
those of `participants` records, and noise of more of them is noise enough, since shares do not depend on data.

What the server sees decides what is priced:

* sums only (secure aggregation): discrete Laplace noise on the counts, pure DP;
* the messages themselves, shuffled: the noise as above does not hide how many of either sign there are; `Flood` does.

The law drawn differs from the exact one by less than 1e-30 in total variation for each draw (tables of 128 bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.local_reports.flooding import LARGEST_SCALE, Flood, flood_for
from mechanisms.local_reports.randomizer import Estimate, MalformedReport, check_entries
from mechanisms.noise.exact_draws import DIGITS, LawTable, below, logarithmic_series, poisson
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count, check_real

__all__ = ["MESSAGE_BYTES", "NoiseShares", "Tally", "shares_for"]

Counts = NDArray[np.int64]
Messages = NDArray[np.uint32]

MESSAGE_BYTES = 4
"""A message is a little-endian number: ``2 * entry``, or ``2 * entry + 1`` for a -1."""

ROUTE: dict[str, Any] = {"method": "auto", "tolerance": 1e-2}
"""To the price: the Rényi curve of shuffled messages is infinite. The lower end is what the tolerance is needed for."""

SMALLEST_SCALE = 0.05
"""Smallest scale of noise: it is then zero but for 4e-9."""

LARGEST_MEAN = 1000
"""Largest mean of a tabulated Poisson law; a larger one is a sum of several."""


class Tally(NamedTuple):
    """How many messages say +1 and -1 about each entry; shapes (domain,)."""

    plus: Counts
    minus: Counts


@dataclass(frozen=True)
class NoiseShares:
    """What every record sends in the multi-message shuffle model: its entries, its share of the noise, and of a flood.

    Parameters
    ----------
    domain : int
        Number of entries; [1, 2^31].
    nonzeros : int
        Entries c of every record.
    participants : int
        Records that must take part, honestly, for the noise to be what is priced; the others' shares come on top.
    scale : float
        Scale b of the discrete Laplace noise that they make together; [0.05, 2e4].
    flood : Flood, optional
        Pairs that hide the signs; None where the server sees nothing but sums.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """

    domain: int
    nonzeros: int
    participants: int
    scale: float
    flood: Flood | None = None

    def __post_init__(self) -> None:
        check_count("domain", self.domain, 1, 2**31)
        check_count("nonzeros", self.nonzeros, 1, self.domain)
        check_count("participants", self.participants, 1)
        accepted = f"[{SMALLEST_SCALE:g}, {LARGEST_SCALE:g}]"
        check_real("scale", self.scale, accepted, lambda number: SMALLEST_SCALE <= number <= LARGEST_SCALE)

    @property
    def event(self) -> ac.DiscreteLaplace | ac.ShuffledCounts:
        """The price of what the server sees of all records, REPLACE."""
        if self.flood is None:
            return ac.DiscreteLaplace(self.scale, 1, 2 * self.nonzeros, adjacency=ac.Adjacency.REPLACE)
        return ac.ShuffledCounts(self.scale, self.flood.shape, self.flood.ratio, self.nonzeros)

    def guarantee(self, delta: float, rounds: int = 1, **route: Any) -> ac.Guarantee:
        """What so many releases cost; errors as for `accountant.epsilon`, which takes `route` instead of `ROUTE`."""
        return ac.epsilon(rounds * self.event, delta, **ROUTE | route)

    @property
    def messages_per_record(self) -> float:
        """Expected number, if just the participants take part; the entries are c of them."""
        pairs = 0.0 if self.flood is None else self.flood.mean
        return self.nonzeros + 2 * self.domain * (1 / math.expm1(1 / self.scale) + pairs) / self.participants

    @property
    def message_bits(self) -> int:
        """Bits that a message needs; `MESSAGE_BYTES` is what it has."""
        return (2 * self.domain - 1).bit_length()

    def count_variance(self, records: int) -> float:
        """Variance of a count from so many records: ``1/(2 sinh(1/(2b))^2)`` times their part of the participants."""
        return records / self.participants / (2 * math.sinh(1 / (2 * self.scale)) ** 2)

    def tally(self, entries: Counts, source: Randomness) -> Tally:
        """All messages of records with these entries (n, nonzeros), counted: what `messages` gives, in less room."""
        rows = check_entries(entries, self.nonzeros, self.domain, many=True)
        part = Decimal(len(rows)) / self.participants
        rate = Decimal(1 / self.scale)
        plus, minus = (self._noise(rate, part, source) for _ in range(2))
        plus += np.bincount(rows.ravel(), minlength=self.domain)
        if self.flood is not None:
            pairs = self._noise(-_log(self.flood.ratio), part * Decimal(self.flood.shape), source)
            plus, minus = plus + pairs, minus + pairs
        return Tally(plus, minus)

    def messages(self, entries: Counts, source: Randomness) -> Messages:
        """The messages of records with these entries, sorted, so that their order tells nothing.

        They must reach the server shuffled with those of all others: how many one record sends is not to be seen.
        """
        tally = self.tally(entries, source)
        return np.repeat(np.arange(2 * self.domain, dtype=np.uint32), np.stack(tally, axis=1).ravel())

    def counted(self, messages: Messages) -> Tally:
        """Shuffled messages of all records, counted.

        Raises
        ------
        MalformedReport
            A message names no entry.
        """
        values = np.asarray(messages)
        if values.ndim != 1 or values.dtype != np.uint32:
            raise MalformedReport(f"messages of shape {values.shape} and type {values.dtype}; accepted: uint32, (m,)")
        if values.size and values.max() >= 2 * self.domain:
            raise MalformedReport(f"messages[{np.argmax(values)}] = {values.max()}; accepted: 0..{2 * self.domain - 1}")
        counts = np.bincount(values, minlength=2 * self.domain).astype(np.int64)
        return Tally(counts[::2], counts[1::2])

    def estimate(self, tally: Tally, records: int) -> Estimate:
        """Unbiased counts: pairs cancel, and noise of either sign has the same mean."""
        counts = (tally.plus - tally.minus).astype(float)
        return Estimate(counts, np.full(self.domain, self.count_variance(records)))

    def _noise(self, rate: Decimal, shape: Decimal, source: Randomness) -> Counts:
        """Negative binomial for every entry, of ratio exp(-rate): its parts drawn for all at once, then placed."""
        with localcontext() as context:
            context.prec = DIGITS
            ratio = (-rate).exp()
            mean = -shape * self.domain * (1 - ratio).ln()
            pieces = int(mean / LARGEST_MEAN) + 1
            number = int(_poisson(mean / pieces).draw(source, pieces).sum())
        sizes = _sizes(ratio).draw(source, number)
        places = below(source, number, self.domain).astype(np.int64)
        noise = np.zeros(self.domain, np.int64)
        np.add.at(noise, places, sizes)
        return noise


def shares_for(
    domain: int,
    nonzeros: int,
    participants: int,
    epsilon: float,
    delta: float,
    *,
    rounds: int = 1,
    flooded: bool = True,
    excess: float = 0.1,
    **route: Any,
) -> NoiseShares:
    """The shares with little noise and few messages that keep (epsilon, delta) over so many rounds, under REPLACE.

    Parameters
    ----------
    domain, nonzeros, participants
        As for `NoiseShares`.
    epsilon, delta : float
        The target; delta > 0 if flooded.
    rounds : int
        Releases, each with fresh shares.
    flooded : bool
        Whether the server sees messages, or their sums only.
    excess : float
        How much larger the scale is than where the server sees sums only, relatively; [0.001, 100]. The less, the more
        messages: see `NoiseShares.messages_per_record`.
    **route
        Passed to `accountant.epsilon`, instead of `ROUTE`.

    Raises
    ------
    accountant.ParameterError, accountant.CalibrationError
        A value is out of range, or no shares that can be drawn meet the target.
    """
    check_real("excess", excess, "[0.001, 100]", lambda number: 0.001 <= number <= 100)
    if flooded:
        check_real("delta", delta, "(0, 1)", lambda number: 0 < number < 1)
    sums = ac.calibrate(
        lambda b: rounds * NoiseShares(domain, nonzeros, participants, b).event,
        epsilon,
        delta,
        bounds=(SMALLEST_SCALE, LARGEST_SCALE),
        **ROUTE | route,
    )
    if not flooded:
        return NoiseShares(domain, nonzeros, participants, sums)
    scale = min(sums * (1 + excess), LARGEST_SCALE)
    flood = flood_for(scale, nonzeros, epsilon, delta, rounds=rounds, **ROUTE | route)
    if flood is None:
        raise ac.CalibrationError(f"no flood meets epsilon = {epsilon:g}, delta = {delta:g} with noise of {scale:g}")
    return NoiseShares(domain, nonzeros, participants, scale, flood)


def _log(ratio: float) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(ratio).ln()


@lru_cache(maxsize=16)
def _poisson(mean: Decimal) -> LawTable:
    return LawTable.of(poisson(mean), 0)


@lru_cache(maxsize=8)
def _sizes(ratio: Decimal) -> LawTable:
    return LawTable.of(logarithmic_series(ratio), 1)
