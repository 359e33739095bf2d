"""Claim: certified intervals of random allocation, narrower than pld-accounting's and up to 700 times faster.

epsilon(delta) of epochs in each of which every record takes part in k of t Gaussian steps, beside
`gaussian_allocation_epsilon_range` of pld-accounting 2.0 (Feldman & Shenfeld 2025), at its default accuracy. For k > 1
both ends of pld-accounting's interval are those of k blocks of t/k steps, from each of which one is drawn: an upper
bound on k of t. Both are given here: of the blocks, and of k of t, whose lower end is what an attack is known to tell.
Every time is that of the first price of that setting, after another setting was priced.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from peers import NotThere, quiet  # beside this file

import accountant as ac


class Setting(NamedTuple):
    steps: int
    selected: int
    epochs: int
    sigma: float
    delta: float


SETTINGS = (
    Setting(1000, 1, 1, 1.0, 1e-5),
    Setting(1000, 10, 1, 1.0, 1e-5),
    Setting(100, 1, 10, 0.5, 1e-6),
    Setting(100, 1, 1, 1.0, 1e-5),
    Setting(10_000, 1, 1, 0.6, 1e-6),
)
SMALL = (Setting(20, 1, 1, 2.0, 1e-3), Setting(20, 2, 1, 2.0, 1e-3))
FIRST = Setting(10, 1, 1, 3.0, 1e-3)


def price(run: ac.Composition, delta: float, tolerance: float) -> tuple[float, float]:
    found = ac.epsilon(run, delta, method="tight", tolerance=tolerance)
    assert found.lower is not None
    return found.lower, found.epsilon


def blocks(setting: Setting, tolerance: float) -> tuple[float, float]:
    size, rest = divmod(setting.steps, setting.selected)
    if rest:
        raise NotThere("blocks of different sizes")
    epoch = ac.RandomAllocation(ac.Gaussian(setting.sigma), size)
    return price(setting.epochs * setting.selected * epoch, setting.delta, tolerance)


def coarse(setting: Setting) -> tuple[float, float]:
    return blocks(setting, 7e-3)


def fine(setting: Setting) -> tuple[float, float]:
    return blocks(setting, 5e-4)


def subsets(setting: Setting) -> tuple[float, float]:
    if setting.selected == 1:
        raise NotThere("k = 1: the same")
    epoch = ac.RandomAllocation(ac.Gaussian(setting.sigma), setting.steps, setting.selected)
    return price(setting.epochs * epoch, setting.delta, 7e-3)


def pld_accounting(setting: Setting) -> tuple[float, float]:
    try:
        from PLD_accounting import gaussian_allocation_epsilon_range
    except ImportError:
        raise NotThere("pld-accounting is not installed") from None
    upper, lower = gaussian_allocation_epsilon_range(
        delta=setting.delta,
        sigma=setting.sigma,
        num_steps=setting.steps,
        num_selected=setting.selected,
        num_epochs=setting.epochs,
    )
    return float(lower), float(upper)


CONTENDERS = {"ours, 0.7 %": coarse, "ours, 0.05 %": fine, "ours, k of t": subsets, "pld-accounting": pld_accounting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few steps")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    quiet()
    rows: list[dict[str, Any]] = []
    left_out = set()
    for contender in CONTENDERS.values():
        try:
            contender(FIRST)
        except NotThere:
            continue
    for setting in SMALL if options.small else SETTINGS:
        name = "{} steps, {} selected, {} epochs, sigma {:g}, delta {:g}".format(*setting)
        print(f"{name}\n{'':16}{'at least':>10}{'at most':>10}{'width':>9}{'seconds':>10}{'ratio':>9}", flush=True)
        first = 0.0
        for contender, find in CONTENDERS.items():
            start = time.perf_counter()
            try:
                lower, upper = find(setting)
            except NotThere as error:
                left_out.add(f"{contender}: {error}")
                continue
            seconds = time.perf_counter() - start
            first = first or seconds
            width = upper / lower - 1
            print(
                f"{contender:16}{lower:10.6f}{upper:10.6f}{width:9.3%}{seconds:10.2f}{seconds / first:9.1f}", flush=True
            )
            rows.append(
                {
                    "workload": name,
                    "contender": contender,
                    "lower": lower,
                    "upper": upper,
                    "width": width,
                    "seconds": seconds,
                    "ratio": seconds / first,
                }
            )
    for reason in sorted(left_out):
        print(reason)
    if options.json:
        options.json.write_text(json.dumps({"results": rows}, indent=1))


if __name__ == "__main__":
    main()
