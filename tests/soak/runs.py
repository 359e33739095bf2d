"""Numbered runs: which kind each is, what comes of it, and how far a soak has come."""

from __future__ import annotations

import json
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import mpmath as mp

from accountant import files
from tests.soak import cases, peers
from tests.soak.cases import DIGITS, REFUSALS, Violation, check_case
from tests.soak.walk import check_walk

DRAWS = {
    "finite": cases.draw_finite,
    "gaussians": cases.draw_gaussians,
    "one release": cases.draw_one_release,
    "bits": cases.draw_bits,
    "game": cases.draw_game,
    "mixed game": cases.draw_mixed_game,
    "auto": cases.draw_by_auto,
}

SHARES = {
    "finite": 110,
    "gaussians": 120,
    "one release": 124,
    "bits": 80,
    "game": 30,
    "mixed game": 10,
    "auto": 15,
    "peers": 1,
    "walk": 10,
}
KINDS = [kind for kind, share in SHARES.items() for _ in range(share)]
random.Random(0).shuffle(KINDS)
"""The kind of run number n is KINDS[n % 500]."""


QUICK = 1000
"""Runs before this number, which every test run checks, are asked for no narrow intervals."""


class TooSlow(Exception):
    """A run took too long."""


@dataclass
class Counts:
    """How many runs of each kind held, were refused, were slow; what did not hold; and prices that took too long."""

    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.outcomes.items()))

    def report(self) -> int:
        """Print everything; 1 where something did not hold."""
        print(f"{sum(self.outcomes.values())} runs: {self}")
        print(f"{len(self.late)} prices took longer than they may", *self.late, sep="\n")
        print(*self.violations or ["no violation"], sep="\n")
        return 1 if self.violations else 0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooSlow after so many seconds of this process's own time, however loaded the machine is."""

    def give_up(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def find_broken(kind: str, number: int, late: list[str] | None = None) -> list[str]:
    """What does not hold of a run; `late` gets prices of a walk that took too long."""
    dice = random.Random(f"{kind} {number}")
    if kind == "walk":
        return list(check_walk(dice, fine=number >= QUICK, late=[] if late is None else late))
    with mp.workdps(DIGITS):
        if kind == "peers":
            return list(peers.check_peers(dice))
        return list(check_case(DRAWS[kind](dice), dice, curve=kind == "finite", fine=number >= QUICK))


def check_numbers(numbers: Iterable[int], counts: Counts, seconds: float, only: str | None = None) -> Counts:
    """Check runs by their numbers, and add to the counts; `only`: all as runs of that kind."""
    for number in numbers:
        kind = only or KINDS[number % len(KINDS)]
        outcome, late = "held", list[str]()
        try:
            with within(seconds):
                broken = find_broken(kind, number, late)
        except REFUSALS as error:
            broken, outcome = [], f"refused ({type(error).__name__})"
        except TooSlow:
            broken, outcome = [], "slow"
            print(f"slow: {number}", file=sys.stderr, flush=True)
        except Exception as error:  # an error without a name is as bad as a wrong number
            broken = [f"{type(error).__name__}: {error}"]
        counts.late += [f"{kind} {number}: {what}" for what in late]
        counts.outcomes[f"{kind}: {'broken' if broken else outcome}"] += 1
        for what in broken:
            violation = str(Violation(kind, number, what))
            counts.violations.append(violation)
            print(violation, flush=True)
    return counts


def load_progress(path: Path | None, start: int) -> tuple[Counts, int]:
    """Counts so far and the number of the next run."""
    if path is None or not path.exists():
        return Counts(), start
    kept = json.loads(path.read_text("utf-8"))
    if kept["start"] != start:
        return Counts(), start
    return Counts(Counter(kept["outcomes"]), kept["violations"], kept.get("late", [])), kept["done"]


def save_progress(path: Path | None, counts: Counts, start: int, done: int) -> None:
    if path is not None:
        told = {"outcomes": counts.outcomes, "violations": counts.violations, "late": counts.late}
        kept = {"start": start, "done": done, **told}
        files.write_text(path, json.dumps(kept, indent=1))
