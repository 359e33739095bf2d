"""A client of reverse k-NN: it holds records and answers the setups of a server."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.federation.ledger import MemoryLedger, as_ledger
from mechanisms.federation.messages import (
    LARGEST_PAYLOAD,
    ClientCounts,
    Kind,
    Message,
    Reports,
    UnsuitableMessage,
    digest_of,
)
from mechanisms.federation.protocols import Protocol, protocol_of
from mechanisms.federation.round_setup import RoundSetup
from mechanisms.federation.targets import RECEIVED, Charge, Target
from mechanisms.noise.source import Seeded, as_randomness
from mechanisms.validation import check_count, check_features

__all__ = ["MODELS", "Client", "label_sets", "labels_within"]

MODELS = {
    "central": ("counts",),
    "local": ("randomized-response", "collision", "separation"),
    "shuffle": ("randomized-response", "collision", "separation", "shares"),
}
"""Protocols of each trust model."""

LARGEST_LABEL = 2**62
"""Larger labels are replaced by this one, which is no class of any round; they might not fit into 64 bits."""


class Client(Exclusive):
    """Holds records and answers setups; both are exchanged as bytes.

    Whether a setup is answered depends on the options below and on earlier answers, never on a record or a label, so
    that a refusal tells a server nothing. The client prices every round by itself. It refuses a round that would bring
    the total above its own target before anything is charged or drawn.

    Parameters
    ----------
    X : array of shape (n, d)
        n and d are public.
    y : array of shape (n,), labels from 0; or (n, c), zeros and ones, with the same number of ones in each row
        A label that is not among a round's classes counts as the lowest class that its record does not have.
    client : int
        Its identifier, from 1 and below 2^64.
    model : {"central", "local", "shuffle"}
        Setups of other models are refused, so that no server can obtain exact counts against the client's will.
    max_epsilon : float or None
        Upper bound for the epsilon of a record's reports over all rounds and sessions, in the shuffle model after
        shuffling. Required in the local and shuffle models; None in the central model, where the server adds the noise.
    rng : Generator, int, Randomness or None
        None draws from system entropy, as real reports must. Anything else is for experiments only.
    ids : integer array of shape (n,), optional
        Only with a seed, for experiments: what a record's report draws then depends on the seed, the round and its
        identifier alone, not on which client holds it; it is the same in every session.
    delta : float
        Of the target; above 0 in the shuffle model.
    crowd : int or None
        Fewest users, this one among them, whose reports the shuffler passes on together. Required in the shuffle model,
        None in the others. The client trusts the shuffler in this.
    n_classes : int or None
        Public number of classes: rounds of another number are refused. None answers any.
    n_labels : int
        r, the labels that each record has; public.
    ledger : str, Path, Ledger, MemoryLedger or None
        Remembers answers and charges. Required in the local and shuffle models, except with a seed: a path, so that a
        restart forgets nothing, or a `MemoryLedger`. Use one ledger for one set of records.
    patience : float
        Seconds of work that the price of a setup may take, as for `accountant.epsilon`; a setup that needs more is
        refused.

    Raises
    ------
    accountant.ParameterError
        A value is not as described.
    """

    def __init__(
        self,
        X: object,
        y: object,
        client: int,
        model: str = "central",
        max_epsilon: float | None = None,
        rng: Any = None,
        ids: Any = None,
        *,
        delta: float = 0.0,
        crowd: int | None = None,
        n_classes: int | None = None,
        n_labels: int = 1,
        ledger: Any = None,
        patience: float = RECEIVED,
    ) -> None:
        self._client = check_count("client", client, 1, 2**64 - 1)
        if model not in MODELS:
            raise ac.ParameterError(f"model = {model!r}; accepted: {', '.join(MODELS)}")
        self._model = model
        self._target, self._crowd = _check_target(model, max_epsilon, delta, crowd, patience)
        self._n_labels = check_count("n_labels", n_labels, 1)
        self._n_classes = None if n_classes is None else check_count("n_classes", n_classes, n_labels)
        self._records = check_features(X)
        self._labels = label_sets(y, len(self._records))
        if self._labels.shape[1] != self._n_labels:
            raise ac.ParameterError(f"y holds {self._labels.shape[1]} labels a record; accepted: n_labels = {n_labels}")
        self._ids = _check_seeded_ids(ids, rng, len(self._records))
        self._seed = rng
        # exact counts draw nothing: a client of the central model needs no source of noise
        self._source = None if model == "central" else as_randomness(rng)
        if ledger is None and self._source is not None and not self._source.repeatable:
            raise ac.ParameterError("ledger = None without a seed; accepted: a path, a Ledger, or a MemoryLedger")
        self._ledger = MemoryLedger() if ledger is None else as_ledger(ledger)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and of columns."""
        return len(self._records), self._records.shape[1]

    @property
    def spent_(self) -> ac.Composition:
        """What each record's reports have cost so far, by the ledger.

        Counts of the central model cost nothing here, as the server adds the noise.
        """
        return self._ledger.spent()

    @exclusive
    def answer(self, message: bytes) -> bytes:
        """The answer to a server's setup; it is charged before anything is drawn.

        Every round is answered once, as a second answer would cost a second time. An answer that was charged and then
        lost is not given again.

        Raises
        ------
        MessageError
            Not a setup that this client can answer, or one that it has answered before. Nothing was spent.
        LedgerError
            The ledger cannot be used. Nothing was drawn.
        """
        opened = Message.unpack(message)
        setup = RoundSetup.unpack(opened)
        self._check(setup)
        charge = None
        if setup.protocol != "counts":
            charge = Charge.of(setup, self._crowd)
            # checked by itself first: a setup that can never be answered changes nothing in the ledger
            assert self._target is not None
            self._target.check(1 * charge.event)
        protocol = None if charge is None else protocol_of(setup)
        _refuse_large(setup, protocol, len(self._records))
        self._ledger.charge(opened.session, opened.round, charge, self._target)
        labels = labels_within(self._labels, setup.n_classes)
        if protocol is None:
            counts = setup.count(self._records, labels)
            kind, payload = Kind.COUNTS, ClientCounts(counts, len(self._records)).pack()
        else:
            entries = setup.entries(self._records, labels)
            kind, payload = Kind.REPORTS, self._reports(protocol, entries, opened.round).pack()
        return Message(kind, opened.round, opened.session, self._client, payload, digest_of(message)).pack()

    def _check(self, setup: RoundSetup) -> None:
        """Refuse what this client's options do not allow, whatever its records and labels are."""
        if setup.protocol not in MODELS[self._model]:
            accepted = ", ".join(MODELS[self._model])
            raise UnsuitableMessage(f"protocol {setup.protocol} in the {self._model} model; accepted: {accepted}")
        width = self._records.shape[1]
        if setup.queries.shape[1] != width:
            raise UnsuitableMessage(f"queries of {setup.queries.shape[1]} columns; accepted: {width}, as the records")
        if setup.n_labels != self._n_labels:
            raise UnsuitableMessage(f"{setup.n_labels} labels for each record; accepted: n_labels = {self._n_labels}")
        if self._n_classes is not None and setup.n_classes != self._n_classes:
            raise UnsuitableMessage(f"{setup.n_classes} classes; accepted: n_classes = {self._n_classes}")

    def _reports(self, protocol: Protocol, entries: NDArray[np.int64], round: int) -> Reports:
        assert self._source is not None  # only clients of the central model have none
        if self._ids is None:
            return Reports(protocol.randomize(entries, self._source), protocol.report_bytes, len(entries))
        parts = []
        for identifier, row in zip(self._ids.tolist(), entries, strict=True):
            source = Seeded(np.random.default_rng([self._seed, round, identifier]))
            parts.append(protocol.randomize(row[None], source))
        return Reports(b"".join(parts), protocol.report_bytes, len(entries))


def _refuse_large(setup: RoundSetup, protocol: Protocol | None, records: int) -> None:
    """Refuse what would be answered by more bytes than a server receives, or takes more to be drawn.

    It would only fill the memory here. Reports need all votes at once, and shares a number for each count; exact counts
    add up some votes at a time.
    """
    answer = ClientCounts.bytes_of(setup.shape) if protocol is None else protocol.bytes_of(records)
    held = 0 if protocol is None else 8 * (records * setup.size.nonzeros + setup.size.domain)
    for size, what in ((answer, "to be answered by"), (held, "whose votes and counts take")):
        if size > LARGEST_PAYLOAD:
            raise UnsuitableMessage(f"a setup {what} {size:.3g} bytes; accepted: at most {LARGEST_PAYLOAD}")


def _check_target(
    model: str, max_epsilon: float | None, delta: float, crowd: int | None, patience: float
) -> tuple[Target | None, int]:
    """The target of a client, None in the central model, and the size of its crowd, 0 without a shuffler."""
    if model == "central":
        for name, value, none in (("max_epsilon", max_epsilon, None), ("delta", delta, 0.0), ("crowd", crowd, None)):
            if value != none:
                raise ac.ParameterError(
                    f"{name} = {value!r} in the central model; accepted: none, the server adds the noise"
                )
        return None, 0
    if max_epsilon is None:
        raise ac.ParameterError(f"max_epsilon = None in the {model} model; accepted: a finite number above 0")
    target = Target(max_epsilon, delta, patience)
    if model == "local":
        if crowd is not None:
            raise ac.ParameterError(f"crowd = {crowd!r} in the local model; accepted: none, a report is seen by itself")
        return target, 0
    if target.delta == 0:
        raise ac.ParameterError("delta = 0 in the shuffle model; accepted: above 0")
    if crowd is None:
        raise ac.ParameterError("crowd = None in the shuffle model; accepted: the fewest users that are shuffled")
    return target, check_count("crowd", crowd, 1)


def _check_seeded_ids(ids: object, rng: object, n: int) -> NDArray[np.int64] | None:
    """Identifiers for experiments, one for each record."""
    if ids is None:
        return None
    if isinstance(rng, bool) or not isinstance(rng, int):
        raise ac.ParameterError("ids were given without a seed; accepted: rng, an integer >= 0, with ids")
    names = np.asarray(ids)
    if names.shape != (n,) or names.dtype.kind not in "iu" or names.min(initial=0) < 0:
        raise ac.ParameterError(f"ids of shape {names.shape} and type {names.dtype}; accepted: integers >= 0, ({n},)")
    return names.astype(np.int64)


def labels_within(labels: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Labels (n, r) with every label above the classes replaced, so that each row still has r different ones.

    The replacement is the lowest class that the record does not have. Any rule would do that depends on this record
    alone, as votes must. `n_classes` is at least r.
    """
    outside = labels >= n_classes
    if labels.shape[1] == 1:
        return np.where(outside, 0, labels)
    within = labels.copy()
    for row in np.flatnonzero(outside.any(axis=1)):
        has = set(labels[row].tolist())
        free = (each for each in range(n_classes) if each not in has)
        within[row, outside[row]] = [next(free) for _ in range(int(outside[row].sum()))]
    within.sort(axis=1)
    return within


def label_sets(y: object, n: int) -> NDArray[np.int64]:
    """Labels (n, r), ascending in each row, from labels (n,) or from zeros and ones (n, c) with r ones in each row."""
    labels = np.asarray(y)
    if labels.ndim not in (1, 2) or len(labels) != n or labels.size == 0:
        raise ac.ParameterError(f"y has shape {labels.shape}; accepted: ({n},) or ({n}, c), and at least one record")
    if labels.dtype.kind not in "iub" and not (labels.dtype.kind == "f" and np.all(labels == np.floor(labels))):
        raise ac.ParameterError(f"y holds {labels.dtype} values; accepted: integers 0..c-1")
    if labels.min() < 0:
        raise ac.ParameterError(f"y holds the label {labels.min()}; accepted: 0..c-1")
    if labels.ndim == 1:
        beyond = labels >= LARGEST_LABEL
        return np.where(beyond, LARGEST_LABEL, np.where(beyond, 0, labels).astype(np.int64))[:, None]
    ones = labels.sum(axis=1)
    if not np.isin(labels, (0, 1)).all() or ones.min() != ones.max() or ones[0] == 0:
        # Wang et al. 2022, Def. 4: a record with more labels than the others would add to more counts than are priced
        raise ac.ParameterError("y holds label sets of different sizes; accepted: zeros and ones, as many in each row")
    return np.nonzero(labels)[1].reshape(n, int(ones[0]))
