"""Fills README's figures: whatever stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.

NAME is one of `TABLES`, or a single figure, ``bench: PATH | FORMAT``, whose end is ``<!-- end bench -->``. Prices are
computed here and now; what was measured is taken from accepted.json, which `make bench` writes. ``PATH`` is a place
as compare.py prints it, beginning with the benchmark's name; ``FORMAT`` is Python's. `--check` changes nothing and
says what is out of date. `--list PREFIX` prints the places that begin so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import accountant as ac

sys.path.insert(0, str(Path(__file__).parent))

from compare import ACCEPTED, leaves
from tight_intervals import RUNS

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"<!-- begin (?P<name>[^>]+?) -->(?P<body>.*?)<!-- end (?P<last>[^>]+?) -->", re.DOTALL)


class Unknown(LookupError):
    """A marker that names nothing; the message says where."""


def accepted() -> dict[str, Any]:
    """Figures of the last accepted run of all benchmarks."""
    figures: dict[str, Any] = json.loads(ACCEPTED.read_text("utf-8")) if ACCEPTED.exists() else {}
    return figures


def measured(name: str) -> Any:
    """One benchmark's accepted figures."""
    try:
        return accepted()[name]
    except KeyError:
        raise Unknown(f"accepted.json has no figures of {name}: run `make bench` and accept them") from None


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: list[float]) -> str:
    """Mean and standard deviation, in percent."""
    deviation = f" ± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{deviation}"


# --- tables --------------------------------------------------------------------------------------------


def plan_price() -> str:
    """What the first plan in README costs, by both routes."""
    text = re.findall(r"```toml\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(text, "utf-8")
        plan = ac.load_plan(path)
    assert plan.delta is not None
    return f"    {ac.epsilon(plan.composition, plan.delta)}"


def tight_table() -> str:
    """Runs on the Rényi route, computed now, and on the tight one as it was measured with its time."""
    figures = measured("tight_intervals")
    rows = []
    for name, (run, delta, _) in RUNS.items():
        if name in figures:
            ours = figures[name]["ours"]
            interval = f"{_down(ours['lower'])} to {_up(ours['upper'])}"
            rows.append((name, f"{delta:g}", _up(ac.epsilon(run, delta).epsilon), interval, f"{ours['seconds']:.2g}"))
    return table(("run", "delta", "Rényi, improved", "tight", "seconds"), rows)


def _up(value: float) -> str:
    from accountant.guarantee import rounded_up

    return rounded_up(value, 5)


def _down(value: float) -> str:
    from accountant.guarantee import rounded_down

    return rounded_down(value, 5)


def digits_table() -> str:
    figures = measured("digits_accuracy")
    epsilons = list(next(iter(figures.values())))
    rows = [
        (name, *(f"{100 * each['mean']:.1f} ± {100 * each['deviation']:.1f}" for each in row.values()))
        for name, row in figures.items()
    ]
    return table(("mechanism", *(f"epsilon {epsilon}" for epsilon in epsilons)), rows)


def nonprivate_digits() -> str:
    return f"{100 * next(iter(measured('digits_accuracy')['Private-kNN'].values()))['nonprivate']:.1f}"


def reverse_loss() -> str:
    """Points that noise costs reverse k-NN at epsilon 1, rounded up."""
    row = measured("digits_accuracy")["Reverse k-NN, central"]["1"]
    return f"{max(np.ceil(1000 * (row['noiseless'] - row['mean'])) / 10, 0.0):.1f}"


def durable_cost() -> str:
    """What durable budgets add to the time of a query in batches, in percent."""
    rows = {row["contender"]: row["ms_per_query"] for row in measured("individual_knn_query_time")["results"]}
    return f"{100 * (rows['ours, batches, durable'] / rows['ours, batches'] - 1):.0f}"


def gdp_gain() -> str:
    """By how much the GDP filter's budget is larger than the Rényi filter's on the made set, in percent."""
    gdp, renyi = (ac.IndividualFilter.budget_for(1.0, 1e-6, name) for name in ("gdp", "renyi"))
    return f"{100 * (gdp / renyi - 1):.0f}"


def queries_table(data: str, kind: str) -> Callable[[], str]:
    def made() -> str:
        rows = measured("accuracy_by_queries")[data][kind]
        counts = list(next(iter(rows.values())))
        return table(("queries", *counts), ((name, *map(spread, row.values())) for name, row in rows.items()))

    return made


def reference_accuracy() -> str:
    """Largest relative error over the reference tables."""
    sys.path.insert(0, str(README.parent))
    from tests.reference.events import MAKE, load

    entries = [entry for table in ("public", "hard") for entry in load(table)["renyi"]]
    pairs = [(float(MAKE[e["event"]](e).renyi(float(e["order"]))), float(e["renyi"])) for e in entries]
    worst = max(abs(value - true) / abs(true) if true else abs(value) for value, true in pairs)
    return f"{len(entries)} values; largest relative error {worst:.0e}"


TABLES: dict[str, Callable[[], str]] = {
    "plan-price": plan_price,
    "tight-table": tight_table,
    "digits-table": digits_table,
    "nonprivate-digits": nonprivate_digits,
    "reverse-loss": reverse_loss,
    "durable-cost": durable_cost,
    "gdp-gain": gdp_gain,
    "queries-digits": queries_table("digits", "accuracy"),
    "queries-made": queries_table("made", "accuracy"),
    "retired-digits": queries_table("digits", "retired"),
    "retired-made": queries_table("made", "retired"),
    "reference-accuracy": reference_accuracy,
}


# --- filling -------------------------------------------------------------------------------------------


def figure(place: str, form: str) -> str:
    """One accepted figure."""
    known = dict(leaves(accepted()))
    if place not in known:
        raise Unknown(f"no accepted figure at {place!r}; --list prints those that there are")
    return format(known[place], form)


def made(name: str) -> str:
    """What belongs between the markers of that name."""
    if name.startswith("bench:"):
        place, bar, form = name.removeprefix("bench:").rpartition("|")
        if not bar:
            raise Unknown(f"<!-- begin {name} -->; accepted: bench: PATH | FORMAT")
        return figure(place.strip(), form.strip())
    if name not in TABLES:
        raise Unknown(f"<!-- begin {name} -->; accepted: {', '.join(TABLES)}, or bench: PATH | FORMAT")
    return TABLES[name]()


def filled(text: str) -> str:
    """The text with every block made anew; one that began with a new line stands between empty lines."""

    def fill(found: re.Match[str]) -> str:
        name, last = found["name"], found["last"]
        if last != ("bench" if name.startswith("bench:") else name):
            raise Unknown(f"<!-- begin {name} --> is ended by <!-- end {last} -->")
        edge = "\n\n" if found["body"].startswith("\n") else ""
        return f"<!-- begin {name} -->{edge}{made(name)}{edge}<!-- end {last} -->"

    if len(re.findall("<!-- (?:begin|end) ", text)) != 2 * len(BLOCK.findall(text)):
        raise Unknown("a begin or an end without the other")
    return BLOCK.sub(fill, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if README is out of date")
    parser.add_argument("--list", metavar="PREFIX", help="print places in accepted.json")
    options = parser.parse_args()
    if options.list is not None:
        for place, value in leaves(accepted()):
            if place.startswith(options.list):
                print(f"{place}: {value:.6g}")
        return 0
    text = README.read_text("utf-8")
    try:
        new = filled(text)
    except Unknown as error:
        print(f"readme: {error}", file=sys.stderr)
        return 2
    if options.check:
        both = zip(BLOCK.finditer(text), BLOCK.finditer(new), strict=True)
        stale = [old["name"] for old, now in both if old[0] != now[0]]
        print("\n".join(f"out of date: {name}" for name in stale) or "all current")
        return int(bool(stale))
    README.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
