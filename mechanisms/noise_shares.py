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
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.exact_draws import DIGITS, LawTable, below, logarithmic_series, poisson
from mechanisms.flooding import LARGEST_SCALE, Flood, flood_for
from mechanisms.noise import Randomness
from mechanisms.reports import Estimate, MalformedReport, checked_entries
from mechanisms.validation import checked_count, checked_real

__all__ = ["MESSAGE_BYTES", "NoiseShares", "Tally", "shares_for"]

Counts = NDArray[np.int64]
Messages = NDArray[np.uint32]

MESSAGE_BYTES = 4
"""A message is a little-endian number: ``2 * entry``, or ``2 * entry + 1`` for a -1."""

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
        checked_count("domain", self.domain, 1, 2**31)
        checked_count("nonzeros", self.nonzeros, 1, self.domain)
        checked_count("participants", self.participants, 1)
        accepted = f"[{SMALLEST_SCALE:g}, {LARGEST_SCALE:g}]"
        checked_real("scale", self.scale, accepted, lambda number: SMALLEST_SCALE <= number <= LARGEST_SCALE)

    @property
    def event(self) -> ac.DiscreteLaplace | ac.RandomizedResponse:
        """The price of all messages of all records, REPLACE; with `slack` on top."""
        moved, adjacency = 2 * self.nonzeros, ac.Adjacency.REPLACE
        if self.flood is None:
            return ac.DiscreteLaplace(self.scale, 1, moved, adjacency=adjacency)
        epsilon = math.nextafter(1 / self.scale + self.flood.epsilon, math.inf)
        return ac.RandomizedResponse(epsilon, bits=moved, adjacency=adjacency)

    @property
    def slack(self) -> float:
        """The delta that comes on top of the event's, for each release."""
        return 0.0 if self.flood is None else self.nonzeros * self.flood.delta

    def guarantee(self, delta: float, rounds: int = 1, **route: Any) -> ac.Guarantee:
        """What so many releases cost: the events at ``delta - rounds * slack`` (Kairouz, Oh & Viswanath 2015, Thm 3.3).

        Raises
        ------
        accountant.ParameterError
            delta is not above ``rounds * slack``.
        """
        rest = delta - rounds * self.slack
        if self.flood is not None and not rest > 0:
            raise ac.ParameterError(f"delta = {delta}; accepted: above {rounds * self.slack:.6g}, which flooding takes")
        return replace(ac.epsilon(rounds * self.event, rest, **route), delta=delta)

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
        rows = checked_entries(entries, self.nonzeros, self.domain, many=True)
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
    noise_part: float = 0.5,
    flood_part: float = 0.1,
    **route: Any,
) -> NoiseShares:
    """The shares with the least noise that keep (epsilon, delta) over so many rounds, under replacement of a record.

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
    noise_part : float
        Part of a count's epsilon that is spent on the noise, the rest on flooding; (0, 1). At 1/2, as in the paper,
        pure DP adds up to noise of scale ``4 c rounds / epsilon``; the more, the less noise and the more messages.
    flood_part : float
        Part of delta that is spent on flooding; (0, 1).
    **route
        Passed to `accountant.calibrate`: method, conversion, tolerance.

    Raises
    ------
    accountant.ParameterError, accountant.CalibrationError
        A value is out of range, or no shares that can be drawn meet the target.
    """
    for name, part in (("noise_part", noise_part), ("flood_part", flood_part)):
        checked_real(name, part, "(0, 1)", lambda number: 0 < number < 1)
    moved, adjacency = 2 * checked_count("nonzeros", nonzeros, 1), ac.Adjacency.REPLACE
    if not flooded:
        scale = ac.calibrate(
            lambda b: rounds * ac.DiscreteLaplace(b, 1, moved, adjacency=adjacency),
            epsilon,
            delta,
            bounds=(SMALLEST_SCALE, LARGEST_SCALE),
            **route,
        )
        return NoiseShares(domain, nonzeros, participants, scale)
    checked_real("delta", delta, "(0, 1)", lambda number: 0 < number < 1)
    bit = ac.calibrate(
        lambda e: rounds * ac.RandomizedResponse(e, bits=moved, adjacency=adjacency),
        epsilon,
        delta * (1 - flood_part),
        bounds=(1e-6, 500.0),
        **route,
    )
    # the sum that is priced may round up by two places
    bit *= 1 - 1e-15
    flood = flood_for((1 - noise_part) * bit, flood_part * delta / (rounds * nonzeros) * (1 - 1e-12))
    return NoiseShares(domain, nonzeros, participants, max(1 / (noise_part * bit), SMALLEST_SCALE), flood)


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
