"""How records answer in the local and shuffle models, and what the server makes of it, by the setup's protocol.

=================== ===========================================================================
protocol            parameters
=================== ===========================================================================
counts              none: exact counts, to a server that adds the noise
randomized-response epsilon of a report
collision           epsilon, buckets
separation          epsilon
shares              scale, participants; shape and ratio of the flood (see `noise_shares`)
=================== ===========================================================================
"""

from __future__ import annotations

import math
from typing import Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.federation.messages import CorruptMessage, Reports, UnsuitableMessage
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.local_reports import CollisionReports, Estimate, LocalRandomizer, MalformedReport, local_randomizer
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
]

Bytes = NDArray[np.uint8]


class Protocol(Interface):
    """What clients, shuffler and server need of the reports of a round."""

    @property
    def event(self) -> ac.Event | ac.Composition:
        """What one record's reports cost: seen by themselves, but for shares, which have to be shuffled."""
        ...

    @property
    def participants(self) -> int:
        """Fewest records whose reports have to come together."""
        ...

    @property
    def report_bytes(self) -> int:
        """Length of every report."""
        ...

    def randomize(self, entries: NDArray[np.int64], source: Randomness) -> bytes:
        """The reports of records with those entries (n, k r)."""
        ...

    def check(self, reports: Reports) -> None:
        """Raise a MessageError unless they could have come from that many records."""
        ...

    def estimate(self, reports: Reports) -> Estimate:
        """Unbiased counts, with their variance."""
        ...


class LocalProtocol:
    """One report for each record, private by itself."""

    participants = 1

    def __init__(self, randomizer: LocalRandomizer) -> None:
        self.randomizer = randomizer
        self.event, self.report_bytes = randomizer.event, randomizer.report_bytes

    def randomize(self, entries: NDArray[np.int64], source: Randomness) -> bytes:
        return self.randomizer.randomize_many(entries, source).tobytes()

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
    """Any number of messages for each record, which hide each other once they are shuffled."""

    report_bytes = MESSAGE_BYTES

    def __init__(self, shares: NoiseShares) -> None:
        self.shares = shares
        self.event, self.participants = shares.event, shares.participants

    def randomize(self, entries: NDArray[np.int64], source: Randomness) -> bytes:
        return self.shares.messages(entries, source).astype("<u4").tobytes()

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
    return protocol_for(setup.protocol, setup.parameters, setup.shape, setup.n_neighbors, setup.n_labels)


def protocol_for(
    name: str, parameters: tuple[float, ...], shape: tuple[int, int], n_neighbors: int, n_labels: int
) -> Protocol:
    """The protocol of that name.

    Parameters
    ----------
    name : str
    parameters : tuple of float
        See this module.
    shape : (int, int)
        Queries and classes.
    n_neighbors, n_labels : int
        k and r.

    Raises
    ------
    UnsuitableMessage
        It asks for no reports.
    CorruptMessage
        The parameters are not those of the protocol.
    """
    expected = {"randomized-response": 1, "collision": 2, "separation": 1, "shares": 4}.get(name)
    if expected is None:
        raise UnsuitableMessage(f"protocol {name}; accepted: one that asks for reports")
    if len(parameters) != expected:
        raise CorruptMessage(f"{len(parameters)} parameters of {name}; accepted: {expected}")
    first, *rest = parameters
    domain, nonzeros = shape[0] * shape[1], n_neighbors * n_labels
    try:
        if name == "shares":
            least, *flood = rest
            return SharesProtocol(NoiseShares(domain, nonzeros, int(least), first, Flood(*flood)))
        if name == "collision":
            return LocalProtocol(CollisionReports(domain, nonzeros, first, int(rest[0])))
        return LocalProtocol(
            local_randomizer(
                name,
                queries=shape[0],
                classes=shape[1],
                epsilon=first,
                neighbours=n_neighbors,
                label_ones=n_labels,
            )
        )
    except ac.ParameterError as error:
        raise CorruptMessage(f"a setup that cannot be: {error}") from None


def as_one_event(event: ac.Event | ac.Composition) -> ac.Event:
    """The event of a report; for one in two parts, what dominates both together."""
    return event if isinstance(event, ac.Event) else ac.PureDP(ac.epsilon(event, 0.0).epsilon)


# --- noise of the central model ------------------------------------------------------------------------


def central_event(noise: str, scale: float, moved: int, adjacency: ac.Adjacency = ac.Adjacency.REPLACE) -> Any:
    """Noise on counts of which `moved` move by 1: 2 k r when a record is replaced, k r when one is added or removed.

    Parameters
    ----------
    noise : {"laplace", "gaussian", "discrete-laplace", "discrete-gaussian"}
    scale : float
        Its scale, or standard deviation, in votes.
    moved : int
    adjacency : accountant.Adjacency
    """
    if noise == "laplace":
        return ac.Laplace(scale, 1.0, moved, adjacency=adjacency)
    if noise == "gaussian":
        return ac.Gaussian(scale, math.sqrt(moved), adjacency=adjacency)
    if noise == "discrete-laplace":
        return ac.DiscreteLaplace(scale, 1, moved, adjacency=adjacency)
    if noise == "discrete-gaussian":
        return ac.DiscreteGaussian(scale, 1, moved, adjacency=adjacency)
    raise ac.ParameterError(f"noise = {noise!r}; accepted: laplace, gaussian, discrete-laplace, discrete-gaussian")


def covers_counts(event: object, nonzeros: int) -> bool:
    """Whether noise that is priced by this event is priced for counts to which every record adds `nonzeros` ones."""
    if not isinstance(event, ac.Laplace | ac.Gaussian | ac.DiscreteLaplace | ac.DiscreteGaussian):
        return False
    moved = nonzeros if event.adjacency == ac.Adjacency.ADD_REMOVE else 2 * nonzeros
    if isinstance(event, ac.Gaussian):
        return bool(event.sensitivity >= math.sqrt(moved))
    return bool(event.sensitivity >= 1 and event.coordinates >= moved)


def noise_variance(event: Any) -> float:
    """Variance of the noise that an event prices."""
    if isinstance(event, ac.Laplace):
        return 2 * event.scale**2
    if isinstance(event, ac.DiscreteLaplace):
        return 1 / (2 * math.sinh(min(1 / (2 * event.scale), 700.0)) ** 2)
    if isinstance(event, ac.DiscreteGaussian) and event.sigma < 10:
        weights = [math.exp(-((x / event.sigma) ** 2) / 2) for x in range(1, 120)]
        squares = math.fsum(x * x * weight for x, weight in enumerate(weights, 1))
        return 2 * squares / (1 + 2 * math.fsum(weights))
    # for wide discrete noise the same to double precision (Poisson summation)
    return float(event.sigma**2)
