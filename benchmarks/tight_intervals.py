"""Claim: certified intervals of the requested width take no more time than the peers need for theirs.

Prints the interval of each run, its width and the time, the median of runs that alternate with those of the peers, each
with slightly different noise; and those of dp-accounting's privacy-loss distributions
(pessimistic; its optimistic estimate is no certified lower end for sampled events) and of prv-accountant, if it is
installed. Peers run at the spacing or error at which their width is about the requested one, for a minute each at most.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accountant as ac

DELTA = 1e-5

PAIRS = 7
"""Runs of each accountant."""

PATIENCE = 20.0
"""Seconds after which a run is not repeated."""

LIMIT = 60.0
"""Seconds after which a peer is stopped."""


def sampled(event: ac.Event, rate: float) -> ac.Event:
    return ac.PoissonSubsampled(event, rate)


def distinct(count: int, noise: float) -> ac.Composition:
    """Different subsampled Gaussians, ten steps each."""
    runs = (
        10 * sampled(ac.Gaussian(noise * (0.8 + 1.2 * i / count)), 0.005 + 0.015 * ((7 * i) % count) / count)
        for i in range(count)
    )
    return sum(runs, ac.Composition())


def screening(noise: float) -> ac.Event:
    return ac.NoisyScreening(85 * noise, 210, 300)


RUNS: dict[str, tuple[Callable[[float], ac.Composition], float, float]] = {
    # name: (run at a multiple of the noise, delta, tolerance)
    "sampled Gaussian 1, 0.01, x 10^4": (lambda f: 10_000 * sampled(ac.Gaussian(1.0 * f), 0.01), DELTA, 1e-3),
    "sampled Gaussian 0.6, 0.256, x 1000": (lambda f: 1000 * sampled(ac.Gaussian(0.6 * f), 0.256), DELTA, 1e-3),
    "Laplace 1 x 1000": (lambda f: 1000 * ac.Laplace(1.0 * f), DELTA, 1e-3),
    "Gaussian 20 x 20000, delta 1e-14": (lambda f: 20_000 * ac.Gaussian(20.0 * f), 1e-14, 1e-3),
    "1000 distinct sampled Gaussians": (lambda f: distinct(1000, f), DELTA, 1e-2),
    "8192 sampled screenings": (lambda f: 8192 * sampled(screening(f), 0.25), DELTA, 1e-2),
    "8192 screenings": (lambda f: 8192 * screening(f), DELTA, 1e-2),
    "CIFAR-10: 18000 screenings, 3877 votes": (
        lambda f: 18_000 * sampled(screening(f), 0.2) + 3877 * sampled(ac.GNMax(20 * f), 0.2),
        DELTA,
        1e-2,
    ),
    "10^6 sampled Gaussians": (lambda f: 10**6 * sampled(ac.Gaussian(2.0 * f), 1e-3), DELTA, 1e-3),
    "10^9 sampled Gaussians": (lambda f: 10**9 * sampled(ac.Gaussian(1.0 * f), 1e-5), DELTA, 1e-2),
    "1000 samples of 1000 Laplace coordinates": (
        lambda f: 1000 * sampled(ac.Laplace(60.0 * f, 1.0, 1000), 0.01),
        1e-6,
        1e-2,
    ),
}


def timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = compute()
    return value, time.perf_counter() - start


def stopped(compute: Callable[[], Any]) -> Any:
    """What a peer computes, or that it takes longer than the limit."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        return compute()
    except TimeoutError:
        return {"failure": f"takes more than {LIMIT:.0f} s"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


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


def compare(make: Callable[[float], ac.Composition], delta: float, tolerance: float, peers: bool) -> dict[str, Any]:
    """Intervals of a run, and medians of the times; also of ours at a peer's width, if that is narrower."""
    contenders: dict[str, Callable[[ac.Composition], Any]] = {"ours": lambda run: ours(run, delta, tolerance)}
    rows: dict[str, Any] = {"ours": contenders["ours"](make(1.0))}
    if peers:
        error = max(tolerance * rows["ours"]["upper"] / 2, 1e-3)
        contenders["dp-accounting, 1e-4"] = lambda run: dp_accounting(run, delta, 1e-4)
        contenders["prv-accountant"] = lambda run: prv(run, delta, error)
        for peer in ("dp-accounting, 1e-4", "prv-accountant"):
            row = rows[peer] = stopped(lambda peer=peer: contenders[peer](make(1.0)))
            if row is None or "failure" in row:
                del contenders[peer]
            elif 0 < (width := 1 - row["lower"] / row["upper"]) < tolerance:
                contenders[f"ours, as {peer[:7]}"] = lambda run, width=width: ours(run, delta, max(width, 1e-6))
    start, times = time.perf_counter(), list[dict[str, float]]()
    slow = sum(row["seconds"] for row in rows.values() if row and "seconds" in row) > PATIENCE
    for i in range(1, 2 if slow else PAIRS + 1):
        # what takes minutes is run once
        again = make(1 + 1e-9 * i)
        found = {who: rows[who] if slow and who in rows else price(again) for who, price in contenders.items()}
        times.append({who: row["seconds"] for who, row in found.items()})
        rows.update({who: row for who, row in found.items() if who not in rows})
        if time.perf_counter() - start > PATIENCE:
            break
    for who in contenders:
        rows[who] = {**rows[who], "seconds": statistics.median(each[who] for each in times), "runs": len(times)}
        if "ours" not in who:
            rows[who]["ratio"] = statistics.median(each[who] / each["ours"] for each in times)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="runs whose name contains this")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    sums = 10 * sampled(ac.Laplace(60.0, 1.0, 1000), 0.01)
    for compiles in (
        3 * sampled(ac.Gaussian(1.0), 0.1) + 3 * screening(1.0),
        1000 * sampled(ac.Gaussian(1.0), 0.1),
        sums,
    ):
        ac.epsilon(compiles, DELTA, method="tight")
    found: dict[str, Any] = {}
    for name, (make, delta, tolerance) in RUNS.items():
        if options.only and options.only not in name:
            continue
        found[name] = compare(make, delta, tolerance, peers=not options.no_peers)
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
        print(f"  {who:20s} {interval:28s} width {100 * width:8.4f} %  {row['seconds']:8.4f} s  {note}")


if __name__ == "__main__":
    main()
