"""Claim: a million distinct settings (sampled Gaussian and sampled screening, real orders) are priced in a minute.

Also: a sweep of 1000 settings of 10^4 steps, of which each peer prices a part; 1000 and 10^6 distinct sampled Gaussians
in one composition; calibration of sigma to epsilon 1; a sweep and a calibration on the tight route; and the time of
screening as its votes grow.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from peers import DELTA, RENYI, TIGHT, NotThere, quiet  # beside this file

import accountant as ac


def timed(call: Callable[[], Any], repeats: int = 1) -> tuple[Any, float]:
    """The result, and the time of the fastest of several calls."""
    found, best = None, math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        found = call()
        best = min(best, time.perf_counter() - start)
    return found, best


# --- sweeps --------------------------------------------------------------------------------------------


def labelling(sigma: float, threshold: float, rate: float) -> ac.Composition:
    """A Private-kNN plan."""
    screening = ac.PoissonSubsampled(ac.NoisyScreening(sigma, threshold, 300), rate)
    return 2000 * screening + 700 * ac.PoissonSubsampled(ac.GNMax(sigma / 3), rate)


def training(sigma: float, rate: float) -> ac.Composition:
    return 10_000 * ac.PoissonSubsampled(ac.Gaussian(sigma), rate)


def grid(size: int) -> dict[str, Any]:
    """About `size` settings, all different."""
    side = round(size ** (1 / 3))
    return {
        "sigma": np.linspace(40, 150, side),
        "threshold": np.linspace(150, 240, side),
        "rate": np.linspace(0.01, 0.3, side),
    }


def million(size: int) -> dict[str, Any]:
    values = grid(size)
    ac.sweep(labelling, {name: column[:3] for name, column in values.items()}, delta=DELTA)
    found, seconds = timed(lambda: ac.sweep(labelling, values, delta=DELTA))
    count = len(found["epsilon"])
    rng, errors = np.random.default_rng(0), []
    for i in rng.integers(0, count, 20):
        one = labelling(found["sigma"][i], found["threshold"][i], found["rate"][i])
        errors.append(abs(found["epsilon"][i] / ac.epsilon(one, DELTA, method="renyi").epsilon - 1))
    return {"settings": count, "seconds": seconds, "worst difference from ac.epsilon": max(errors)}


def tight() -> dict[str, Any]:
    """A sweep and a calibration on the tight route, beside what the peers of that route price one by one."""
    values = {"sigma": np.geomspace(0.7, 5, 10), "rate": np.geomspace(1e-3, 0.05, 10)}
    ac.sweep(training, {name: column[:2] for name, column in values.items()}, delta=DELTA, method="tight", n_jobs=1)
    found, seconds = timed(lambda: ac.sweep(training, values, delta=DELTA, method="tight", n_jobs=1), 3)
    rows: dict[str, Any] = {"ours": {"seconds": seconds / 100}}
    pick = np.random.default_rng(0).permutation(100)[:3]
    for name, price in TIGHT.items():
        if "ours" not in name:
            runs = [[("gaussian", found["sigma"][i], found["rate"][i], 10_000)] for i in pick]
            try:
                _, total = timed(lambda price=price, runs=runs: [price(run) for run in runs])
            except (NotThere, ImportError, RuntimeError, ValueError):
                continue
            rows[name] = {"seconds": total / len(runs)}
    peers = [row["seconds"] for name, row in rows.items() if name != "ours"]
    if peers:
        rows["ours"]["ratio"] = min(peers) / rows["ours"]["seconds"]
    sigma, seconds = timed(lambda: ac.calibrate(lambda s: training(s, 0.01), 1.0, DELTA, method="tight"), 3)
    rows["ours, calibration"] = {"sigma": sigma, "seconds": seconds}
    return rows


def thousand() -> dict[str, Any]:
    """The sweep that peers price too: 25 sigmas and 40 rates."""
    values = {"sigma": np.geomspace(0.7, 5, 25), "rate": np.geomspace(1e-3, 0.05, 40)}
    found, seconds = timed(lambda: ac.sweep(training, values, delta=DELTA), 3)
    rows = {"ours": {"seconds": seconds / 1000}}
    pick = np.random.default_rng(0).permutation(1000)[:20]
    for name, price in RENYI.items():
        if name != "ours":
            runs = [[("gaussian", found["sigma"][i], found["rate"][i], 10_000)] for i in pick]
            try:
                epsilons, total = timed(lambda price=price, runs=runs: [price(run) for run in runs])
            except (NotThere, ImportError):
                continue
            above = float(np.min(np.array(epsilons) / found["epsilon"][pick]))
            rows[name] = {"seconds": total / len(runs), "least epsilon over ours": above}
    fastest = min(row["seconds"] for name, row in rows.items() if name != "ours")
    rows["ours"]["ratio"] = fastest / rows["ours"]["seconds"]
    return rows


# --- compositions, calibration, screening --------------------------------------------------------------


def distinct(size: int, shift: float = 0.0) -> list[tuple[str, float, float, int]]:
    return [("gaussian", 0.8 + 1.2 * (i + shift) / size, 0.001 + 0.019 * (i + shift) / size, 1) for i in range(size)]


def one_composition(sizes: list[int]) -> dict[str, Any]:
    rows = {}
    for size in sizes:
        runs = [
            sum_of([ac.PoissonSubsampled(ac.Gaussian(noise), rate) for _, noise, rate, _ in distinct(size, shift)])
            for shift in ((0.0, 0.1, 0.2) if size < 10**5 else (0.0,))
        ]
        best = math.inf
        for run in runs:
            price, seconds = timed(lambda run=run: ac.epsilon(run, DELTA, method="renyi"))
            best = min(best, seconds)
        rows[str(size)] = {"epsilon": price.epsilon, "seconds": best}
    return rows


def sum_of(events: list[ac.Event]) -> ac.Composition:
    return ac.Composition((event, 1) for event in events)


def calibration() -> dict[str, Any]:
    def of(steps: int) -> Any:
        def make(sigma: float) -> ac.Composition:
            return steps * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01)

        return ac.calibrate(make, 1.0, DELTA, method="renyi")

    of(9999)
    best = min(timed(partial(of, steps))[1] for steps in range(10_000, 10_005))
    rows = {"ours": {"sigma": of(10_000), "seconds": best, "ms": 1000 * best}}
    try:
        rows["dp-accounting"] = dp_accounting_sigma()
    except ImportError:
        return rows
    rows["ours"]["ratio"] = rows["dp-accounting"]["seconds"] / best
    return rows


def dp_accounting_sigma() -> dict[str, Any]:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    def event(sigma: float) -> Any:
        step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma))
        return dp_accounting.SelfComposedDpEvent(step, 10_000)

    sigma, seconds = timed(lambda: dp_accounting.calibrate_dp_mechanism(RdpAccountant, event, 1.0, DELTA), 3)
    return {"sigma": sigma, "seconds": seconds}


def screenings() -> dict[str, Any]:
    rows = {}
    for votes in (800, 10**5, 10**7):
        sigma, threshold = 100.0, 0.6 * votes
        ac.epsilon(1000 * ac.NoisyScreening(3.0, 5.0, 10), DELTA, method="renyi")
        best = math.inf
        for i in range(4):
            other = 1000 * ac.PoissonSubsampled(ac.NoisyScreening(sigma * (1 + 1e-9 * i), threshold, votes), 0.1)
            price, seconds = timed(lambda other=other: ac.epsilon(other, DELTA, method="renyi"))
            best = min(best, seconds)
        rows[str(votes)] = {"epsilon": price.epsilon, "seconds": best}
    return rows


# --- output --------------------------------------------------------------------------------------------


def print_rows(title: str, rows: Any) -> None:
    print(title)
    for name, row in rows.items():
        values = row.items() if isinstance(row, dict) else [("", row)]
        print(f"  {name:32s}" + "  ".join(f"{key} {value:.6g}" for key, value in values))


def main() -> None:
    quiet()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=10**6)
    parser.add_argument("--events", type=int, nargs="+", default=[1000, 10**6], help="distinct ones in a composition")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    for name, measure in {
        "calibration": calibration,
        "screening": screenings,
        "composition": partial(one_composition, options.events),
        "sweep beside peers": thousand,
        "tight sweep and calibration": tight,
        "sweep": partial(million, options.settings),
    }.items():
        figures[name] = measure()
        print_rows(name, figures[name])
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
