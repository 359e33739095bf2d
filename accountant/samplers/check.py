"""Tests of a stream of batches against a declared sampler, with the chance of any false alarm bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accountant.errors import ParameterError, integer, real, shorten
from accountant.samplers.counts import by_record, by_window, first_together, most_alike, neighbours, together
from accountant.samplers.record_rates import rates_per_record, test_rates
from accountant.samplers.stream import Stream
from accountant.samplers.tails import SamplerTest, binomial_tails, chernoff, exact, impossible, thirds

__all__ = ["SamplerCheck", "SamplerTest", "chance_of_no_repeat", "check_sampler"]


@dataclass(frozen=True)
class SamplerCheck:
    """What the tests found.

    Attributes
    ----------
    declared : str
    steps, records : int
    records_counted : bool
        False where the number of records was taken from the largest index.
    false_alarm_rate : float
    tests : tuple of SamplerTest
    """

    declared: str
    steps: int
    records: int
    records_counted: bool
    false_alarm_rate: float
    tests: tuple[SamplerTest, ...]

    @property
    def alarms(self) -> tuple[SamplerTest, ...]:
        """Tests that the declared sampler would hardly ever fail."""
        return tuple(test for test in self.tests if test.adjusted <= self.false_alarm_rate)

    @property
    def consistent(self) -> bool:
        """Whether there was no alarm. That nothing was found does not prove that the sampler is the declared one."""
        return not self.alarms

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "declared": self.declared,
            "steps": self.steps,
            "records": self.records,
            "records_counted": self.records_counted,
            "false_alarm_rate": self.false_alarm_rate,
            "consistent": self.consistent,
            "tests": [vars(test) for test in self.tests],
            "alarms": [test.name for test in self.alarms],
        }


def check_sampler(
    stream: Iterable[Any], declared: Any, *, records: int | None = None, false_alarm_rate: float = 1e-3
) -> SamplerCheck:
    """Test whether the batches of a run were drawn as declared.

    Batches are counted in ways whose distribution is known if the declared sampler ran; each count has an exact
    binomial tail or, where records depend on each other negatively (samples of fixed size), Chernoff's bound, which
    still holds (Joag-Dev & Proschan 1983). Over all tests together the chance of a false alarm is at most
    `false_alarm_rate`. What no list of indices shows, such as the noise or what sums are divided by, is not tested.

    Parameters
    ----------
    stream : iterable of sequences of int
        The indices of the records in every step, in order; any iterable of lists or arrays, such as a batch sampler.
    declared : str, or array of rates
        ``poisson:RATE`` (a number, or BATCH/RECORDS): every record joins every step independently;
        ``poisson:@FILE``, or an array, one rate for each record in the order of the indices: the same at rates of their
        own (a file of numbers with spaces, commas or line ends between them, or ``.npy``);
        ``fixed:BATCH``: every step draws so many distinct records anew; ``with-replacement:BATCH``: so many draws with
        replacement; ``shuffled:BATCH``: every epoch is a new random order, cut into batches; ``allocation:STEPS`` or
        ``allocation:STEPS:SELECTED``: every record is in so many random steps of every STEPS.
    records : int, optional
        Number of records; default: one more than the largest index seen.
    false_alarm_rate : float
        In (0, 1).

    Returns
    -------
    SamplerCheck

    Raises
    ------
    ParameterError
        `declared` is of another form, a value is out of range, or the stream is empty.
    """
    level = real("false_alarm_rate", false_alarm_rate, 0.0, 1.0, open_low=True, open_high=True)
    rates = rates_per_record(declared, records)
    if rates is not None:
        seen = Stream(stream, rates.size)
        tests = test_rates(seen, rates)
        declared = declared if isinstance(declared, str) else "poisson with a rate for each record"
    else:
        kind, arguments = _read_declaration(declared)
        seen = Stream(stream, records)
        tests = KINDS[kind][1](seen, *arguments)
    order = sorted(range(len(tests)), key=lambda i: tests[i].p)
    adjusted, largest = [0.0] * len(tests), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(tests) - rank) * tests[i].p))
        adjusted[i] = largest
    final = tuple(SamplerTest(t.name, t.found, t.expected, t.p, a) for t, a in zip(tests, adjusted, strict=True))
    return SamplerCheck(declared, seen.length, seen.records, seen.counted, level, final)


def _read_declaration(text: object) -> tuple[str, list[Any]]:
    """The kind of a sampler and its numbers."""
    accepted = "accepted: " + ", ".join(form for form, _ in KINDS.values())
    kind, *parts = text.split(":") if isinstance(text, str) else [""]
    forms = KINDS.get(kind)
    fewest, most = (1, 2) if kind == "allocation" else (1, 1)
    if forms is None or not fewest <= len(parts) <= most:
        raise ParameterError(f"declared = {shorten(text)}; {accepted}")
    try:
        numbers = [float(Fraction(part)) if kind == "poisson" else int(part) for part in parts]
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError(f"declared = {shorten(text)}; {accepted}") from None
    if kind == "poisson":
        return kind, [real("rate", numbers[0], 0.0, 1.0, open_low=True, open_high=True)]
    return kind, [integer("number", number, 1, 10**12) for number in numbers]


ALIKE = "records in the two most alike steps of two epochs"


# --- samplers -------------------------------------------------------------------------------------------------


def _test_poisson(seen: Stream, rate: float) -> list[SamplerTest]:
    records, length = seen.records, seen.length
    counts, unmet = by_record(seen)
    tests = [
        impossible("a record twice in one batch", seen.repeats),
        exact("participations", seen.indices.size, length * records, rate),
        *thirds("batches by size", np.bincount(seen.steps, minlength=length), records, rate),
        *thirds("records by participations", counts, length, rate, unmet),
    ]
    window = min(max(2, round(1 / rate)), length)
    never, once, total = by_window(seen, window)
    span = f"within {window} steps"
    tests.append(exact(f"records never met {span}", never, total, math.exp(window * math.log1p(-rate))))
    single = window * rate * math.exp((window - 1) * math.log1p(-rate))
    tests.append(exact(f"records met once {span}", once, total, single))
    for lag in sorted({1, window}):
        found, pairs = together(seen, lag)
        if pairs:
            tests.append(exact(f"records in two steps {lag} apart", found, pairs * records, rate * rate))
    found, chances = neighbours(seen)
    if chances:
        tests.append(exact("neighbours by index in one batch", found, chances, rate * rate))
    return tests


def _test_fixed(seen: Stream, batch: int) -> list[SamplerTest]:
    if batch > seen.records:
        raise ParameterError(f"declared = fixed:{batch}; accepted: batches of at most {seen.records}, the records")
    rate = batch / seen.records
    tests = [
        impossible("batches of another size", int((seen.sizes != batch).sum())),
        impossible("a record twice in one batch", seen.repeats),
        _extremes("participations of a record", seen, seen.length, rate),
    ]
    return [*tests, *_unseen(seen, rate, 1 - rate), *_apart(seen, rate, batch)]


def chance_of_no_repeat(batch: int, records: int) -> float:
    """That so many draws with replacement are of different records; of less than 1e-300 that much or less."""
    chance = 1.0
    for i in range(min(batch, records + 1)):
        chance *= 1 - i / records
        if chance < 1e-300:  # after 40 times the root of the records, about; subnormal products stay as they are
            break
    return chance


def _test_with_replacement(seen: Stream, batch: int) -> list[SamplerTest]:
    missed = math.exp(batch * math.log1p(-1 / seen.records)) if seen.records > 1 else 0.0
    distinct = chernoff(
        "records not in a batch", seen.length * seen.records - seen.indices.size, seen.length * seen.records, missed
    )
    unrepeated = int((np.bincount(seen.steps, minlength=seen.length) == seen.sizes).sum())
    alone = chance_of_no_repeat(batch, seen.records)
    tests = [
        impossible("batches of another size", int((seen.sizes != batch).sum())),
        distinct,
        exact("batches without a repeat", unrepeated, seen.length, alone),
        _extremes("batches with a record", seen, seen.length, 1 - missed),
    ]
    return [*tests, *_unseen(seen, 1 - missed, missed)]


def _test_shuffled(seen: Stream, batch: int) -> list[SamplerTest]:
    if batch > seen.records:
        raise ParameterError(f"declared = shuffled:{batch}; accepted: batches of at most {seen.records}, the records")
    # the last batch of an epoch may be smaller, or left out: whichever the sizes say
    ragged = seen.records % batch
    epoch = seen.records // batch + int(ragged > 0 and bool((seen.sizes == ragged).any()))
    place = np.arange(seen.length) % epoch
    expected = np.where((place == epoch - 1) & (epoch * batch > seen.records), ragged, batch)
    keys = seen.steps // epoch * seen.records + seen.indices
    tests = [
        impossible("batches of another size", int((seen.sizes != expected).sum())),
        impossible("a record twice in one epoch", seen.repeats + int(keys.size - np.unique(keys).size)),
    ]
    both, pairs = first_together(seen, epoch)
    if pairs and int(seen.sizes[::epoch].max()) <= batch:
        tests.append(chernoff("records in two first batches", both, pairs * batch, batch / seen.records))
    if int(seen.sizes.max()) <= batch:
        # hypergeometric overlaps, no more spread than binomial ones (Hoeffding 1963), and least likely of full batches
        tests += _overlap(seen, epoch, lambda most: chernoff(ALIKE, most, batch, batch / seen.records))
    return tests


def _test_allocation(seen: Stream, length: int, selected: int = 1) -> list[SamplerTest]:
    if selected > length:
        raise ParameterError(f"declared = allocation:{length}:{selected}; accepted: at most {length} of {length} steps")
    whole = seen.length // length
    inside = seen.steps < whole * length
    keys = seen.steps[inside] // length * seen.records + seen.indices[inside]
    _, counts = np.unique(keys, return_counts=True)
    wrong = whole * seen.records - int((counts == selected).sum())
    after = seen.steps[~inside] // length * seen.records + seen.indices[~inside]
    _, more = np.unique(after, return_counts=True)
    rate = selected / length
    tests = [
        impossible("a record twice in one batch", seen.repeats),
        impossible(f"records not in {selected} of {length} steps", wrong + int((more > selected).sum())),
    ]
    first = np.bincount(seen.steps, minlength=seen.length)[::length]
    tests.append(exact("participations in first steps", int(first.sum()), first.size * seen.records, rate))
    tests += thirds("first batches by size", first, seen.records, rate)
    both, pairs = first_together(seen, length)
    if pairs:
        tests.append(exact("records in two first steps", both, pairs * seen.records, rate * rate))
    tests += _overlap(seen, length, lambda most: exact(ALIKE, most, seen.records, rate * rate))
    sizes = np.bincount(seen.steps[inside], minlength=whole * length)
    if whole:
        tests.append(_largest("size of a batch", sizes, seen.records, rate))
    return tests


def _overlap(seen: Stream, length: int, test: Callable[[int], SamplerTest]) -> list[SamplerTest]:
    """Of the two steps of two epochs that have the most records in common: the sum of the chances of all."""
    most, pairs = most_alike(seen, length)
    if not pairs:
        return []
    one = test(most)
    return [replace(one, p=min(1.0, pairs * one.p) if most > one.expected else 1.0)]


def _extremes(name: str, seen: Stream, trials: int, share: float) -> SamplerTest:
    counts, unmet = by_record(seen)
    return _largest(name, counts, trials, share, unmet)


def _largest(name: str, counts: NDArray[Any], trials: int, share: float, zeros: int = 0) -> SamplerTest:
    """The most unlikely of binomial counts, and of so many that are 0, which may depend on each other.

    Its chance is at most the sum of the chances of all.
    """
    ends = [0 if zeros else int(counts.min()), int(counts.max(initial=0))]
    tails = binomial_tails(ends[0], trials, share)[0], binomial_tails(ends[1], trials, share)[1]
    worst = 0 if tails[0] < tails[1] else 1
    return SamplerTest(
        f"most unlikely {name}", ends[worst], trials * share, min(1.0, 2 * (counts.size + zeros) * min(tails))
    )


def _unseen(seen: Stream, rate: float, missed: float) -> list[SamplerTest]:
    """Records that are not met within a window of about an epoch: negatively associated indicators."""
    window = min(max(2, round(1 / rate)), seen.length)
    never, _, total = by_window(seen, window)
    return [chernoff(f"records never met within {window} steps", never, total, missed**window)]


def _apart(seen: Stream, rate: float, batch: int) -> list[SamplerTest]:
    """Records in two steps: hypergeometric counts, no more spread than binomial ones (Hoeffding 1963)."""
    tests = []
    for lag in sorted({1, max(1, round(1 / rate))}):
        found, pairs = together(seen, lag)
        if pairs and int(seen.sizes.max()) <= batch:
            tests.append(chernoff(f"records in two steps {lag} apart", found, pairs * batch, rate))
    return tests


KINDS: dict[str, tuple[str, Callable[..., list[SamplerTest]]]] = {
    "poisson": ("poisson:RATE or poisson:@FILE", _test_poisson),
    "fixed": ("fixed:BATCH", _test_fixed),
    "with-replacement": ("with-replacement:BATCH", _test_with_replacement),
    "shuffled": ("shuffled:BATCH", _test_shuffled),
    "allocation": ("allocation:STEPS or allocation:STEPS:SELECTED", _test_allocation),
}
"""Samplers by name: how each is declared, and its tests."""
