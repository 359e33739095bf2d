"""Which route prices every event: alone, several times, sampled, beside noise, beside another setting of itself.

``python -m tests.routes`` writes the table of notebooks/measurements/tight.md.
"""

import math
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import accountant as ac
from accountant.events.registry import event_kinds
from tests.laws.table import EVENTS

PAGE = Path(__file__).parent.parent / "notebooks" / "measurements" / "tight.md"
FIRST, LAST = "<!-- routes -->\n", "<!-- routes, last line -->"
DELTA = 1e-5

COLUMNS = "alone", "five times", "sampled", "beside Gaussian noise", "two settings"

WIDTHS = 0.01, 0.02, 0.05, 0.1, 0.2, 0.5
"""Widths of certified intervals that are told apart, relative to their upper ends; the first is what is asked for."""

OTHERWISE = {
    "random-allocation": ac.RandomAllocation(ac.Gaussian(1.0), 20),
    "shuffled-counts": ac.ShuffledCounts(10.0, 200.0, 0.9),
}
"""Settings instead of an event's first example, where that takes long or five of them have no price."""

price = cache(ac.epsilon)
"""Whether a run has a price is asked before its price is."""

BESIDE = "; beside others, one pair above all that the curve says"

REASONS = {
    "report-noisy-max": "from above a density that no pair of inputs reaches; from below few candidates, or a crowd",
    "truncated-poisson-gaussian": "from above it is told how full batches are; from below others' vectors are alike",
    "zero-concentrated-dp": f"it is defined by a Rényi curve that no known pair of distributions reaches{BESIDE}",
    "selection": f"of the best of several runs a Rényi curve is proven{BESIDE}",
    "sparse-vector": "with Gaussian noise, its second setting, a bound from above and an attack from below",
    "shuffled-epoch": "no amplification is what is proven; the lower end is an attack",
    "sampled-with-replacement": "several draws of a record have a bound from above; the lower end is an attack",
}
"""Why an event is not tight everywhere, by its name in plans."""


class Cell(NamedTuple):
    """A run, its price by the route that is taken, and the bound by Rényi orders."""

    run: ac.Composition
    price: ac.Guarantee
    bound: float

    @property
    def width(self) -> float | None:
        """Of the certified interval, relative to its upper end; None where there is none."""
        return None if self.price.lower is None else 1 - self.price.lower / self.price.epsilon

    def text(self) -> str:
        """How wide the interval is, if it is wider than asked, or that there is none."""
        if self.width is None:
            return "Rényi"
        known = [each for each in WIDTHS if self.width <= each]
        if not known:
            return "from above"
        return "tight" if known[0] == WIDTHS[0] else f"within {100 * known[0]:g} %"


def cells(name: str) -> list[Cell | None]:
    """All runs of an event; None where there is no such run."""
    event = OTHERWISE.get(name) or event_kinds()[name].examples()[0]
    gaussian = ac.Gaussian(5.0, adjacency=event.adjacency)
    runs = [1 * event, 5 * event, sampled(event), event + gaussian, with_another(event)]
    return [None if run is None else cell(run) for run in runs]


def sampled(event: ac.Event) -> ac.Composition | None:
    """A Poisson sample of it, where that has a price."""
    try:
        run = 1 * ac.PoissonSubsampled(event, 0.1)
        price(run, DELTA)
    except ac.SubsamplingError:
        return None
    return run


def with_another(event: ac.Event) -> ac.Composition | None:
    """Beside the first other setting of the table of all laws with which it has a price."""
    for other in EVENTS:
        if type(other) is type(event) and other.adjacency == event.adjacency and other != event:
            with suppress(ac.NoGuarantee):
                price(run := event + other, DELTA)
                return run
    return None


def cell(run: ac.Composition) -> Cell:
    """What a run costs by the route that is taken, and by Rényi orders."""
    bound = math.inf
    with suppress(ac.NoGuarantee):  # where the curve is infinite
        bound = price(run, DELTA, method="renyi").epsilon
    return Cell(run, price(run, DELTA), bound)


def names() -> list[str]:
    """Of all events that plans know."""
    return [name for name in event_kinds() if event_kinds()[name].__module__.startswith("accountant.")]


def row(name: str, found: list[Cell | None]) -> str:
    texts = ["-" if each is None else each.text() for each in found]
    return f"| `{event_kinds()[name].__name__}` | {' | '.join(texts)} | {REASONS.get(name, '')} |"


def lines() -> list[str]:
    """The table."""
    head = f"| event | {' | '.join(COLUMNS)} | why |"
    return [head, "|" + "---|" * (len(COLUMNS) + 2), *(row(name, cells(name)) for name in names())]


def committed() -> list[str]:
    """The table as the page has it."""
    return PAGE.read_text("utf-8").split(FIRST)[1].split(LAST)[0].strip().splitlines()


if __name__ == "__main__":
    before, after = PAGE.read_text("utf-8").split(FIRST)[0], PAGE.read_text("utf-8").split(LAST)[1]
    PAGE.write_text(before + FIRST + "\n" + "\n".join(lines()) + "\n\n" + LAST + after, "utf-8")
