"""Options of a run (``flwr run --run-config``) and of a client (``flower-supernode --node-config``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import accountant as ac
from mechanisms.federation.client import MODELS
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.validation import check_count, check_positive, check_real

__all__ = ["NodeOptions", "RunOptions"]

UNSHUFFLED = (
    "model = 'shuffle'; accepted: central, local (Flower tells the server who sent what; for the shuffle model use "
    "mechanisms.Shuffler over another transport)"
)

T = TypeVar("T", bound="_Options")


class _Options:
    """Options that are checked against the types of their fields; configurations spell their names with hyphens."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def of(cls: type[T], config: Mapping[str, object]) -> T:
        """Options from Flower's dictionary.

        Raises
        ------
        accountant.ParameterError
            An option is not known, or of another type.
        """
        known = {each.name.replace("_", "-"): each for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in config.items():
            if name not in known:
                raise ac.ParameterError(f"option {name!r}; accepted: {', '.join(known)}")
            kind = str(known[name].type)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if type(value).__name__ != kind and not (kind == "float" and whole):
                raise ac.ParameterError(f"{name} = {ac.shorten(value)}; accepted: a value of type {kind}")
            values[known[name].name] = float(value) if kind == "float" else value  # type: ignore[arg-type]
        return cls(**values)


@dataclass(frozen=True)
class RunOptions(_Options):
    """Options of a run. Flower sends them to every client as well, so that none of them may be secret.

    Parameters
    ----------
    public : str
        Public points, on the server's machine: what `mechanisms.datasets.load` reads, files by absolute path.
    out : str
        Absolute path of the results, .npz; a .json file with all but the arrays is written beside it. In the central
        model <out>.spent, which ``accountant.Odometer(path=...)`` opens, holds all rounds that were released to it.
    classes : int
        Public number of classes.
    epsilon, delta, model, noise, randomizer, rounds, soft_labels, balance
        As for `ReverseKNN`; the models are central and local.
    queries, neighbors : int
        s and k.
    min_clients : int
        Fewest clients that must connect before a round and answer in it; with fewer, nothing is released.
    wait, timeout : float
        Seconds to wait for clients to connect, and for their answers.
    seed : int
        Below 0, noise comes from system entropy, as real releases need. Clients see a seed: for experiments only.
    """

    public: str = ""
    out: str = ""
    classes: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    model: str = "central"
    noise: str = "laplace"
    randomizer: str = "collision"
    queries: int = 40
    neighbors: int = 1
    rounds: int = 1
    soft_labels: bool = True
    balance: float = 0.0
    min_clients: int = 2
    wait: float = 60.0
    timeout: float = 600.0
    seed: int = -1

    def __post_init__(self) -> None:
        if self.model == "shuffle":
            raise ac.ParameterError(UNSHUFFLED)
        path = Path(self.out)
        if path.suffix != ".npz" or not path.is_absolute():
            raise ac.ParameterError(f"out = {self.out!r}; accepted: an absolute path that ends in .npz")
        if not self.public:
            raise ac.ParameterError("public = ''; accepted: a source of public points, files by absolute path")
        check_count("classes", self.classes, 2)
        check_count("min-clients", self.min_clients, 1)
        check_real("balance", self.balance, "[0, 1]", lambda value: 0 <= value <= 1)
        for name, value in (("wait", self.wait), ("timeout", self.timeout)):
            check_real(name, value, "seconds above 0, at most 10^6", lambda seconds: 0 < seconds <= 1e6)

    @property
    def spent_path(self) -> Path:
        """The file of what the server has spent."""
        return Path(f"{self.out}.spent")

    def mechanism(self) -> ReverseKNN:
        """The simulation with the same parameters."""
        return ReverseKNN(
            n_queries=self.queries,
            n_neighbors=self.neighbors,
            epsilon=self.epsilon,
            delta=self.delta,
            model=self.model,
            noise=self.noise,
            randomizer=self.randomizer,
            rounds=self.rounds,
            soft_labels=self.soft_labels,
            balance=self.balance,
            n_classes=self.classes,
            rng=None if self.seed < 0 else self.seed,
        )


@dataclass(frozen=True)
class NodeOptions(_Options):
    """Options of a client, set by the operator who holds the records; no server can change them.

    Parameters
    ----------
    records : str
        Labelled records: what `mechanisms.datasets.load` reads, files by absolute path.
    model : str
        Whom the client trusts, central or local. In the central model it sends exact counts.
    classes : int
        Public number of classes: rounds with another number are refused. 0 answers any.
    max_epsilon, delta : float
        Upper bound for the cost of a record's reports over all runs. Local model only, where max_epsilon is required.
    ledger : str
        File that remembers what was answered and spent; by default the name of the records' file with `.ledger` added.
    seed, first_record : int
        For experiments only: a seed from 0, and the number of the first record among those of all clients.
    """

    records: str = ""
    model: str = ""
    classes: int = 0
    max_epsilon: float = math.nan
    delta: float = 0.0
    ledger: str = ""
    seed: int = -1
    first_record: int = 0

    def __post_init__(self) -> None:
        if self.model == "shuffle":
            raise ac.ParameterError(UNSHUFFLED)
        if self.model not in MODELS:
            raise ac.ParameterError(f"model = {self.model!r}; accepted: central, local")
        if not self.records:
            raise ac.ParameterError("records = ''; accepted: a source of labelled records, files by absolute path")
        check_count("classes", self.classes, 0)
        if self.model == "local":
            check_positive("max-epsilon", self.max_epsilon)
            check_real("delta", self.delta, "[0, 1)", lambda value: 0 <= value < 1)
        elif not (math.isnan(self.max_epsilon) and self.delta == 0):
            raise ac.ParameterError(
                f"max-epsilon = {self.max_epsilon:g}, delta = {self.delta:g} in the central model; accepted: none, the "
                "server adds the noise"
            )
        if not self.ledger and not Path(self.records).is_file():
            raise ac.ParameterError(f"ledger = '' with records = {self.records!r}; accepted: a path")
        check_count("first-record", self.first_record, 0)

    @property
    def ledger_path(self) -> Path:
        """The file of the client's ledger."""
        return Path(self.ledger or f"{self.records}.ledger")
