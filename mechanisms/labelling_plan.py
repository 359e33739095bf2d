"""What a labeller fixes before it draws: the plan of its releases, and what all its runs together promise."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any, cast

import accountant as ac
from mechanisms.validation import check_count

__all__ = ["LabellingPlan", "PlanExceeded", "Promise", "Promises", "subtract"]

ChargedRelease = tuple[int, str]
"""Number of a query, and "screening" or "vote"."""


class PlanExceeded(ac.ParameterError):
    """There are more queries than the plan allows that fixed the guarantee; nothing was spent."""


@dataclass(frozen=True)
class LabellingPlan:
    """All that a fitted mechanism draws and pays for its queries; `fit` fixes it, later parameters do not change it.

    Attributes
    ----------
    mechanism : str
    screening : accountant.Event or None
        The screening of one query; None if it is off.
    vote : accountant.Event
        The release of one label, or of one label set.
    max_labels : int or None
        Most queries that are answered: in all runs together if `n_queries` is given, else in each run.
    n_queries : int or None
        Most queries that are asked in all runs together; None sets no limit.
    details : tuple of (str, value)
        Other parameters that decide how votes become a label: neighbours, teachers, classes, clip.
    """

    mechanism: str
    screening: ac.Event | None
    vote: ac.Event
    max_labels: int | None
    n_queries: int | None = None
    details: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.max_labels is not None:
            check_count("max_labels", self.max_labels, 0)
        if self.n_queries is not None:
            check_count("n_queries", self.n_queries, 1)

    def most(self, n_queries: int) -> ac.Composition | None:
        """The most that `n_queries` queries can spend in one run; None without `max_labels`."""
        if self.max_labels is None:
            return None
        answers = min(self.max_labels, n_queries) * self.vote
        return answers if self.screening is None else n_queries * self.screening + answers

    @property
    def whole(self) -> ac.Composition | None:
        """The most that all runs together can spend; None without `n_queries`."""
        if self.n_queries is None:
            return None
        answers = self.n_queries if self.max_labels is None else min(self.max_labels, self.n_queries)
        votes = answers * self.vote
        return votes if self.screening is None else self.n_queries * self.screening + votes

    @property
    def header(self) -> dict[str, Any]:
        """What a run that goes on must have in common with the one that was interrupted."""
        names = {"mechanism": self.mechanism, "screening": repr(self.screening), "vote": repr(self.vote)}
        return {**names, "max_labels": self.max_labels, "n_queries": self.n_queries, **dict(self.details)}


@dataclass
class Promise:
    """What one run may spend, and what it has spent so far.

    Attributes
    ----------
    identity : str or None
        Identity of the run's part of a journal.
    odometer_before : bool
        Whether the price of some of `before` was known only afterwards.
    planned : accountant.Composition or None
        The plan that covers the run, fixed before it.
    before : accountant.Composition
        All that is promised besides that plan.
    earlier : Promise or None
        What the object counted before for the same part of the journal; this run counts it again and replaces it.
    added, spent : accountant.Composition
        What the run adds to the object's promises, and what it spent.
    charges : set of (int, str)
        Query and release of everything that it spent.
    cap : int
        Most answers of this run.
    asked, votes : int
        Number of queries asked and answers paid for so far.
    """

    identity: str | None = None
    odometer_before: bool = False
    planned: ac.Composition | None = None
    before: ac.Composition = field(default_factory=ac.Composition)
    earlier: Promise | None = None
    added: ac.Composition = field(default_factory=ac.Composition)
    spent: ac.Composition = field(default_factory=ac.Composition)
    charges: frozenset[ChargedRelease] = frozenset()
    cap: int = 0
    asked: int = 0
    votes: int = 0


class Promises:
    """What all runs of one object promise together, and what they spent: whoever borrows the object shares it.

    Attributes
    ----------
    spent : accountant.Composition
        All that was ever released, recorded before each release.
    begun : accountant.Composition or None
        What was spent before the present run without a plan; None while there is no such run.
    total : accountant.Composition
        The plans of all runs, a plan that several runs share once, and what runs without a plan spent.
    odometer : bool
        Whether some of it was known only afterwards.
    """

    def __init__(self) -> None:
        self.spent, self.begun = ac.Composition(), cast("ac.Composition | None", None)
        self.total, self.odometer = ac.Composition(), False
        self._plan: LabellingPlan | None = None
        self._forget()

    def _forget(self) -> None:
        """Reset what was asked: under a new plan it is nothing."""
        self._asked = self._voted = 0
        self._outside: ac.Composition | None = None
        self._parts: dict[str, Promise] = {}

    @property
    def asked(self) -> int:
        """Number of queries that were asked under the present plan."""
        return self._asked

    def begin(self, plan: LabellingPlan) -> None:
        """Set the plan of the runs that follow; an equal plan continues."""
        if plan != self._plan:
            self._plan = plan
            self._forget()

    def admit(self, n_queries: int, identity: str | None = None, charges: Set[ChargedRelease] = frozenset()) -> Promise:
        """Begin a run of `n_queries` queries.

        Parameters
        ----------
        n_queries : int
        identity : str, optional
            Identity of its part of a journal.
        charges : set
            The charges that this part holds.

        Raises
        ------
        PlanExceeded
            The plan does not cover them; nothing has changed.
        """
        plan = self._plan
        assert plan is not None
        # if this object ran the part before and the journal kept all its charges, they are counted again, not twice
        earlier = self._parts.get(identity or "", Promise(identity))
        earlier = earlier if earlier.charges <= charges else Promise(identity)
        voted, left = self._voted - earlier.votes, (plan.n_queries or 0) - (self._asked - earlier.asked)
        if plan.n_queries is not None and n_queries > left:
            raise PlanExceeded(
                f"{n_queries} queries; accepted: at most the {left} that are left of n_queries = "
                f"{plan.n_queries}, for which the guarantee was fixed"
            )
        before = subtract(self.total, earlier.added)
        promise = Promise(identity, self.odometer, plan.most(n_queries), before, earlier)
        promise.cap = n_queries if plan.max_labels is None else plan.max_labels
        if plan.whole is None:
            if promise.planned is not None:
                promise.added = promise.planned
                self.total = before + promise.added
            return promise
        promise.cap -= 0 if plan.max_labels is None else voted
        if self._outside is None:
            self._outside, self.total = self.total, self.total + plan.whole
        promise.planned, promise.before = plan.whole, self._outside
        return promise

    def settle(self, promise: Promise, spent: ac.Composition, charges: Set[ChargedRelease]) -> None:
        """Count what a run asked and spent, after it ended or was interrupted."""
        # everything charged counts, also if a resumed run stopped again before it reached its earlier end
        promise.spent, promise.charges = spent, frozenset(charges)
        promise.asked = max([promise.asked, *(query + 1 for query, _ in charges)])
        promise.votes = sum(release == "vote" for _, release in charges)
        earlier = promise.earlier or Promise()
        self._asked += promise.asked - earlier.asked
        self._voted += promise.votes - earlier.votes
        if promise.planned is None:
            promise.added, self.odometer = spent, True
            self.total = subtract(self.total, earlier.added) + spent
        promise.earlier = None
        if promise.identity is not None:
            self._parts[promise.identity] = promise


def subtract(run: ac.Composition, part: ac.Composition) -> ac.Composition:
    """A composition less a part of it."""
    counts = part.entries
    return ac.Composition((event, count - counts.get(event, 0)) for event, count in run)
