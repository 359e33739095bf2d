"""Fills the figures of README and of the documentation: all that stands between ``<!-- begin NAME -->`` and its end.

NAME is one of `TABLES`, and the end is ``<!-- end NAME -->``; or NAME is a single figure, ``bench: PATH | FORMAT``, and
the end is ``<!-- end bench -->``. Prices are computed when this script runs. What was measured is taken from
accepted.json, which `make bench` writes. ``PATH`` is a place in that file as compare.py prints it, beginning with the
benchmark's name; ``FORMAT`` is Python's. `--check` writes nothing and prints what is out of date. `--list PREFIX`
prints the places that begin with PREFIX.
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

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"<!-- begin (?P<name>[^>]+?) -->(?P<body>.*?)<!-- end (?P<last>[^>]+?) -->", re.DOTALL)


class Unknown(LookupError):
    """A marker that names nothing known, or that is not closed."""


def pages() -> list[Path]:
    """README and all pages of the documentation that hold markers."""
    texts = [README, *sorted((ROOT / "notebooks").rglob("*.md"))]
    return [path for path in texts if "<!-- begin " in path.read_text("utf-8")]


def read_accepted() -> dict[str, Any]:
    """Figures of the last accepted run of all benchmarks."""
    figures: dict[str, Any] = json.loads(ACCEPTED.read_text("utf-8")) if ACCEPTED.exists() else {}
    return figures


def figures_of(name: str) -> Any:
    """One benchmark's accepted figures."""
    try:
        return read_accepted()[name]
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
    """What the first plan in README costs."""
    text = re.findall(r"```toml\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(text, "utf-8")
        plan = ac.load_plan(path)
    assert plan.delta is not None
    return f"    {ac.epsilon(plan.composition, plan.delta)}"


def tight_table() -> str:
    """Runs on the Rényi route, computed now, and on the tight one as it was measured with its time."""
    figures = figures_of("tight_intervals")
    rows = []
    for name, (make, delta, _) in RUNS.items():
        if name in figures:
            run = make(1.0)
            ours = figures[name]["ours"]
            interval = f"{_down(ours['lower'])} to {_up(ours['upper'])}"
            rows.append(
                (
                    name,
                    f"{delta:g}",
                    _up(ac.epsilon(run, delta, method="renyi").epsilon),
                    interval,
                    f"{ours['seconds']:.2g}",
                )
            )
    return table(("run", "delta", "Rényi, improved", "tight", "seconds"), rows)


def renyi_bound() -> str:
    """Epsilon of the first run in the table of tight intervals, on the Rényi route."""
    make, delta, _ = next(iter(RUNS.values()))
    return _up(ac.epsilon(make(1.0), delta, method="renyi").epsilon)


def tight_interval() -> str:
    """The same run on the tight route."""
    found = figures_of("tight_intervals")[next(iter(RUNS))]["ours"]
    return f"{_down(found['lower'])} to {_up(found['upper'])}"


def tight_time() -> str:
    """What pricing that run takes on the tight route, in milliseconds."""
    return f"{figures_of('price_time')['tasks']['a']['rows']['ours, tight']['warm_us'] / 1000:.2g}"


def _up(value: float) -> str:
    from accountant.guarantee import format_up

    return format_up(value, 5)


def _down(value: float) -> str:
    from accountant.guarantee import format_down

    return format_down(value, 5)


def digits_table() -> str:
    figures = figures_of("digits_accuracy")
    epsilons = list(next(iter(figures.values())))
    rows = [
        (name, *(f"{100 * each['mean']:.1f} ± {100 * each['deviation']:.1f}" for each in row.values()))
        for name, row in figures.items()
    ]
    return table(("mechanism", *(f"epsilon {epsilon}" for epsilon in epsilons)), rows)


def nonprivate_digits() -> str:
    return f"{100 * next(iter(figures_of('digits_accuracy')['Private-kNN'].values()))['nonprivate']:.1f}"


def reverse_loss() -> str:
    """Points that noise costs reverse k-NN at epsilon 1, rounded up."""
    row = figures_of("digits_accuracy")["Reverse k-NN, central"]["1"]
    return f"{max(np.ceil(1000 * (row['noiseless'] - row['mean'])) / 10, 0.0):.1f}"


def durable_cost() -> str:
    """What durable budgets add to the time of a query in batches, in percent."""
    rows = {row["contender"]: row["ms_per_query"] for row in figures_of("individual_knn_query_time")["results"]}
    return f"{100 * (rows['ours, batches, durable'] / rows['ours, batches'] - 1):.0f}"


def gdp_gain() -> str:
    """By how much the GDP filter's budget is larger than the Rényi filter's on the made set, in percent."""
    gdp, renyi = (ac.IndividualFilter.budget_for(1.0, 1e-6, name) for name in ("gdp", "renyi"))
    return f"{100 * (gdp / renyi - 1):.0f}"


def queries_table(data: str, kind: str) -> Callable[[], str]:
    def write() -> str:
        rows = figures_of("accuracy_by_queries")[data][kind]
        counts = list(next(iter(rows.values())))
        return table(("queries", *counts), ((name, *map(spread, row.values())) for name, row in rows.items()))

    return write


def peers_table() -> str:
    """Random runs by each peer's own accountant and by ours, as they were measured."""
    rows = []
    for peer, row in figures_of("budgets_of_peers")["results"].items():
        times = (f"{row[f'{side} ms']:.3g} ms" for side in ("ours", "theirs"))
        rows.append(
            (
                peer,
                f"{row['compared']} of {row['runs']}",
                f"{row['ours above theirs']}",
                f"{row['largest ours over theirs']:.6f}",
                f"{row['median theirs over ours']:.3f}",
                *times,
                f"{row['ours from both sides']}",
                f"{row['held against a truth']}",
                f"{row['ours below it']}, {row['theirs below it']}",
            )
        )
    heads = ("in place of", "compared", "above", "largest ratio", "gain", "our time", "its time", "two-sided")
    return table((*heads, "checked", "below: ours, its"), rows)


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
    "renyi-bound": renyi_bound,
    "tight-interval": tight_interval,
    "tight-table": tight_table,
    "tight-time": tight_time,
    "digits-table": digits_table,
    "nonprivate-digits": nonprivate_digits,
    "reverse-loss": reverse_loss,
    "durable-cost": durable_cost,
    "gdp-gain": gdp_gain,
    "queries-digits": queries_table("digits", "accuracy"),
    "queries-made": queries_table("made", "accuracy"),
    "retired-made": queries_table("made", "retired"),
    "peers-table": peers_table,
    "reference-accuracy": reference_accuracy,
}


# --- filling -------------------------------------------------------------------------------------------


def figure(place: str, form: str) -> str:
    """One accepted figure."""
    known = dict(leaves(read_accepted()))
    if place not in known:
        raise Unknown(f"no accepted figure at {place!r}; --list prints those that there are")
    return format(known[place], form)


def content(name: str) -> str:
    """What belongs between the markers of that name."""
    if name.startswith("bench:"):
        place, bar, form = name.removeprefix("bench:").rpartition("|")
        if not bar:
            raise Unknown(f"<!-- begin {name} -->; accepted: bench: PATH | FORMAT")
        return figure(place.strip(), form.strip())
    if name not in TABLES:
        raise Unknown(f"<!-- begin {name} -->; accepted: {', '.join(TABLES)}, or bench: PATH | FORMAT")
    return TABLES[name]()


def fill(text: str) -> str:
    """The text with the content of every block computed again; a block that began with a new line keeps empty lines."""

    def replace(found: re.Match[str]) -> str:
        name, last = found["name"], found["last"]
        if last != ("bench" if name.startswith("bench:") else name):
            raise Unknown(f"<!-- begin {name} --> is ended by <!-- end {last} -->")
        edge = "\n\n" if found["body"].startswith("\n") else ""
        return f"<!-- begin {name} -->{edge}{content(name)}{edge}<!-- end {last} -->"

    if len(re.findall("<!-- (?:begin|end) ", text)) != 2 * len(BLOCK.findall(text)):
        raise Unknown("a begin or an end without the other")
    return BLOCK.sub(replace, text)


def refresh(path: Path, *, check: bool) -> list[str]:
    """Fill one page, and name the blocks that were out of date; with `check` the file is left as it is."""
    text = path.read_text("utf-8")
    try:
        new = fill(text)
    except Unknown as error:
        raise Unknown(f"{path.relative_to(ROOT)}: {error}") from None
    if not check and new != text:
        path.write_text(new, "utf-8")
    both = zip(BLOCK.finditer(text), BLOCK.finditer(new), strict=True)
    return [f"{path.relative_to(ROOT)}: {old['name']}" for old, now in both if old[0] != now[0]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a page is out of date")
    parser.add_argument("--list", metavar="PREFIX", help="print places in accepted.json")
    options = parser.parse_args()
    if options.list is not None:
        for place, value in leaves(read_accepted()):
            if place.startswith(options.list):
                print(f"{place}: {value:.6g}")
        return 0
    try:
        stale = [line for path in pages() for line in refresh(path, check=options.check)]
    except Unknown as error:
        print(f"readme: {error}", file=sys.stderr)
        return 2
    print("\n".join(f"{'out of date' if options.check else 'filled'}: {line}" for line in stale) or "all current")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
