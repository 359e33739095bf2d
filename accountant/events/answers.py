"""Records in which events answer what prices, plans and mechanisms ask of them; see `accountant.events.event`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Literal, NamedTuple

from accountant.numerics.kernel import FloatArray

if TYPE_CHECKING:
    from accountant.events.event import Event
    from accountant.events.screening_pairs import Screening

__all__ = [
    "AdditiveNoise",
    "Alone",
    "Choices",
    "ClosedForm",
    "GivenFinite",
    "GroupLine",
    "Lattice",
    "Repeats",
    "Row",
    "Summand",
    "Triple",
    "bits_row",
    "laplace_row",
    "linear_row",
    "sampled_gaussian_row",
    "screening_row",
]


class AdditiveNoise(NamedTuple):
    """Noise that a release adds to every one of its values.

    Attributes
    ----------
    distribution : {"gaussian", "laplace"}
    scale : float
        Its standard deviation if Gaussian (the parameter sigma if discrete), its scale if Laplace.
    discrete : bool
        Whether it is noise on the integers.
    """

    distribution: Literal["gaussian", "laplace"]
    scale: float
    discrete: bool = False


class Alone(NamedTuple):
    """What is known of a release that is all of a run: epsilon by the log of a delta, and delta by epsilon.

    Both are the smallest that are known, rounded up, and take work that is counted.
    """

    epsilon: Callable[[float], float]
    delta: Callable[[float], float]


class ClosedForm(NamedTuple):
    """Log of the worse direction's profile at epsilons >= 0, and where it comes from.

    `directed` gives both directions, remove and add; without it they are the same. `mu` is that of N(mu, 1) against
    N(0, 1), where the profile is theirs. `work` are the operations of a value (see `accountant.patience`), `call` those
    of a call beside its values. `below` is the same from below, where errors are more than a share of each value.
    `alone` says less at one epsilon or delta, where the profile is one on a grid.
    """

    log_profile: Callable[[FloatArray], FloatArray]
    source: str
    directed: Callable[[FloatArray], tuple[FloatArray, FloatArray]] | None = None
    mu: float | None = None
    work: float = 400.0
    below: Callable[[FloatArray], FloatArray] | None = None
    call: float = 0.0
    alone: Alone | None = None

    def log_least(self, epsilons: FloatArray) -> FloatArray:
        """What the profile is no less than, but for relative errors."""
        return (self.below or self.log_profile)(epsilons)


class Summand(NamedTuple):
    """A release whose losses add up to a known distribution with those of other releases of the same `key`.

    `closed_form` is the profile of all of them by the sum of their sizes, or None where it is not computed.
    """

    key: Hashable
    size: float
    closed_form: Callable[[float], ClosedForm | None]


class GroupLine(NamedTuple):
    """Noise along one line, on which every record of an individual moves the release by the same step.

    `family` "gaussian": N(0, 1) moved by `step`. "geometric": integers whose log-probability falls by `fall` each,
    moved by a whole `step`; moved by j it is the worst that j records do to any `fall`-DP release.
    """

    family: Literal["gaussian", "geometric"]
    step: float
    fall: float = 0.0


class GivenFinite(NamedTuple):
    """A release whose loss may be infinite, given that it is not: each of `parts`, `times` times.

    `log_probability` is that of one of each with a finite loss; `log_reverse` the same in direction "add", where it is
    another. `lost` is the probability of an infinite loss of one of each where it is a parameter, and so known exactly.
    """

    parts: tuple[Event, ...]
    times: int
    log_probability: float
    log_reverse: float | None = None
    lost: float | None = None


class Lattice(NamedTuple):
    """Losses of one coordinate on a lattice: log P-probabilities of step * (j - K/2), j = 0, ..., K.

    Q has those of the opposite losses. `log_lost` is the log of the probability of losses that are not on it, if any.
    """

    log_masses: FloatArray
    step: float
    log_lost: float = -math.inf


class Outcomes(NamedTuple):
    """A pair of finitely many outcomes: losses in rising order, with logs of P's probabilities."""

    losses: FloatArray
    log_p: FloatArray

    def reversed(self) -> Outcomes:
        """The pair (Q, P)."""
        return Outcomes(-self.losses[::-1], (self.log_p - self.losses)[::-1])


class Choices(NamedTuple):
    """Pairs with two outcomes, where log P/Q is `up` > 0 or -`down` < 0, that together dominate a family of pairs.

    `played` are members of the family, (up, down) each, next below each of these, if they are others.
    """

    up: FloatArray
    down: FloatArray
    played: tuple[FloatArray, FloatArray] | None = None


class Repeats(NamedTuple):
    """Logs of the probabilities that a record is drawn 1, 2, ... times, of more draws, and of none."""

    log_probabilities: tuple[float, ...]
    log_rest: float
    log_none: float


class Triple(NamedTuple):
    """Gaussians of variance 1, of samples of a fixed size: those of the record, of its replacement and of whoever is
    drawn instead are at most `mu` apart, any two of them; or, `in_ball`, within a ball of that diameter. A record is
    in the sample with probability `rate`; with `repeats` it may be there several times, and `mu` is that of a draw.
    """

    mu: float
    rate: float
    in_ball: bool
    repeats: Repeats | None = None


class Row(NamedTuple):
    """A Rényi curve as numbers, which a compiled search for the best order can price; made by the functions below.

    It is of one of five kinds; what other kinds need is 0.
    """

    kind: float
    slope: float
    rate: float
    mu: float
    sigma: float
    threshold: float
    low: float
    high: float


LINEAR, SAMPLED_GAUSSIAN, SCREENING, LAPLACE, BITS = 0.0, 1.0, 2.0, 3.0, 4.0
"""Kinds of rows."""

LARGEST_ROW = 1e4
"""Limit at order inf up to which Laplace noise and bits are rows: near a larger one rounding hides the best order."""

# a run may have millions of rows: tuple.__new__ takes a third of the time of Row itself


def linear_row(slope: float) -> Row:
    """The curve ``slope * order``."""
    return tuple.__new__(Row, (LINEAR, slope, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def sampled_gaussian_row(mu: float, rate: float) -> Row:
    """N(mu, 1) against N(0, 1), sampled at a rate in (0, 1); mu > 0."""
    return tuple.__new__(Row, (SAMPLED_GAUSSIAN, 0.0, rate, mu, 0.0, 0.0, 0.0, 0.0))


def laplace_row(shift: float, coordinates: int) -> Row:
    """Laplace(shift, 1) against Laplace(0, 1), in so many coordinates."""
    return tuple.__new__(Row, (LAPLACE, 0.0, 1.0, shift, 0.0, 0.0, 0.0, float(coordinates)))


def bits_row(epsilon: float, bits: int) -> Row:
    """So many bits of randomized response at one epsilon."""
    return tuple.__new__(Row, (BITS, 0.0, 1.0, epsilon, 0.0, 0.0, 0.0, float(bits)))


def screening_row(screening: Screening, rate: float) -> Row:
    """A noisy screening, sampled at a rate in (0, 1]."""
    return tuple.__new__(Row, (SCREENING, 0.0, rate, 0.0, *screening))
