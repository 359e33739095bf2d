"""Claim: a price takes a fraction of the time of the fastest peer on the same route, and is never looser.

Every measurement is a fresh process. Its cold time is the import and the first call, with compiled kernels on disk; its
warm time is the fastest of several more calls, each with slightly different noise. Ratios are the warm time of the
fastest peer on the same route over ours.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peers import RENYI, TIGHT, NotThere, Run, quiet  # beside this file

ROOT = Path(__file__).parent.parent
PATIENCE = 10.0
"""Seconds after which the calls end."""

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
    cold, warm = time.perf_counter() - start, math.inf
    for i in range(1, repeats + 1):
        again = time.perf_counter()
        price([(kind, noise * (1 + 1e-9 * i), rate, count) for kind, noise, rate, count in run])
        warm = min(warm, time.perf_counter() - again)
        if time.perf_counter() - start > PATIENCE:
            break
    return {"epsilon": epsilon, "cold": cold, "warm": warm, "warm_us": 1e6 * warm}


def in_fresh_process(task: str, contender: str, repeats: int, **environment: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--cell", task, contender, "--repeats", str(repeats)]
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
        for route in (RENYI, TIGHT):
            (mine,) = (name for name in route if "ours" in name)
            peers = [rows[name]["warm"] for name in route if name != mine and "warm" in rows.get(name, {})]
            if peers and "warm" in rows.get(mine, {}):
                rows[mine]["ratio"] = min(peers) / rows[mine]["warm"]
        figures["tasks"][task] = {"what": TASKS[task][0], "rows": rows}
    with TemporaryDirectory() as empty:
        figures["nothing compiled"] = in_fresh_process(tasks[0], "ours", 1, NUMBA_CACHE_DIR=empty)
    return figures


def print_table(figures: dict[str, Any]) -> None:
    from rich.table import Table

    import accountant as ac

    table = Table(title="One price at delta = 1e-5")
    for name in ("task", "accountant", "epsilon", "warm ms", "cold ms", "fastest peer / ours"):
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
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--slow", action="store_true", help="also the cases that take a peer minutes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--cell", nargs=2, metavar=("TASK", "ACCOUNTANT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(cell(*options.cell, options.repeats)))
        return
    figures = measured(options.tasks, options.repeats, options.slow)
    print_table(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
