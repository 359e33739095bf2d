"""One run of a labeller that answers query by query, and its result; shared by Private-kNN and PATE.

`mechanisms.rounds` makes several such runs; `mechanisms.labelling_plan` says what a run may spend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.arrays import Booleans, Integers
from mechanisms.budgets.journal import Journal, Part
from mechanisms.estimator import Parameters
from mechanisms.exclusive import Exclusive
from mechanisms.frames import Vocabulary
from mechanisms.labelling_plan import LabellingPlan, PlanExceeded, Promises, subtract
from mechanisms.noise.source import Randomness, check_noise
from mechanisms.phases import phase
from mechanisms.voting import noisy_argmax, passes_screening

__all__ = ["Labeller", "Labelling", "LabellingPlan", "PlanExceeded", "least_noise"]


@dataclass(frozen=True, eq=False)
class Labelling:
    """What a labelling run released, and what it cost.

    Attributes
    ----------
    labels : int array of shape (m,), or (m, c) for label sets; or text of shape (m,)
        -1 where a query was not answered. If the classes have names, these, and "".
    answered : bool array of shape (m,)
    composition : accountant.Composition
        What the run actually spent.
    planned : accountant.Composition or None
        The most that could be spent, fixed before the run began; None if nothing was fixed. If the mechanism has a plan
        for a number of queries, that plan, which all its runs share.
    before : accountant.Composition
        What the same object promised besides, under other plans or in other runs.
    odometer_before : bool
        Whether the price of some of `before` was known only afterwards.
    """

    labels: Any
    answered: Booleans
    composition: ac.Composition
    planned: ac.Composition | None = None
    before: ac.Composition = field(default_factory=ac.Composition)
    odometer_before: bool = False

    @property
    def odometer(self) -> bool:
        """Whether the price is known only afterwards, because it depends on the number of answers."""
        return self.planned is None or self.odometer_before

    @property
    def promised(self) -> ac.Composition:
        """What the guarantee prices: the plan, or what was spent if there is none, and all that came before."""
        return self.before + (self.composition if self.planned is None else self.planned)

    def guarantee(self, delta: float, conversion: ac.Conversion | None = None) -> ac.Guarantee:
        """The guarantee for this run and all that its object had released before; fixed before the run began.

        Without a plan it is an odometer reading and marked as one. Parameters and errors as for `accountant.epsilon`.
        """
        return replace(ac.epsilon(self.promised, delta, conversion=conversion), odometer=self.odometer)


def least_noise(
    make: Callable[[float], ac.Composition | None],
    epsilon: float,
    delta: float,
    start: float = 1.0,
    **route: Any,
) -> float:
    """The least noise for which the run ``make(noise)`` keeps (epsilon, delta); `route` as for `accountant.epsilon`.

    Raises
    ------
    accountant.CalibrationError
        No noise is enough.
    """

    def run(noise: float) -> ac.Composition:
        planned = make(noise)
        assert planned is not None  # a calibrated run has `max_labels`
        return planned

    return ac.calibrate(run, epsilon, delta, bounds=(1e-3, 1e9), start=start, **route)


class Labeller(Parameters, Exclusive, ABC):
    """Base of mechanisms that answer query by query: `fit` fixes a plan, and runs charge before they draw.

    Attributes
    ----------
    spent_ : accountant.Composition
        All that this object has ever released, recorded before each release; another `fit` does not reset it.
    """

    max_labels: int | None
    n_queries: int | None
    rng: Any
    _plan: LabellingPlan
    _promises: Promises
    _source: Randomness
    _vocabulary: Vocabulary
    _fitted = False
    _made_of: tuple[NDArray[Any], NDArray[Any]] | None = None
    """Public points and private records of which queries and features were made; None: they are these themselves."""
    _warned: str | None = None
    """The last warning about the parameters."""

    @property
    @abstractmethod
    def screening_event(self) -> ac.Event | None:
        """The screening of one query under the present parameters; None if it is off."""

    @property
    @abstractmethod
    def vote_event(self) -> ac.Event:
        """The release of one label, or of one label set, under the present parameters."""

    def planned(self, n_queries: int) -> ac.Composition | None:
        """The most that `n_queries` queries can spend under the present parameters; None without `max_labels`."""
        return self._plan_of().most(n_queries)

    @property
    def spent_(self) -> ac.Composition:
        if not hasattr(self, "_promises"):
            raise AttributeError(f"spent_ of a {type(self).__name__} that was not used; accepted: after `fit`")
        return self._promises.spent

    def guarantee(self, delta: float, conversion: ac.Conversion | None = None) -> ac.Guarantee:
        """The guarantee for all that this object has released; an odometer reading if no plan fixed it.

        During a run without a plan, what it has spent so far counts. Parameters and errors as for
        `accountant.epsilon`.
        """
        promises = self._promises if hasattr(self, "_promises") else Promises()
        total, odometer = promises.total, promises.odometer
        if promises.begun is not None:
            total, odometer = total + subtract(promises.spent, promises.begun), True
        return replace(ac.epsilon(total, delta, conversion=conversion), odometer=odometer)

    @property
    def asked(self) -> int:
        """Number of queries that were asked under the plan of the last `fit`."""
        return self._promises.asked if hasattr(self, "_promises") else 0

    def unused(self) -> Self:
        """Another object with the same parameters, which has released nothing."""
        twin = object.__new__(type(self))
        own = {name: value for name, value in vars(self).items() if not name.startswith("_") and name[-1] != "_"}
        vars(twin).update(own)
        return twin

    @contextmanager
    def _lend(self) -> Iterator[Self]:
        """Lend a twin whose releases count as this object's; this object cannot be used meanwhile."""
        with self._turn("label_in_rounds"):
            twin = self.unused()
            self._start_ledger()
            twin._promises, twin._warned = self._promises, self._warned
            yield twin

    def _plan_of(self, **details: Any) -> LabellingPlan:
        events = self.screening_event, self.vote_event
        return LabellingPlan(type(self).__name__, *events, self.max_labels, self.n_queries, tuple(details.items()))

    def _start_ledger(self) -> None:
        """Nothing is spent or promised, if this is the first use."""
        if not hasattr(self, "_promises"):
            self._promises = Promises()

    def _begin(self, plan: LabellingPlan, source: Randomness, *private: NDArray[Any]) -> None:
        """Fix what will be drawn and priced, and from which records; `fit` sets `_fitted` when it is complete.

        After an interrupted `fit` nothing can be drawn: records and plan could be from different calls.
        """
        for event in (plan.screening, plan.vote):
            if event is not None:
                check_noise(event, source)
        self._start_ledger()
        self._fitted = False
        self._promises.begin(plan)
        self._plan, self._source, self._private = plan, source, private

    def _run(
        self,
        asks: Iterable[Callable[[ac.Event], Any]],
        labels: Integers,
        queries: NDArray[Any],
        journal: Journal | None,
        progress: Callable[[int], object] | None,
    ) -> Labelling:
        """Answer queries in order, into `labels`; ``asks[i](event)`` draws the votes of query i for an event."""
        part, promises = self._open(journal, queries, labels.shape), self._promises
        promises.begin(self._plan)  # whoever borrowed this object may have had another
        promise = promises.admit(len(labels), part.identity, part.charges)
        counted = ac.Composition() if promise.earlier is None else promise.earlier.spent
        begun = subtract(promises.spent, counted)
        answered = np.zeros(len(labels), bool)
        # one assignment, so that an interruption here loses nothing that was spent
        promises.begun = begun if promise.planned is None else None
        promises.spent = begun + self._sum_charges(part)
        try:
            with phase("labelling", len(labels)) as tick:
                for i, ask in enumerate(asks):
                    if promise.votes >= promise.cap:
                        break
                    promise.asked += 1
                    answer = self._answer(i, ask, part)
                    if answer is not None:
                        labels[i], answered[i] = answer, True
                    promise.votes += (i, "vote") in part.charges
                    tick(i + 1)
                    if progress is not None:
                        progress(i + 1)
        finally:
            spent = subtract(promises.spent, begun)
            promises.settle(promise, spent, part.charges)
            promises.begun = None
        return Labelling(
            self._vocabulary.spell(labels), answered, spent, promise.planned, promise.before, promise.odometer_before
        )

    def _sum_charges(self, part: Part) -> ac.Composition:
        """What the run spent before it was interrupted."""
        screened = sum(release == "screening" for _, release in part.charges)
        votes = (len(part.charges) - screened) * self._plan.vote
        return votes if self._plan.screening is None else screened * self._plan.screening + votes

    def _answer(self, i: int, ask: Callable[[ac.Event], Any], part: Part) -> Any:
        """The released label of one query, or None; taken from the journal if it is there."""
        screening, vote = self._plan.screening, self._plan.vote
        if i in part.answers:
            answer, state = part.answers[i]
            self._source.restore(state)
            return answer
        if i in part.charged_queries and not self._source.repeatable:
            return None  # it may have been drawn before the process died: another draw would cost again
        answer = None
        if screening is None or self._passes(screening, self._charge_and_ask(i, "screening", screening, ask, part)):
            answer = self._release(vote, self._charge_and_ask(i, "vote", vote, ask, part))
        part.answer(i, answer, self._source.state())
        return answer

    def _charge_and_ask(self, i: int, release: str, event: ac.Event, ask: Callable[[ac.Event], Any], part: Part) -> Any:
        """Charge a release, then draw the votes for it."""
        if part.charge(i, release):
            self._promises.spent = self._promises.spent + event
        return ask(event)

    def _open(self, journal: Journal | None, queries: NDArray[Any], shape: tuple[int, ...]) -> Part:
        """The part of the journal that holds this run; without a journal, an empty part."""
        if journal is None:
            return Part()

        def describe(points: NDArray[Any], *private: NDArray[Any]) -> dict[str, Any]:
            digest = sha256(np.ascontiguousarray(points).tobytes()).hexdigest()
            return {
                **self._plan.header,
                "labels": shape,
                "queries": [*points.shape, digest],
                "private": journal.keyed_digest(*private),
                "seed": self._source.state(),
            }

        points, private = queries, self._private
        if self._made_of is not None:
            points, private = self._made_of[0], (self._made_of[1], *private[1:])
        return journal.part(describe(points, *private), lambda: describe(queries, *self._earlier_private()))

    def _earlier_private(self) -> tuple[NDArray[Any], ...]:
        """What journals of earlier versions know the private records by."""
        return self._private

    def _passes(self, screening: ac.Event, votes: Any) -> bool:
        return passes_screening(screening, votes, self._source)

    def _release(self, vote: ac.Event, votes: Any) -> Any:
        return noisy_argmax(vote, votes, self._source)
