"""Claim: reverse k-NN labels by 600 000 records and 500 queries at d = 216 in 20 s on two cores, in at most 2 GB.

Every model runs in a separate process, which gives it a memory peak of its own: set-up, clients, shuffler and server,
with noise from the system's entropy, from the first query to the last label. First the votes of some records are
compared with the definition in double precision. The claim is about the central model; the others are printed for
comparison, with the bytes that a client sends.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import mechanisms as mx
from mechanisms.neighbours.reverse import Connections

CLASSES = 10
MEGABYTE = 1e6

MODELS: dict[str, dict[str, Any]] = {
    "central": {"model": "central"},
    "local, collision": {"model": "local", "randomizer": "collision", "epsilon": 4.0},
    "local, randomized response": {"model": "local", "randomizer": "randomized-response", "epsilon": 4.0},
    "shuffle, collision": {"model": "shuffle", "randomizer": "collision", "delta": 1e-8},
    "shuffle, shares": {"model": "shuffle", "randomizer": "shares", "delta": 1e-8},
}


@dataclass(frozen=True)
class Setting:
    """Sizes of the task."""

    records: int = 600_000
    width: int = 216
    queries: int = 500
    neighbours: int = 1
    public: int = 26_000
    clients: int = 100


@dataclass(frozen=True)
class Figures:
    """Figures of a model, with the peak memory of its process."""

    model: str
    epsilon: float
    delta: float
    seconds: float
    cpu_seconds: float
    planning_seconds: float
    bytes_per_client: float
    bytes_per_record: float
    accuracy: float
    peak_mb: float


def make_data(
    setting: Setting,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Gaussian clusters, several per class; private and public records with labels, the latter for the accuracy."""
    rng = np.random.default_rng(0)
    centres = (1.2 * rng.standard_normal((10 * CLASSES, setting.width))).astype(np.float32)

    def draw(n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        clusters = rng.integers(0, len(centres), n)
        features = rng.standard_normal((n, setting.width), dtype=np.float32)
        for start in range(0, n, 1024):  # in blocks, to avoid a second copy of the features
            features[start : start + 1024] += centres[clusters[start : start + 1024]]
        return features, clusters % CLASSES

    return (*draw(setting.records), *draw(setting.public))


def check(records: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> None:
    """Compare the votes of some records with the definition.

    Raises
    ------
    RuntimeError
        One does not.
    """
    some = records[:: max(len(records) // 200, 1)]
    distances = ((some[:, None].astype(float) - queries.astype(float)) ** 2).sum(axis=2)
    expected = np.sort(np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)
    if not np.array_equal(Connections(queries, k).find_nearest(records)[:: max(len(records) // 200, 1)], expected):
        raise RuntimeError("votes differ from those of the definition")


def peak() -> float:
    """Peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(name: str, setting: Setting) -> Figures:
    """Time one model, from the first query to the last label."""
    X, y, public, truth = make_data(setting)
    model = mx.ReverseKNN(
        n_queries=setting.queries, n_neighbors=setting.neighbours, n_classes=CLASSES, rng=None, **MODELS[name]
    )
    clients = np.arange(setting.records) % setting.clients
    start = time.perf_counter()
    model.planned(setting.records, CLASSES)  # is cached, so that labelling does not plan again
    planned, cpu = time.perf_counter(), time.process_time()
    out = model.label(X, y, public, clients)
    seconds, cpu = time.perf_counter() - planned, time.process_time() - cpu
    check(X, out.queries, setting.neighbours)
    return Figures(
        model=name,
        epsilon=model.epsilon,
        delta=model.delta,
        seconds=seconds,
        cpu_seconds=cpu,
        planning_seconds=planned - start,
        bytes_per_client=out.bytes_per_client,
        bytes_per_record=out.bytes_per_client * setting.clients / setting.records,
        accuracy=float(np.mean(out.labels == truth)),
        peak_mb=peak() / MEGABYTE,
    )


def run(setting: Setting, models: list[str]) -> list[Figures]:
    """Run every model in a fresh process; this one stays small, as a child's peak starts at its parent's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        return [pool.submit(measure, name, setting).result() for name in models]


def report(setting: Setting, results: list[Figures], load: float) -> dict[str, Any]:
    """The figures as they are printed and written to JSON."""
    return {
        "setting": asdict(setting),
        "machine": {
            "cores": os.cpu_count(),
            "load_before": load,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "features_mb": 4 * setting.records * setting.width / MEGABYTE,
        "votes_as_defined": True,
        "results": [asdict(figures) for figures in results],
    }


def print_table(figures: dict[str, Any]) -> None:
    setting, machine = figures["setting"], figures["machine"]
    table = Table(title="Reverse k-NN, all parties")
    table.add_column("model")
    for name in ("epsilon", "delta", "seconds", "CPU s", "planning", "bytes a client", "a record", "right", "peak MB"):
        table.add_column(name, justify="right")
    for row in figures["results"]:
        table.add_row(
            row["model"],
            f"{row['epsilon']:g}",
            f"{row['delta']:g}",
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            f"{row['planning_seconds']:.1f}",
            f"{row['bytes_per_client']:.0f}",
            f"{row['bytes_per_record']:.1f}",
            f"{row['accuracy']:.3f}",
            f"{row['peak_mb']:.0f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(
        f"{setting['records']} records of {setting['clients']} clients, d = {setting['width']}, "
        f"{setting['queries']} queries among {setting['public']} public points, k = {setting['neighbours']}; "
        f"features {figures['features_mb']:.0f} MB.\n"
        f"{machine['cores']} cores, load before the run {machine['load_before']:.1f}; "
        f"Python {machine['python']}, numpy {machine['numpy']}. Votes as the definition says: yes."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in asdict(Setting()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=list(MODELS), help="default: all")
    parser.add_argument("--json", type=Path, help="file to write the same figures to")
    arguments = vars(parser.parse_args())
    target, models = arguments.pop("json"), arguments.pop("models")
    setting = Setting(**arguments)
    load = os.getloadavg()[0]
    figures = report(setting, run(setting, models), load)
    print_table(figures)
    if target is not None:
        target.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
