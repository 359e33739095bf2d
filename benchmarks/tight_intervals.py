"""Claim: certified intervals of the requested width take no more time than the peers need for theirs.

Prints the interval of each run, its width and the time, and those of dp-accounting's privacy-loss distributions
(pessimistic; its optimistic estimate is no certified lower end for sampled events) and of prv-accountant, if it is
installed. Peers run at the spacing or error at which their width is about the requested one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accountant as ac

DELTA = 1e-5
SCREENING = ac.NoisyScreening(85, 210, 300)


def sampled(event: ac.Event, rate: float) -> ac.Event:
    return ac.PoissonSubsampled(event, rate)


def distinct(count: int) -> ac.Composition:
    """Different subsampled Gaussians, ten steps each."""
    runs = (
        10 * sampled(ac.Gaussian(0.8 + 1.2 * i / count), 0.005 + 0.015 * ((7 * i) % count) / count)
        for i in range(count)
    )
    return sum(runs, ac.Composition())


RUNS: dict[str, tuple[ac.Composition, float, float]] = {
    # name: (run, delta, tolerance)
    "sampled Gaussian 1, 0.01, x 10^4": (10_000 * sampled(ac.Gaussian(1.0), 0.01), DELTA, 1e-3),
    "sampled Gaussian 0.6, 0.256, x 1000": (1000 * sampled(ac.Gaussian(0.6), 0.256), DELTA, 1e-3),
    "Laplace 1 x 1000": (1000 * ac.Laplace(1.0), DELTA, 1e-3),
    "Gaussian 20 x 20000, delta 1e-14": (20_000 * ac.Gaussian(20.0), 1e-14, 1e-3),
    "1000 distinct sampled Gaussians": (distinct(1000), DELTA, 1e-2),
    "8192 sampled screenings": (8192 * sampled(SCREENING, 0.25), DELTA, 1e-2),
    "8192 screenings": (8192 * SCREENING, DELTA, 1e-2),
    "CIFAR-10: 18000 screenings, 3877 votes": (
        18_000 * sampled(SCREENING, 0.2) + 3877 * sampled(ac.GNMax(20), 0.2),
        DELTA,
        1e-2,
    ),
    "10^6 sampled Gaussians": (10**6 * sampled(ac.Gaussian(2.0), 1e-3), DELTA, 1e-3),
    "10^9 sampled Gaussians": (10**9 * sampled(ac.Gaussian(1.0), 1e-5), DELTA, 1e-2),
    "1000 samples of 1000 Laplace coordinates": (1000 * sampled(ac.Laplace(60.0, 1.0, 1000), 0.01), 1e-6, 1e-2),
}


def timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = compute()
    return value, time.perf_counter() - start


def ours(run: ac.Composition, delta: float, tolerance: float) -> dict[str, Any]:
    """Our interval and its time; kernels are compiled before, but screening games may be cached from earlier calls."""
    found, seconds = timed(lambda: ac.epsilon(run, delta, method="tight", tolerance=tolerance))
    return {"lower": found.lower, "upper": found.epsilon, "seconds": seconds, "source": found.source}


def dp_accounting(run: ac.Composition, delta: float, spacing: float) -> dict[str, Any] | None:
    """Pessimistic and optimistic epsilons at a spacing, None if it has no such event, or why it fails."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def of(event: ac.Event, pessimistic: bool) -> Any:
        rate, inner = event.sampling_rate, event.unsampled
        options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": spacing}
        if isinstance(inner, ac.Gaussian):
            deviation = inner.sigma / inner.sensitivity
            return pld.from_gaussian_mechanism(deviation, sampling_prob=rate, use_connect_dots=pessimistic, **options)
        if isinstance(inner, ac.Laplace) and rate == 1.0:
            return pld.from_laplace_mechanism(inner.scale, use_connect_dots=pessimistic, **options)
        return None

    def price(pessimistic: bool) -> float | None:
        total = None
        for event, count in run:
            one = of(event, pessimistic)
            if one is None:
                return None
            several = one.self_compose(count)
            total = several if total is None else total.compose(several)
        return None if total is None else float(total.get_epsilon_for_delta(delta))

    try:
        upper, seconds = timed(lambda: price(True))
        if upper is None:
            return None
        lower, more = timed(lambda: price(False))
    except OverflowError as failure:
        return {"failure": f"{type(failure).__name__}: {failure}"[:80]}
    return {"lower": lower, "upper": upper, "seconds": seconds + more, "seconds_upper": seconds, "spacing": spacing}


def prv(run: ac.Composition, delta: float, error: float) -> dict[str, Any] | None:
    """prv-accountant's interval; None if it is not installed or has no such event."""
    try:
        from prv_accountant import PRVAccountant
        from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism as Mechanism
    except ImportError:
        return None
    mechanisms, counts = [], []
    for event, count in run:
        rate, inner = event.sampling_rate, event.unsampled
        if not isinstance(inner, ac.Gaussian):
            return None
        mechanisms.append(Mechanism(noise_multiplier=inner.sigma / inner.sensitivity, sampling_probability=rate))
        counts.append(count)

    if sum(counts) > 10**8:
        return {"failure": "more than 10^8 releases take it longer than three minutes"}

    def price() -> tuple[float, float, float]:
        accountant = PRVAccountant(
            prvs=mechanisms, max_self_compositions=counts, eps_error=error, delta_error=delta / 1000
        )
        low, estimate, high = accountant.compute_epsilon(delta=delta, num_self_compositions=counts)
        return low, estimate, high

    try:
        (low, _, high), seconds = timed(price)
    except (RuntimeError, ValueError) as failure:
        return {"failure": f"{type(failure).__name__}: {failure}"[:80]}
    return {"lower": low, "upper": high, "seconds": seconds, "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="runs whose name contains this")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    sums = 10 * sampled(ac.Laplace(60.0, 1.0, 1000), 0.01)
    for compiles in (3 * sampled(ac.Gaussian(1.0), 0.1) + 3 * SCREENING, 1000 * sampled(ac.Gaussian(1.0), 0.1), sums):
        ac.epsilon(compiles, DELTA, method="tight")
    found: dict[str, Any] = {}
    for name, (run, delta, tolerance) in RUNS.items():
        if options.only and options.only not in name:
            continue
        found[name] = {"ours": ours(run, delta, tolerance)}
        if not options.no_peers:  # also ours at a peer's width, if that is narrower
            upper = found[name]["ours"]["upper"]
            found[name]["dp-accounting, 1e-4"] = dp_accounting(run, delta, 1e-4)
            found[name]["prv-accountant"] = prv(run, delta, max(tolerance * upper / 2, 1e-3))
            for peer in ("dp-accounting, 1e-4", "prv-accountant"):
                row = found[name][peer]
                if row and "failure" not in row and 0 < (width := 1 - row["lower"] / row["upper"]) < tolerance:
                    found[name][f"ours, as {peer[:7]}"] = ours(run, delta, max(width, 1e-6))
        print_rows(name, found[name])
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


def print_rows(name: str, rows: dict[str, Any]) -> None:
    print(name)
    for who, row in rows.items():
        if row is None:
            continue
        if "failure" in row:
            print(f"  {who:20s} {row['failure']}")
            continue
        width = (row["upper"] - row["lower"]) / row["upper"]
        note = row.get("source", "")
        interval = f"[{row['lower']:.6g}, {row['upper']:.6g}]"
        print(f"  {who:20s} {interval:28s} width {100 * width:8.4f} %  {row['seconds']:8.3f} s  {note}")


if __name__ == "__main__":
    main()
