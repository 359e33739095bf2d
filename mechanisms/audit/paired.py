"""Audits by many runs on two neighbouring data sets (`audit`)."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import betainccinv, betaincinv

import accountant as ac
from mechanisms.arrays import Floats
from mechanisms.audit.bound import LowerBound, check_mechanism, generator_of
from mechanisms.validation import check_real

__all__ = ["Audit", "Outcomes", "Tail", "audit"]

CUTS = 512
"""Most sets of outputs tried for each score; their sizes grow geometrically."""


class _Sample(NamedTuple):
    """Outputs of several runs, as dictionary keys and, if all are real numbers, as an array."""

    keys: list[Hashable]
    values: Floats | None


@dataclass(frozen=True)
class Outcomes:
    """The listed outputs or, if `complement`, all others; an array is listed as (shape, dtype, bytes)."""

    listed: frozenset[Hashable]
    complement: bool = False

    def __contains__(self, output: object) -> bool:
        return (_key(output) in self.listed) != self.complement

    def _count_hits(self, sample: _Sample) -> int:
        return sum((key in self.listed) != self.complement for key in sample.keys)

    def __str__(self) -> str:
        text = ", ".join(sorted(map(ac.shorten, self.listed))[:4]) + (", ..." if len(self.listed) > 4 else "")
        return f"output {'not ' if self.complement else ''}in {{{text}}}"


@dataclass(frozen=True)
class Tail:
    """The numbers at or above (`upper`), or at or below, a threshold."""

    threshold: float
    upper: bool

    def __contains__(self, output: float) -> bool:
        return output >= self.threshold if self.upper else output <= self.threshold

    def _count_hits(self, sample: _Sample) -> int:
        assert sample.values is not None
        inside = sample.values >= self.threshold if self.upper else sample.values <= self.threshold
        return int(np.count_nonzero(inside))

    def __str__(self) -> str:
        return f"output {'>=' if self.upper else '<='} {self.threshold:.6g}"


@dataclass(frozen=True)
class Audit(LowerBound):
    """A lower bound on epsilon and the evidence for it; ``float(audit)`` is the bound.

    Attributes
    ----------
    epsilon_lower : float
        With probability at least `confidence` over the runs, no (epsilon, delta)-DP guarantee below it is true.
    event : Outcomes or Tail
        The set of outputs (of scores, if a score was given) that gave the bound.
    counts : (int, int)
        How often an output was in that set, on each data set, among the held-out runs.
    direction : (int, int)
        (0, 1) if the set was chosen as likelier on the first data set, (1, 0) if on the second.
    held_out, runs : int
        Runs on each data set that were kept for the bound, and all runs on each.
    delta, confidence : float
    """

    epsilon_lower: float
    event: Outcomes | Tail
    counts: tuple[int, int]
    direction: tuple[int, int]
    held_out: int
    runs: int
    delta: float
    confidence: float

    def _describe_evidence(self) -> str:
        return f"{self.event}: {self.counts[0]} against {self.counts[1]} of {self.held_out} runs"


def audit(
    mechanism: Callable[..., Any],
    *,
    neighbours: tuple[Any, Any],
    runs: int,
    delta: float,
    confidence: float = 0.999,
    score: Callable[[Any], Any] | None = None,
    batched: bool = False,
    rng: np.random.Generator | int | None = None,
) -> Audit:
    """Lower confidence bound on the epsilon of a mechanism at a given delta.

    A bound above the promised epsilon proves that the promise is broken; a bound below it proves nothing.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng) -> output``; its runs must be independent. An output is a number, an array, anything
        hashable, or a tuple or list of these. Outputs are compared with ``==``, arrays byte by byte.
    neighbours : pair
        Two neighbouring data sets. The bound is for this pair, so the worst pair shows most.
    runs : int
        Runs on each data set, in [8, 1e9]. The bound cannot exceed ``log(runs / 17)`` at the default confidence.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1).
    score : callable, optional
        ``score(output) -> float``, which should differ on the two data sets. Needed for outputs that seldom repeat and
        are no numbers. The most powerful score is a log likelihood ratio: `mechanisms.audit.likelihood` computes it
        from what is promised.
    batched : bool
        For speed: ``mechanism(data, rng, runs)`` returns all outputs at once, as an array (runs along its first axis),
        list or tuple. `score` then takes all of them and returns one number for each run, which must depend on that
        run alone; ranks among all runs, for example, would make the held-out runs depend on the others.
    rng : Generator, int or None
        None for system entropy.

    Raises
    ------
    ParameterError
        A value is out of range, or an output cannot be compared.

    Notes
    -----
    Let P and Q be the distributions of the output on the two data sets. The first half of the runs chooses, for each
    direction, a set S of outputs: its first quarter estimates the likelihood ratio of every output, its second quarter
    the largest bound that S = {ratio >= c} or, for numbers, a tail would give (Ding et al. 2018 separate selection from
    testing in this way). The other half is held out and gives ``epsilon >= log((p_low - delta) / q_high)``, clipped at
    0 (Jagielski, Ullman & Oprea 2020), where p_low <= P(S) and Q(S) <= q_high are confidence bounds.

    Validity (notebooks/mathematics.md, Audits). Given the first half, S is fixed, and its counts in the n held-out runs
    are Binomial(n, P(S)) and Binomial(n, Q(S)). Each exact bound p_low, q_high (Clopper & Pearson 1934) fails with
    probability at most (1 - confidence)/4. There are four, two in each direction, so all hold with probability at least
    `confidence` (union bound), and (epsilon, delta)-DP then gives, in both directions,
    ``p_low <= P(S) <= e^epsilon Q(S) + delta <= e^epsilon q_high + delta``.

    With a score, S is the set of outputs whose score is in the chosen set of numbers, which is also fixed by the first
    half. A score that is wrong, or made for another mechanism, may cost power; it cannot make the bound wrong.
    """
    check_mechanism(mechanism, "data", "rng", *(("runs",) if batched else ()))
    if score is not None and not callable(score):
        raise ac.ParameterError(f"score = {ac.shorten(score)}; accepted: a callable or None")
    if not isinstance(neighbours, (tuple, list)) or len(neighbours) != 2:
        raise ac.ParameterError(f"neighbours = {ac.shorten(neighbours)}; accepted: a pair (data, neighbouring data)")
    runs = int(check_real("runs", runs, "an integer in [8, 1e9]", lambda n: 8 <= n <= 1e9 and n == int(n)))
    delta = check_real("delta", delta, "[0, 1)", lambda value: 0 <= value < 1)
    confidence = check_real("confidence", confidence, "(0, 1)", lambda value: 0 < value < 1)
    generator = generator_of(rng)

    halves = [_split(_run(mechanism, data, runs, generator, score, batched), generator) for data in neighbours]
    ranking, choosing, held_out = zip(*halves, strict=True)
    kept = len(held_out[0].keys)
    alpha = (1 - confidence) / 4
    audits = []
    for likely, other in ((0, 1), (1, 0)):
        event = _choose_set(ranking[likely], ranking[other], choosing[likely], choosing[other], alpha, delta)
        counts = event._count_hits(held_out[0]), event._count_hits(held_out[1])
        bound = float(log_ratio(counts[likely], counts[other], kept, alpha, delta))
        audits.append(Audit(max(bound, 0.0), event, counts, (likely, other), kept, runs, delta, confidence))
    return max(audits, key=float)


def log_ratio(likely: Any, other: Any, runs: int, alpha: float, delta: float) -> Floats:
    """log((p_low - delta) / q_high), not clipped, from counts of hits (Clopper & Pearson 1934)."""
    hits, missed = np.maximum(likely, 1), np.maximum(runs - other, 1)
    low = np.where(likely > 0, betaincinv(hits, runs - hits + 1, alpha), 0.0)
    high = np.where(other < runs, betainccinv(runs - missed + 1, missed, alpha), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def _choose_set(
    rank_likely: _Sample, rank_other: _Sample, likely: _Sample, other: _Sample, alpha: float, delta: float
) -> Outcomes | Tail:
    """The set with the largest bound on (likely, other); the first two samples rank the outputs."""
    seen_likely, seen_other = Counter(rank_likely.keys), Counter(rank_other.keys)
    # add one to each count: an output that was never seen has ratio 1, and no ratio is infinite
    ratios = {key: (seen_likely[key] + 1) / (seen_other[key] + 1) for key in seen_likely | seen_other}
    ranks = [np.array([ratios.get(key, 1.0) for key in sample.keys]) for sample in (likely, other)]
    largest, cut = _find_cut(ranks[0], ranks[1], alpha, delta)
    unseen = cut <= 1.0
    best: Outcomes | Tail = Outcomes(frozenset(key for key in ratios if (ratios[key] >= cut) != unseen), unseen)
    if likely.values is not None and other.values is not None:
        for sign in (1, -1):
            bound, cut = _find_cut(sign * likely.values, sign * other.values, alpha, delta)
            if bound > largest:
                largest, best = bound, Tail(sign * cut, sign > 0)
    return best


def _find_cut(likely: Floats, other: Floats, alpha: float, delta: float) -> tuple[float, float]:
    """The largest bound of a set {score >= cut}, and that cut."""
    pooled = np.sort(np.concatenate([likely, other]))[::-1]
    cuts = np.unique(pooled[np.geomspace(1, len(pooled), CUTS).astype(int) - 1])
    hits = [len(scores) - np.searchsorted(np.sort(scores), cuts) for scores in (likely, other)]
    bounds = log_ratio(hits[0], hits[1], len(likely), alpha, delta)
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(cuts[best])


def _run(
    mechanism: Callable[..., Any],
    data: Any,
    runs: int,
    generator: np.random.Generator,
    score: Callable[[Any], Any] | None,
    batched: bool,
) -> _Sample:
    """Run the mechanism on one data set; outputs or their scores."""
    if batched:
        outputs = _check_batch("mechanism", mechanism(data, generator, runs), runs, score is not None)
        outputs = outputs if score is None else _check_batch("score", score(outputs), runs)
    else:
        outputs = [mechanism(data, generator) for _ in range(runs)]
        outputs = outputs if score is None else [score(output) for output in outputs]
    values = _values(outputs)
    if score is not None and values is None:
        raise ac.ParameterError("score returned nan or no number; accepted: real numbers")
    return _Sample([_key(output) for output in outputs], values)


def _check_batch(name: str, outputs: Any, runs: int, as_is: bool = False) -> Any:
    """The result of a batched callable, as a list with one entry for each run, or unchanged if `as_is`."""
    sized = isinstance(outputs, (list, tuple)) or (isinstance(outputs, np.ndarray) and outputs.ndim > 0)
    if not sized or len(outputs) != runs:
        got = f"{len(outputs)} entries" if sized else ac.shorten(outputs)
        raise ac.ParameterError(f"{name} returned {got}; accepted: an array, list or tuple of {runs}, one per run")
    if as_is:
        return outputs
    return outputs.tolist() if isinstance(outputs, np.ndarray) and outputs.ndim == 1 else list(outputs)


def _split(sample: _Sample, generator: np.random.Generator) -> list[_Sample]:
    """A quarter, a quarter and a half of the runs, shuffled, since a batch may be in any order."""
    runs = len(sample.keys)
    parts = np.split(generator.permutation(runs), [runs // 4, runs // 2])
    keys, values = sample
    return [_Sample([keys[run] for run in part], None if values is None else values[part]) for part in parts]


def _values(outputs: list[Any]) -> Floats | None:
    """Outputs as floats, if all are real numbers and none is nan."""
    if not all(issubclass(kind, (numbers.Real, np.bool_)) for kind in set(map(type, outputs))):
        return None
    try:
        values = np.array(outputs, dtype=np.float64)
    except OverflowError:  # an int beyond the floats
        return None
    return None if np.isnan(values).any() else values


def _key(output: Any) -> Hashable:
    """A dictionary key, equal for equal outputs."""
    if isinstance(output, (float, np.floating)) and output != output:
        return math.nan  # always the same object: dictionaries find nan by identity only
    if isinstance(output, (tuple, list)):
        return tuple(map(_key, output))
    if hasattr(output, "__array__") and not isinstance(output, np.generic):  # also tensors and data frames
        array = np.asarray(output)
        entries = _key(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
        return array.shape, array.dtype.str, entries
    try:
        hash(output)
    except TypeError:
        raise ac.ParameterError(
            f"an output {ac.shorten(output)} is not hashable; accepted: numbers, arrays, hashable values, tuples and "
            "lists of these, or a score that maps it to a number"
        ) from None
    return cast(Hashable, output)
