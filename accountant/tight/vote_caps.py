"""Votes that were cast, one by one: bounds where losses hardly ever exceed one that is far below the largest.

Little noise beside clear votes has losses of a million with a probability that no float tells; nearly all others are
those of one label. Rényi curves see the first, and grids are sized by these (notebooks/mathematics.md, Data-dependent
costs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from accountant.events.vote_pairs import Pairs
from accountant.events.votes_seen import SeenVotes
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import fits, spend

__all__ = ["cap_delta", "cap_delta_beside", "cap_epsilon", "cap_epsilon_beside"]

VoteKinds = tuple[tuple[SeenVotes, int], ...]

Price = Callable[[float], float]

SHARE = 1e-3
"""Of a delta, that a larger loss of any vote may take beside other releases."""

POINTS = 32
"""Probabilities of a larger loss that are tried at once."""

ROUNDS = 4
"""Times that they are chosen anew, around the best so far."""

HALVINGS = 64
"""Of a range of losses."""

OPERATIONS = 20.0
"""Of a term of a profile."""

WEIGHTS = 2.0 ** np.arange(0.0, 21.0, 2.0)
"""How much more it counts, where labels of a test are chosen, that the votes that were cast have them."""

SPARE = 1e-12
"""Above what sums, logarithms and exponentials round by, relatively."""

ROUNDING = 1e-14
"""Of the logarithm of a sum of few probabilities."""


def cap_epsilon(votes: VoteKinds, delta: float) -> Interval:
    """Bounds on epsilon at a delta of a run of nothing but these votes; 0 and infinity without patience for them."""
    if not _afford(votes, 1):
        return Interval(0.0, math.inf)
    logs = math.log(delta) - math.log(_releases(votes)) - np.linspace(4 * SPARE, 64.0, POINTS)
    upper = float(np.min(_largest(votes, logs) + np.log1p(np.minimum(_lost(votes, logs) - delta, 0.0) * (1 - SPARE))))
    lower = 0.0
    for log_p, log_q in _tests(votes):
        if (gain := math.exp(log_p) * (1 - SPARE) - delta) > 0.0:
            lower = max(lower, math.log(gain) - log_q - SPARE * (1 + abs(math.log(gain))))
    return Interval(lower, max(upper, lower))


def cap_delta(votes: VoteKinds, epsilon: float) -> Interval:
    """Bounds on delta at an epsilon of a run of nothing but these votes; 0 and 1 without patience for them."""
    if not _afford(votes, ROUNDS):
        return Interval(0.0, 1.0)
    most, least = -math.log(_releases(votes)), -690.0
    upper = 1.0
    for _ in range(ROUNDS):
        logs = np.linspace(least, most, POINTS)
        found = _lost(votes, logs) - np.expm1(np.minimum(epsilon - _largest(votes, logs), 0.0)) * (1 + SPARE)
        upper, best = min(upper, float(found.min())), int(found.argmin())
        least, most = float(logs[max(best - 1, 0)]), float(logs[min(best + 1, POINTS - 1)])
    tests = (math.exp(p) * (1 - SPARE) - math.exp(min(epsilon + q, 1.0)) * (1 + SPARE) for p, q in _tests(votes))
    return Interval(max(0.0, *tests), upper)


def cap_epsilon_beside(votes: VoteKinds, delta: float, above: Price, below: Price) -> Interval:
    """The same beside other releases, whose epsilon at a delta is bounded by `above` and `below`."""
    if not _afford(votes, 1):
        return Interval(0.0, math.inf)
    logs = np.full(1, math.log(SHARE * delta) - math.log(_releases(votes)))
    upper = float(_largest(votes, logs)[0]) + above(delta - float(_lost(votes, logs)[0]))
    likely = [(log_p, log_q) for log_p, log_q in _tests(votes) if log_p > math.log(2 * delta)]
    lower = 0.0
    for log_p, log_q in sorted(likely, key=lambda test: test[0] - test[1])[-1:]:
        gain = log_p - log_q - SPARE * (abs(log_p) + abs(log_q))
        lower = max(gain + below(delta / math.exp(log_p) * (1 + SPARE)), 0.0)
    return Interval(lower * (1 - SPARE), upper * (1 + SPARE))


def cap_delta_beside(votes: VoteKinds, epsilon: float, known: float, above: Price, below: Price) -> Interval:
    """The same of a delta that is at most `known`."""
    upper = known
    for _ in range(ROUNDS):
        before = upper
        if before == 0.0 or not _afford(votes, 1):
            break
        logs = np.full(1, math.log(SHARE) + math.log(before) - math.log(_releases(votes)))
        left = epsilon - float(_largest(votes, logs)[0])
        upper = min(before, (float(_lost(votes, logs)[0]) + _at_any(left - SPARE * abs(left), above)) * (1 + SPARE))
        if upper > before / 2:
            break
    log_p, log_q = max(_tests(votes), key=lambda test: test[0] - max(epsilon + test[1] - test[0], 0.0))
    left = epsilon + log_q - log_p
    left += SPARE * (abs(left) + epsilon)
    lower = max(-math.expm1(min(left, 0.0)), below(max(left, 0.0))) * math.exp(log_p) * (1 - SPARE)
    return Interval(lower, upper)


def _at_any(epsilon: float, above: Price) -> float:
    """The same bound on a profile at an epsilon that may be below 0: 1 - e^epsilon + e^epsilon H(-epsilon)."""
    if epsilon >= 0.0:
        return above(epsilon)
    return -math.expm1(epsilon) * (1 + SPARE) + math.exp(epsilon) * above(-epsilon)


def _releases(votes: VoteKinds) -> int:
    return sum(count for _, count in votes)


def _afford(votes: VoteKinds, rounds: int) -> bool:
    """Spend what `rounds` of losses take, if there is patience for it."""
    work = rounds * OPERATIONS * POINTS * HALVINGS * sum(event._pairs().losses[0].size for event, _ in votes)
    if not fits(work):
        return False
    spend(work, "votes that were cast, one by one")
    return True


def _lost(votes: VoteKinds, logs: FloatArray) -> FloatArray:
    """The probability of a larger loss of any vote, rounded up."""
    lost: FloatArray = _releases(votes) * np.exp(logs) * (1 + SPARE)
    return lost


def _largest(votes: VoteKinds, logs: FloatArray) -> FloatArray:
    """What all votes lose together at most, but for such probabilities of each: sums of the epsilons of one."""
    total = np.zeros(logs.size)
    for event, count in votes:
        pairs = event._pairs()
        cast = Pairs(*(part[:1] for part in pairs))
        low, high = np.zeros(logs.size), np.full(logs.size, pairs.largest_losses()[0])
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            enough = cast.log_heights(middle, 1)[0].max(axis=0) <= logs
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        total += count * high
    return total * (1 + SPARE)


def _tests(votes: VoteKinds) -> Iterator[tuple[float, float]]:
    """Logs of the probabilities that every vote has one of some labels: with the votes that were cast, of neighbours.

    The first are rounded down, the second up.
    """
    choices = [_label_sets(event) for event, _ in votes]
    for weight in WEIGHTS.tolist():
        log_p = log_q = 0.0
        for (_, count), (with_p, with_q) in zip(votes, choices, strict=True):
            best = int(np.argmax(weight * with_p - with_q))
            log_p, log_q = log_p + count * float(with_p[best]), log_q + count * float(with_q[best])
        yield log_p - SPARE * abs(log_p), log_q + SPARE * abs(log_q)


def _label_sets(event: SeenVotes) -> tuple[FloatArray, FloatArray]:
    """The same of the labels with the largest losses, one and two and so on, of every neighbour."""
    pairs = event._pairs()
    order = np.argsort(-pairs.losses[0], axis=1, kind="stable")
    found = []
    for way, sign in ((0, -1), (1, 1)):
        logs = np.take_along_axis(pairs.log_masses[way] + sign * pairs.mass_errors[way], order, axis=1)
        with np.errstate(under="ignore", invalid="ignore"):
            sums = np.logaddexp.accumulate(logs, axis=1).ravel()
        found.append(sums + sign * ROUNDING * (1 + np.abs(np.where(np.isfinite(sums), sums, 0.0))))
    some = np.isfinite(found[0]) & np.isfinite(found[1])
    return np.minimum(found[0][some], 0.0), np.minimum(found[1][some], 0.0)
