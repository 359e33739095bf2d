"""Discrete Laplace noise in shares, one from each record, sent as anonymous +1 and -1 messages (Ghazi et al. 2020).

Discrete Laplace noise of scale b is the difference of two geometric variables, ``P(z+1) = x P(z)``, x = exp(-1/b).
A geometric variable is the sum of n negative binomial variables of shape 1/n, and a negative binomial variable of
shape r is the sum of a Poisson number, of mean ``-r log(1-x)``, of variables of the logarithmic series (Quenouille
1949). With many records most shares are zero, so the Poisson number for all counts together is drawn first.

Records that drop out take their shares with them. So the shares of `participants` records make the priced noise; the
shares of further records only add noise that does not depend on data.

The price depends on what the server sees:

* sums only (secure aggregation): discrete Laplace noise on the counts, which is pure DP;
* the shuffled messages: noise alone does not hide how many there are of either sign, and a `Flood` does.

Each draw differs from the exact distribution by less than 1e-30 in total variation (tables of 128 bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Integers
from mechanisms.local_reports.flooding import LARGEST_SCALE, Flood, flood_for
from mechanisms.local_reports.randomizer import Estimate, MalformedReport, check_entries
from mechanisms.noise.exact_draws import DIGITS, DistributionTable, below, logarithmic_series, poisson
from mechanisms.noise.source import Randomness
from mechanisms.validation import check_count, check_real

__all__ = ["MESSAGE_BYTES", "MessageCounts", "NoiseShares", "flood_shares", "shares_for", "shares_of_sums"]

Messages: TypeAlias = NDArray[np.uint32]

MESSAGE_BYTES = 4
"""A message is a little-endian number: ``2 * entry``, or ``2 * entry + 1`` for a -1."""

SHARES_ROUTE: dict[str, Any] = {"method": "auto", "tolerance": 1e-2}
"""Options of `accountant.epsilon`: the Rényi curve of shuffled messages is infinite, and the certified route needs a
tolerance for its lower end."""

EXCESS = 0.1
"""Relative excess of the scale under a flood over the scale for sums."""

SMALLEST_SCALE = 0.05
"""Smallest scale of noise: a draw is then not zero with probability 4e-9."""

LARGEST_MEAN = 1000
"""Largest mean of a tabulated Poisson distribution; one of larger mean is drawn as a sum."""


class MessageCounts(NamedTuple):
    """How many messages say +1 and -1 for each entry; shapes (domain,)."""

    plus: Integers
    minus: Integers


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
        Honest records that must take part for the priced noise; the shares of others come on top.
    scale : float
        Scale b of the discrete Laplace noise that these records make together; [0.05, 2e4].
    flood : Flood, optional
        Pairs that hide the signs; None if the server sees only sums.

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
        """The guarantee of `rounds` releases; `route` replaces options of `SHARES_ROUTE` for `accountant.epsilon`."""
        return ac.epsilon(rounds * self.event, delta, **SHARES_ROUTE | route)

    @property
    def messages_per_record(self) -> float:
        """Expected number if only the participants take part, the c messages of the entries included."""
        pairs = 0.0 if self.flood is None else self.flood.mean
        return self.nonzeros + 2 * self.domain * (1 / math.expm1(1 / self.scale) + pairs) / self.participants

    @property
    def message_bits(self) -> int:
        """Bits that a message needs; it is sent in `MESSAGE_BYTES` bytes."""
        return (2 * self.domain - 1).bit_length()

    def count_variance(self, records: int) -> float:
        """Variance of a count from `records` records: ``records / participants / (2 sinh(1/(2b))^2)``."""
        return records / self.participants / (2 * math.sinh(1 / (2 * self.scale)) ** 2)

    def tally(self, entries: Integers, source: Randomness) -> MessageCounts:
        """Draw all messages of records with entries (n, nonzeros) and count them, in less memory than `messages`."""
        rows = check_entries(entries, self.nonzeros, self.domain, many=True)
        with localcontext(prec=DIGITS):
            part = Decimal(len(rows)) / self.participants
            plus, minus = (self._noise(_rate(self.scale), part, source) for _ in range(2))
            plus += np.bincount(rows.ravel(), minlength=self.domain)
            if self.flood is not None:
                pairs = self._noise(-Decimal(self.flood.ratio).ln(), part * Decimal(self.flood.shape), source)
                plus, minus = plus + pairs, minus + pairs
        return MessageCounts(plus, minus)

    def messages(self, entries: Integers, source: Randomness) -> Messages:
        """Draw the messages of records with these entries, sorted, so that their order reveals nothing.

        They must reach the server shuffled with those of all other records, since the number of messages of one record
        is private.
        """
        tally = self.tally(entries, source)
        return np.repeat(np.arange(2 * self.domain, dtype=np.uint32), np.stack(tally, axis=1).ravel())

    def count(self, messages: Messages) -> MessageCounts:
        """Count the shuffled messages of all records.

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
        return MessageCounts(counts[::2], counts[1::2])

    def estimate(self, tally: MessageCounts, records: int) -> Estimate:
        """Unbiased counts, as pairs cancel and noise of either sign has the same mean."""
        counts = (tally.plus - tally.minus).astype(float)
        return Estimate(counts, np.full(self.domain, self.count_variance(records)))

    def _noise(self, rate: Decimal, shape: Decimal, source: Randomness) -> Integers:
        """Negative binomial draws for all entries, of ratio exp(-rate), in the decimal precision of the caller.

        Their terms of the logarithmic series are drawn for all entries together and then placed at random.
        """
        ratio = (-rate).exp()
        mean = -shape * self.domain * (1 - ratio).ln()
        pieces = int(mean / LARGEST_MEAN) + 1
        number = int(_poisson_table(mean / pieces).draw(source, pieces).sum())
        sizes = _term_table(ratio).draw(source, number)
        places = below(source, number, self.domain).astype(np.int64)
        noise = np.zeros(self.domain, np.int64)
        np.add.at(noise, places, sizes)
        return noise


def shares_of_sums(
    domain: int, nonzeros: int, participants: int, epsilon: float, delta: float, *, rounds: int = 1, **route: Any
) -> NoiseShares:
    """The least noise that keeps (epsilon, delta) over all rounds, under REPLACE, if the server sees only sums.

    Parameters
    ----------
    domain, nonzeros, participants
        As for `NoiseShares`.
    epsilon, delta : float
        The target.
    rounds : int
        Number of releases, each with new shares.
    **route
        Options of `accountant.epsilon`, which replace those of `SHARES_ROUTE`.

    Raises
    ------
    accountant.ParameterError, accountant.CalibrationError
        A value is out of range, or no noise that can be drawn meets the target.
    """
    scale = ac.calibrate(
        lambda b: rounds * NoiseShares(domain, nonzeros, participants, b).event,
        epsilon,
        delta,
        bounds=(SMALLEST_SCALE, LARGEST_SCALE),
        **SHARES_ROUTE | route,
    )
    return NoiseShares(domain, nonzeros, participants, scale)


def flood_shares(
    sums: NoiseShares, epsilon: float, delta: float, *, rounds: int = 1, excess: float = EXCESS, **route: Any
) -> NoiseShares:
    """Shares that keep (epsilon, delta) if the server sees shuffled messages, from those for which it sees sums.

    Parameters
    ----------
    sums : NoiseShares
        From `shares_of_sums` for the same target and rounds.
    epsilon, delta : float
        The target; delta > 0.
    rounds : int
    excess : float
        Relative increase of the scale; [0.001, 100]. A smaller one takes more messages, see
        `NoiseShares.messages_per_record`.
    **route
        As for `shares_of_sums`.

    Raises
    ------
    accountant.ParameterError, accountant.CalibrationError
        A value is out of range, or no flood that can be drawn meets the target.
    """
    check_real("excess", excess, "[0.001, 100]", lambda number: 0.001 <= number <= 100)
    check_real("delta", delta, "(0, 1)", lambda number: 0 < number < 1)
    scale = min(sums.scale * (1 + excess), LARGEST_SCALE)
    flood = flood_for(scale, sums.nonzeros, epsilon, delta, rounds=rounds, **SHARES_ROUTE | route)
    if flood is None:
        raise ac.CalibrationError(f"no flood meets epsilon = {epsilon:g}, delta = {delta:g} with noise of {scale:g}")
    return replace(sums, scale=scale, flood=flood)


def shares_for(
    domain: int, nonzeros: int, participants: int, epsilon: float, delta: float, *, rounds: int = 1, **route: Any
) -> NoiseShares:
    """Shares with little noise and few messages that keep (epsilon, delta) if the server sees shuffled messages.

    Parameters and errors as for `shares_of_sums`, with delta > 0.
    """
    check_real("delta", delta, "(0, 1)", lambda number: 0 < number < 1)
    sums = shares_of_sums(domain, nonzeros, participants, epsilon, delta, rounds=rounds, **route)
    return flood_shares(sums, epsilon, delta, rounds=rounds, **route)


def _rate(scale: float) -> Decimal:
    """1/scale, rounded down: to no less noise than is priced."""
    with localcontext(prec=DIGITS, rounding=ROUND_FLOOR):
        return 1 / Decimal(scale)


@lru_cache(maxsize=16)
def _poisson_table(mean: Decimal) -> DistributionTable:
    return DistributionTable.of(poisson(mean), 0)


@lru_cache(maxsize=8)
def _term_table(ratio: Decimal) -> DistributionTable:
    return DistributionTable.of(logarithmic_series(ratio), 1)
