"""A client of reverse k-NN: it holds records, and what leaves it is bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.messages import (
    ClientCounts,
    DuplicateMessage,
    Kind,
    LateMessage,
    Message,
    Reports,
    UnsuitableMessage,
)
from mechanisms.noise import Seeded, as_randomness
from mechanisms.protocols import Protocol, protocol_of
from mechanisms.setup import Setup
from mechanisms.validation import checked_count, checked_features

__all__ = ["MODELS", "Client", "label_sets"]

MODELS = {
    "central": ("counts",),
    "local": ("randomized-response", "collision", "separation"),
    "shuffle": ("randomized-response", "collision", "separation", "shares"),
}
"""Protocols that a client of each model takes part in."""


class Client:
    """Holds records and answers setups; what leaves it is bytes.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,), labels 0..c-1; or (n, c), zeros and ones, with the same number of ones in each row
    client : int
        Its identifier, from 1 and below 2^64.
    model : {"central", "local", "shuffle"}
        Whom it trusts: it refuses setups of another model, so that no server can talk it into sending bare counts.
    max_epsilon : float or None
        Most that one record's reports, seen by themselves, may cost over all rounds (local and shuffle models).
    rng : Generator, int, Randomness or None
        None draws from the system, as real reports must.
    ids : integer array of shape (n,), optional
        With a seed: what a record's report draws then depends on the seed, the round and its identifier alone, and
        not on who holds it.

    Attributes
    ----------
    spent_ : accountant.Composition
        What each record's reports have cost so far, seen by themselves; charged before they leave. Counts of the
        central model cost nothing here: the server adds the noise.

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
    ) -> None:
        self.records = checked_features(X)
        self.labels = label_sets(y, len(self.records))
        self.client = checked_count("client", client, 1, 2**64 - 1)
        if model not in MODELS:
            raise ac.ParameterError(f"model = {model!r}; accepted: {', '.join(MODELS)}")
        self.model, self.max_epsilon = model, max_epsilon
        self.ids = None if ids is None else np.asarray(ids)
        if self.ids is not None and (isinstance(rng, bool) or not isinstance(rng, int)):
            raise ac.ParameterError("ids were given without a seed; accepted: rng, an integer >= 0, with ids")
        self._seed = rng
        # counts draw nothing: a client of the central model needs no exact sampler
        self._source = None if model == "central" else as_randomness(rng)
        self.spent_ = ac.Composition()
        self._answered: dict[bytes, int] = {}

    def answer(self, message: bytes) -> bytes:
        """The answer to a server's setup. Every round is answered once: a second answer would cost a second time.

        Raises
        ------
        MessageError
            Not a setup that this client can answer, or one that it already has. Nothing was spent.
        """
        opened = Message.unpack(message)
        setup = Setup.unpack(opened)
        last = self._answered.get(opened.session, 0)
        if opened.round <= last:
            error = DuplicateMessage if opened.round == last else LateMessage
            raise error(f"a setup of round {opened.round}; accepted: one after {last}, which was answered")
        protocol = self._checked(setup)
        entries = setup.entries(self.records, self.labels)
        spent = self.spent_ if protocol is None else self.spent_ + protocol.event
        self._refuse_overspending(spent)
        self._answered[opened.session], self.spent_ = opened.round, spent
        if protocol is None:
            counts = np.bincount(entries.ravel(), minlength=setup.domain).reshape(setup.shape)
            kind, payload = Kind.COUNTS, ClientCounts(counts, len(self.records)).pack()
        else:
            kind, payload = Kind.REPORTS, self._reports(protocol, entries, opened.round).pack()
        return Message(kind, opened.round, opened.session, self.client, payload).pack()

    def _checked(self, setup: Setup) -> Protocol | None:
        """The protocol of a setup that this client can and may answer; None for bare counts."""
        if setup.protocol not in MODELS[self.model]:
            accepted = ", ".join(MODELS[self.model])
            raise UnsuitableMessage(f"protocol {setup.protocol} in the {self.model} model; accepted: {accepted}")
        width, sets = self.records.shape[1], self.labels.shape[1]
        if setup.queries.shape[1] != width:
            raise UnsuitableMessage(f"queries of {setup.queries.shape[1]} columns; accepted: {width}, as the records")
        if setup.n_labels != sets:
            raise UnsuitableMessage(f"{setup.n_labels} labels for each record; accepted: {sets}, as they have")
        if self.labels.max(initial=0) >= setup.n_classes:
            raise UnsuitableMessage(f"{setup.n_classes} classes; accepted: at least {self.labels.max() + 1}")
        return None if setup.protocol == "counts" else protocol_of(setup)

    def _refuse_overspending(self, spent: ac.Composition) -> None:
        if self.max_epsilon is not None and len(spent):
            total = ac.epsilon(spent, 0.0).epsilon
            if total > self.max_epsilon:
                accepted = f"at most max_epsilon = {self.max_epsilon:g}"
                raise UnsuitableMessage(f"a setup that brings a record's epsilon to {total:g}; accepted: {accepted}")

    def _reports(self, protocol: Protocol, entries: NDArray[np.int64], round: int) -> Reports:
        assert self._source is not None  # only clients of the central model have none
        if self.ids is None:
            return Reports(protocol.randomize(entries, self._source), protocol.report_bytes, len(entries))
        parts = []
        for identifier, row in zip(self.ids.tolist(), entries, strict=True):
            source = Seeded(np.random.default_rng([self._seed, round, identifier]))
            parts.append(protocol.randomize(row[None], source))
        return Reports(b"".join(parts), protocol.report_bytes, len(entries))


def label_sets(y: object, n: int) -> NDArray[np.int64]:
    """Labels (n, r) in rising order from labels (n,), or from zeros and ones (n, c) with r ones in each row."""
    labels = np.asarray(y)
    if labels.ndim not in (1, 2) or len(labels) != n or labels.size == 0:
        raise ac.ParameterError(f"y has shape {labels.shape}; accepted: ({n},) or ({n}, c), and at least one record")
    if labels.dtype.kind not in "iub" and not (labels.dtype.kind == "f" and np.all(labels == np.floor(labels))):
        raise ac.ParameterError(f"y holds {labels.dtype} values; accepted: integers 0..c-1")
    if labels.min() < 0:
        raise ac.ParameterError(f"y holds the label {labels.min()}; accepted: 0..c-1")
    if labels.ndim == 1:
        return labels.astype(np.int64)[:, None]
    ones = labels.sum(axis=1)
    if not np.isin(labels, (0, 1)).all() or ones.min() != ones.max() or ones[0] == 0:
        # reverse-knn, Def. 4: a record with more labels than others would count for more than is priced
        raise ac.ParameterError("y holds label sets of different sizes; accepted: zeros and ones, as many in each row")
    return np.nonzero(labels)[1].reshape(n, int(ones[0]))
