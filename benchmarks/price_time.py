"""Claim: a price takes a fraction of the time of the fastest peer on the same route, and is never looser.

Cold times are of a fresh process, its imports and the first call, with compiled kernels on disk. Warm times are medians
of calls that follow, each with slightly different noise. Against a peer, calls of both alternate in one process: its
ratio is the median over the pairs of its time over ours on the same route, ours the least of these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peers import RENYI, TIGHT, NotThere, Run, quiet  # beside this file

ROOT = Path(__file__).parent.parent
PATIENCE = 3.0
"""Seconds after which the calls end."""

ROUTES = (RENYI, TIGHT)

TASKS: dict[str, tuple[str, Run]] = {
    "a": ("sampled Gaussian 1, 0.01, x 10^4", [("gaussian", 1.0, 0.01, 10_000)]),
    "b": ("sampled Gaussian 0.6, 0.256, x 1000", [("gaussian", 0.6, 0.256, 1000)]),
    "c": ("sampled Gaussian 20, 0.25, x 8192", [("gaussian", 20.0, 0.25, 8192)]),
    "d": ("Gaussian 85 x 8192", [("gaussian", 85.0, 1.0, 8192)]),
    "e": ("Laplace 1 x 1000", [("laplace", 1.0, 1.0, 1000)]),
    "f": (
        "1000 distinct sampled Gaussians",
        [("gaussian", 0.8 + 1.2 * i / 999, 0.001 + 0.019 * i / 999, 1) for i in range(1000)],
    ),
}

SLOW = {("f", "dp-accounting, PLD"), ("f", "prv-accountant")}
"""Take minutes each: only with --slow."""


def cell(task: str, contender: str, repeats: int) -> dict[str, Any]:
    """Epsilon and times of one accountant, measured in this process."""
    quiet()
    run = TASKS[task][1]
    price = {**RENYI, **TIGHT}[contender]
    start = time.perf_counter()
    try:
        epsilon = price(run)
    except (NotThere, ImportError, RuntimeError, ValueError, AssertionError) as failure:
        return {"failure": f"{type(failure).__name__}: {failure}"[:100]}
    cold = time.perf_counter() - start
    warm = statistics.median(pair[0] for pair in alternate(run, [price], repeats))
    return {"epsilon": epsilon, "cold": cold, "warm": warm, "warm_us": 1e6 * warm}


def against(task: str, peer: str, repeats: int) -> dict[str, Any]:
    """Times of ours and of a peer, call by call in this process."""
    quiet()
    (route,) = (route for route in ROUTES if peer in route)
    pairs = alternate(TASKS[task][1], [route[own(route)], route[peer]], repeats, warm=True)
    warm = statistics.median(theirs for _, theirs in pairs)
    ratio = statistics.median(theirs / ours for ours, theirs in pairs)
    return {"warm": warm, "warm_us": 1e6 * warm, "ratio": ratio, "pairs": len(pairs)}


def own(route: dict[str, Any]) -> str:
    (name,) = (name for name in route if "ours" in name)
    return name


def alternate(run: Run, prices: list[Any], repeats: int, warm: bool = False) -> list[list[float]]:
    """Times of one call of each, again and again; with `warm` the first calls do not count."""
    start, found = time.perf_counter(), []
    for i in range(1, repeats + 1 + warm):
        times = []
        again = [(kind, noise * (1 + 1e-9 * i), rate, count) for kind, noise, rate, count in run]
        for price in prices:
            begun = time.perf_counter()
            price(again)
            times.append(time.perf_counter() - begun)
        if warm and i == 1:
            start = time.perf_counter()  # what the first calls load is not part of the patience
            continue
        found.append(times)
        if time.perf_counter() - start > PATIENCE:
            break
    return found


def in_fresh_process(
    task: str, contender: str, repeats: int, how: str = "--cell", **environment: str
) -> dict[str, Any]:
    command = [sys.executable, __file__, how, task, contender, "--repeats", str(repeats)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if result.returncode:
        return {"failure": (result.stderr.strip().splitlines() or ["the process died"])[-1][:100]}
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def measured(tasks: list[str], repeats: int, slow: bool) -> dict[str, Any]:
    for name in RENYI | TIGHT:
        if "ours" in name:
            for task in tasks:
                if (task, name) not in SLOW:
                    in_fresh_process(task, name, 1)  # compiles kernels
    figures: dict[str, Any] = {"tasks": {}}
    for task in tasks:
        rows = {
            name: in_fresh_process(task, name, repeats) for name in RENYI | TIGHT if slow or (task, name) not in SLOW
        }
        for route in ROUTES:
            peers = [name for name in route if name != own(route) and "warm" in rows.get(name, {})]
            for name in peers:
                rows[name].update(in_fresh_process(task, name, repeats, "--against"))
            ratios = [rows[name]["ratio"] for name in peers if "ratio" in rows[name]]
            if ratios:
                rows[own(route)]["ratio"] = min(ratios)
        figures["tasks"][task] = {"what": TASKS[task][0], "rows": rows}
    with TemporaryDirectory() as empty:
        figures["nothing compiled"] = in_fresh_process(tasks[0], "ours", 1, NUMBA_CACHE_DIR=empty)
    return figures


def print_table(figures: dict[str, Any]) -> None:
    from rich.table import Table

    import accountant as ac

    table = Table(title="One price at delta = 1e-5")
    for name in ("task", "accountant", "epsilon", "warm ms", "cold ms", "peer / ours"):
        table.add_column(name, justify="left" if name in ("task", "accountant") else "right")
    for task, found in figures["tasks"].items():
        for i, (name, row) in enumerate(found["rows"].items()):
            what = f"{task}: {found['what']}" if i == 0 else ""
            if "failure" in row:
                table.add_row(what, name, row["failure"][:40], "", "", "")
                continue
            ratio = f"{row['ratio']:.1f}" if "ratio" in row else ""
            cells = (f"{row['epsilon']:.6f}", f"{1000 * row['warm']:.3f}", f"{1000 * row['cold']:.0f}", ratio)
            table.add_row(what, name, *cells)
    console = ac.terminal.console()
    console.print(table)
    first = figures["nothing compiled"]
    if "cold" in first:
        console.print(f"first call ever, with nothing compiled yet: {first['cold']:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--slow", action="store_true", help="also the cases that take a peer minutes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--cell", nargs=2, metavar=("TASK", "ACCOUNTANT"), help=argparse.SUPPRESS)
    parser.add_argument("--against", nargs=2, metavar=("TASK", "PEER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.against:
        print(json.dumps(against(*options.against, options.repeats)))
        return
    if options.cell:
        print(json.dumps(cell(*options.cell, options.repeats)))
        return
    figures = measured(options.tasks, options.repeats, options.slow)
    print_table(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
