"""Protocols of the local and shuffle models: how records are reported, and how the server estimates counts from it.

=================== ===========================================================================
protocol            parameters
=================== ===========================================================================
counts              none; exact counts, to which the server adds noise
randomized-response epsilon of a report
collision           epsilon, buckets
separation          epsilon
shares              scale, participants; shape and ratio of the flood (see `noise_shares`)
=================== ===========================================================================
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Bytes
from mechanisms.federation.messages import CorruptMessage, Reports, UnsuitableMessage
from mechanisms.federation.round_setup import RoundSetup, RoundSize
from mechanisms.local_reports import (
    CollisionReports,
    Estimate,
    LocalRandomizer,
    MalformedReport,
    RandomizedBits,
    local_randomizer,
)
from mechanisms.local_reports.flooding import Flood
from mechanisms.local_reports.noise_shares import MESSAGE_BYTES, NoiseShares
from mechanisms.noise.source import Randomness

__all__ = [
    "LocalProtocol",
    "Protocol",
    "SharesProtocol",
    "as_one_event",
    "central_event",
    "covers_counts",
    "noise_variance",
    "protocol_for",
    "protocol_of",
    "report_in_crowd",
]


class Protocol(Interface):
    """What clients, shuffler and server need to know of the reports in a round."""

    @property
    def event(self) -> ac.Event | ac.Composition:
        """What the reports of one record cost: without shuffling, but for shares, which need a shuffler."""
        ...

    @property
    def participants(self) -> int:
        """Fewest records whose reports must be received together."""
        ...

    @property
    def report_bytes(self) -> int:
        """Length of every report."""
        ...

    def randomize(self, entries: NDArray[np.int64], source: Randomness) -> bytes:
        """Reports of n records; `entries` (n, k r) are the counts that each record adds to."""
        ...

    def bytes_of(self, records: int) -> float:
        """Length of the reports of so many records, on average."""
        ...

    def check(self, reports: Reports) -> None:
        """Raise a MessageError for reports that so many records cannot have sent."""
        ...

    def estimate(self, reports: Reports) -> Estimate:
        """Unbiased estimates of the counts, with their variance."""
        ...


class LocalProtocol:
    """One report for each record; a report has a guarantee of its own."""

    participants = 1

    def __init__(self, randomizer: LocalRandomizer) -> None:
        self.randomizer = randomizer
        self.event, self.report_bytes = randomizer.event, randomizer.report_bytes

    def randomize(self, entries: NDArray[np.int64], source: Randomness) -> bytes:
        return self.randomizer.randomize_many(entries, source).tobytes()

    def bytes_of(self, records: int) -> float:
        return float(records * self.report_bytes)

    def check(self, reports: Reports) -> None:
        if reports.size != self.report_bytes:
            raise UnsuitableMessage(f"reports of {reports.size} bytes; accepted: {self.report_bytes}")
        if reports.records != len(reports):
            raise UnsuitableMessage(f"{len(reports)} reports of {reports.records} records; accepted: one for each")
        try:
            self.randomizer.check_many(self._rows(reports))
        except MalformedReport as error:
            raise UnsuitableMessage(str(error)) from None

    def estimate(self, reports: Reports) -> Estimate:
        return self.randomizer.estimate(self._rows(reports))

    def _rows(self, reports: Reports) -> Bytes:
        return np.frombuffer(reports.body, np.uint8).reshape(-1, self.report_bytes)


class SharesProtocol:
    """Any number of messages for each record; they have a guarantee only after shuffling."""

    report_bytes = MESSAGE_BYTES

    def __init__(self, shares: NoiseShares) -> None:
        self.shares = shares
        self.event, self.participants = shares.event, shares.participants

    def randomize(self, entries: NDArray[np.int64], source: Randomness) -> bytes:
        return self.shares.messages(entries, source).astype("<u4").tobytes()

    def bytes_of(self, records: int) -> float:
        return records * self.shares.messages_per_record * MESSAGE_BYTES

    def check(self, reports: Reports) -> None:
        least = reports.records * self.shares.nonzeros
        if reports.size != MESSAGE_BYTES or len(reports) < least:
            found = f"{len(reports)} messages of {reports.size} bytes"
            raise UnsuitableMessage(f"{found}; accepted: at least {least} of {MESSAGE_BYTES}, as many as entries")
        if self._values(reports).max(initial=0) >= 2 * self.shares.domain:
            raise UnsuitableMessage(f"a message above {2 * self.shares.domain - 1}; accepted: those of the entries")

    def estimate(self, reports: Reports) -> Estimate:
        return self.shares.estimate(self.shares.count(self._values(reports)), reports.records)

    @staticmethod
    def _values(reports: Reports) -> NDArray[np.uint32]:
        return np.frombuffer(reports.body, "<u4").astype(np.uint32)


def protocol_of(setup: RoundSetup) -> Protocol:
    """The protocol of a setup that asks for reports; errors as for `protocol_for`."""
    return protocol_for(setup.protocol, setup.parameters, setup.size)


def protocol_for(name: str, parameters: tuple[float, ...], size: RoundSize) -> Protocol:
    """The protocol of that name.

    Parameters
    ----------
    name : str
    parameters : tuple of float
        See this module.
    size : RoundSize

    Raises
    ------
    UnsuitableMessage
        The protocol has no reports.
    CorruptMessage
        The parameters are not valid for the protocol.
    """
    expected = {"randomized-response": 1, "collision": 2, "separation": 1, "shares": 4}.get(name)
    if expected is None:
        raise UnsuitableMessage(f"protocol {name}; accepted: one that asks for reports")
    if len(parameters) != expected:
        raise CorruptMessage(f"{len(parameters)} parameters of {name}; accepted: {expected}")
    first, *rest = parameters
    try:
        if name == "shares":
            least, *flood = rest
            return SharesProtocol(NoiseShares(size.domain, size.nonzeros, int(least), first, Flood(*flood)))
        if name == "collision":
            return LocalProtocol(CollisionReports(size.domain, size.nonzeros, first, int(rest[0])))
        votes = {"neighbours": size.neighbors, "label_ones": size.labels}
        return LocalProtocol(local_randomizer(name, queries=size.queries, classes=size.classes, epsilon=first, **votes))
    except ac.ParameterError as error:
        raise CorruptMessage(f"an impossible setup: {error}") from None


def as_one_event(event: ac.Event | ac.Composition) -> ac.Event:
    """The event of a report; a composition (a report in two parts) is replaced by a `PureDP` of the same epsilon."""
    return event if isinstance(event, ac.Event) else ac.PureDP(ac.epsilon(event, 0.0, method="renyi").epsilon)


def report_in_crowd(randomizer: LocalRandomizer) -> ac.Event:
    """The event of a report that others hide, with what is known of all inputs."""
    return randomizer.crowd_event if isinstance(randomizer, RandomizedBits) else as_one_event(randomizer.event)


# --- noise of the central model ------------------------------------------------------------------------


def central_event(noise: str, scale: float, moved: int, adjacency: ac.Adjacency = ac.Adjacency.REPLACE) -> Any:
    """The event of noise on counts, `moved` of which change by 1 between neighbouring data sets.

    These are 2 k r counts if a record is replaced, and k r if one is added or removed.

    Parameters
    ----------
    noise : {"laplace", "gaussian", "discrete-laplace", "discrete-gaussian"}
    scale : float
        Scale or standard deviation of the noise, in votes.
    moved : int
    adjacency : accountant.Adjacency
    """
    if noise == "laplace":
        return ac.Laplace(scale, 1.0, moved, adjacency=adjacency)
    if noise == "gaussian":
        return ac.Gaussian(scale, ac.root_up(Fraction(moved)), adjacency=adjacency)
    if noise == "discrete-laplace":
        return ac.DiscreteLaplace(scale, 1, moved, adjacency=adjacency)
    if noise == "discrete-gaussian":
        return ac.DiscreteGaussian(scale, 1, moved, adjacency=adjacency)
    raise ac.ParameterError(f"noise = {noise!r}; accepted: laplace, gaussian, discrete-laplace, discrete-gaussian")


def covers_counts(event: object, nonzeros: int) -> bool:
    """Whether the event is the price of noise on counts, `nonzeros` of which every record increases by 1."""
    if not isinstance(event, ac.Laplace | ac.Gaussian | ac.DiscreteLaplace | ac.DiscreteGaussian):
        return False
    moved = nonzeros if event.adjacency == ac.Adjacency.ADD_REMOVE else 2 * nonzeros
    if isinstance(event, ac.Gaussian):
        return Fraction(event.sensitivity) ** 2 >= moved
    return bool(event.sensitivity >= 1 and event.coordinates >= moved)


def noise_variance(event: Any) -> float:
    """Variance of the noise of an event."""
    if isinstance(event, ac.Laplace):
        return 2 * event.scale**2
    if isinstance(event, ac.DiscreteLaplace):
        return 2 * math.exp(-1 / event.scale) / math.expm1(-1 / event.scale) ** 2
    if isinstance(event, ac.DiscreteGaussian) and event.sigma < 10:
        weights = [math.exp(-((x / event.sigma) ** 2) / 2) for x in range(1, 120)]
        squares = math.fsum(x * x * weight for x, weight in enumerate(weights, 1))
        return 2 * squares / (1 + 2 * math.fsum(weights))
    # discrete Gaussians of sigma >= 10 have variance sigma^2 to double precision, by Poisson summation
    return float(event.sigma**2)
