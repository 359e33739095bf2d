"""A labelling run, which all mechanisms share, and its named result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.journal import Journal, Part
from mechanisms.noise import Randomness
from mechanisms.parameters import Parameters
from mechanisms.validation import checked_count
from mechanisms.voting import noisy_argmax, passes_screening

__all__ = ["Labeller", "Labelling", "least_noise"]


@dataclass(frozen=True, eq=False)
class Labelling:
    """What a labelling run released, and what it cost.

    Attributes
    ----------
    labels : int array of shape (m,), or (m, c) for label sets
        -1 where a query was not answered.
    answered : bool array of shape (m,)
    composition : accountant.Composition
        What the run actually spent.
    planned : accountant.Composition or None
        What it could have spent at most, fixed before it began; None if nothing was fixed.
    """

    labels: NDArray[np.int64]
    answered: NDArray[np.bool_]
    composition: ac.Composition
    planned: ac.Composition | None = None

    @property
    def odometer(self) -> bool:
        """Whether the price can only be read afterwards, from how many answers there happened to be."""
        return self.planned is None

    def guarantee(self, delta: float, conversion: ac.Conversion = "improved") -> ac.Guarantee:
        """The guarantee that held before the run began; without a plan, an odometer reading, marked as one.

        Parameters and errors as for `accountant.epsilon`.
        """
        run = self.composition if self.planned is None else self.planned
        return replace(ac.epsilon(run, delta, conversion=conversion), odometer=self.odometer)


def least_noise(
    make: Callable[[float], ac.Composition | None],
    epsilon: float,
    delta: float,
    start: float = 1.0,
    **route: Any,
) -> float:
    """The least noise at which what `make` plans stays within (epsilon, delta); `route` as for `accountant.epsilon`.

    Raises
    ------
    accountant.CalibrationError
        No noise is enough.
    """

    def run(noise: float) -> ac.Composition:
        planned = make(noise)
        assert planned is not None  # a run to be calibrated limits its labels
        return planned

    return ac.calibrate(run, epsilon, delta, bounds=(1e-3, 1e9), start=start, **route)


class Labeller(Parameters, ABC):
    """What labelling mechanisms share: two events, a plan, and a run that charges before it draws.

    Attributes
    ----------
    spent_ : accountant.Composition
        All that has been released so far, recorded before each release.
    """

    max_labels: int | None
    spent_: ac.Composition
    _source: Randomness

    @property
    @abstractmethod
    def screening_event(self) -> ac.Event | None:
        """The screening of one query; None where it is off."""

    @property
    @abstractmethod
    def vote_event(self) -> ac.Event:
        """The release of one label, or of one label set."""

    def planned(self, n_queries: int) -> ac.Composition | None:
        """The most that `n_queries` queries can spend; None without `max_labels`."""
        if self.max_labels is None:
            return None
        answers = min(checked_count("max_labels", self.max_labels, 0), n_queries) * self.vote_event
        screening = self.screening_event
        return answers if screening is None else n_queries * screening + answers

    def _begin(self, source: Randomness) -> None:
        """Fix the events that will be both drawn and priced."""
        self._events = (self.screening_event, self.vote_event)
        self._source = source
        self.spent_ = ac.Composition()

    def _run(
        self,
        asks: Iterable[Callable[[ac.Event], Any]],
        labels: NDArray[np.int64],
        queries: NDArray[Any],
        journal: Journal | None,
        progress: Callable[[int], object] | None,
    ) -> Labelling:
        """Answer queries in order into `labels`; each is asked for its votes, once for either event."""
        plan, before = self.planned(len(labels)), self.spent_
        cap = len(labels) if self.max_labels is None else self.max_labels
        part = self._opened(journal, queries, labels.shape)
        answered = np.zeros(len(labels), bool)
        votes = 0
        for i, ask in enumerate(asks):
            if votes >= cap:
                break
            answer = self._answer(i, ask, part)
            if answer is not None:
                labels[i], answered[i] = answer, True
            votes += (i, "vote") in part.charges
            if progress is not None:
                progress(i + 1)
        earlier = before.entries
        spent = ac.Composition((event, count - earlier.get(event, 0)) for event, count in self.spent_)
        return Labelling(labels, answered, spent, plan)

    def _answer(self, i: int, ask: Callable[[ac.Event], Any], part: Part) -> Any:
        """The released label of one query, or None; taken from the journal if it is there."""
        screening, vote = self._events
        if i in part.answers:
            answer, state = part.answers[i]
            self._source.restore(state)
            return answer
        if i in part.charged_queries and not self._source.repeatable:
            return None  # drawn, perhaps, and lost with the process: to draw again would have to be paid for again
        answer = None
        if screening is None or self._passes(screening, self._charged(i, "screening", screening, ask, part)):
            answer = self._release(vote, self._charged(i, "vote", vote, ask, part))
        part.answer(i, answer, self._source.state())
        return answer

    def _charged(self, i: int, release: str, event: ac.Event, ask: Callable[[ac.Event], Any], part: Part) -> Any:
        """The votes for a release, charged before anything is drawn."""
        if part.charge(i, release):
            self.spent_ = self.spent_ + event
        return ask(event)

    def _opened(self, journal: Journal | None, queries: NDArray[Any], shape: tuple[int, ...]) -> Part:
        """This run in the journal; what it spent before it was interrupted is added to `spent_`."""
        if journal is None:
            return Part()
        screening, vote = self._events
        digest = sha256(np.ascontiguousarray(queries).tobytes()).hexdigest()
        header = {
            "mechanism": type(self).__name__,
            "screening": repr(screening),
            "vote": repr(vote),
            **{name: getattr(self, name, None) for name in ("n_neighbors", "n_teachers", "n_classes", "max_labels")},
            "labels": shape,
            "queries": [*queries.shape, digest],
            "seed": self._source.state(),
        }
        part = journal.part(header)
        for _, release in part.charges:
            event = screening if release == "screening" else vote
            assert event is not None  # the header fixes which releases there are
            self.spent_ = self.spent_ + event
        return part

    def _passes(self, screening: ac.Event, votes: Any) -> bool:
        return passes_screening(screening, votes, self._source)

    def _release(self, vote: ac.Event, votes: Any) -> Any:
        return noisy_argmax(vote, votes, self._source)
