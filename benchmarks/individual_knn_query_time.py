"""Time of an Ind-KNN query, cosine kernel, n = 50 000 records of 768 features by default.

Claim: at most 1.5 ms per query in batches of 100 on two idle cores, 8 ms for single queries, with at most twice the
memory of the features beside the caller's own copy; durable budgets add at most 30 %. Contenders: the matrix product
alone, the published algorithm in plain numpy, and the same with faiss range search if faiss is installed. Each runs in
a separate process. Before anything is printed, our labels are compared with those of the published algorithm for the
same draws.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import mechanisms as mx
from mechanisms.budgets.store import open_store
from mechanisms.noise.source import as_randomness

CLASSES, DELTA = 10, 1e-5
MEGABYTE = 1e6

Features = NDArray[np.float32]
Integers = NDArray[np.int64]
Answers = Callable[[Features], Integers]
Gaussian = Callable[[float, int], NDArray[np.float64]]
Near = Callable[[Features], tuple[Integers, NDArray[Any]]]


@dataclass(frozen=True)
class Setting:
    """Sizes of the task; `neighbours`: records that a query selects on average while all have budget."""

    records: int = 50_000
    width: int = 768
    queries: int = 1000
    batch: int = 100
    neighbours: int = 500
    tables: int = 30
    bits: int = 8
    epsilon: float = 1.0
    vote_sigma: float = 0.4
    peer_queries: int = 100
    repeats: int = 3


@dataclass(frozen=True)
class Data:
    """Private records and queries with their labels, and the threshold for the number of neighbours."""

    X: Features
    y: Integers
    queries: Features
    truth: Integers
    threshold: float


@dataclass(frozen=True)
class Figures:
    """Figures of a contender: peak memory of its process, and the share of answers equal to ours."""

    contender: str
    queries: int
    ms_per_query: float
    cpu_ms_per_query: float
    setup_ms: float
    accuracy: float
    count: float
    above_features_mb: float
    labels: list[int]


# --- data ----------------------------------------------------------------------------------------------


def make_data(setting: Setting) -> Data:
    """Ten Gaussian clusters; two members of a cluster have a cosine of about 0.45 at 768 features."""
    rng = np.random.default_rng(0)
    centres = (0.9 * rng.standard_normal((CLASSES, setting.width))).astype(np.float32)

    def draw(n: int) -> tuple[Features, Integers]:
        labels = rng.integers(0, CLASSES, n)
        features = rng.standard_normal((n, setting.width), dtype=np.float32)
        for start in range(0, n, 1024):
            features[start : start + 1024] += centres[labels[start : start + 1024]]
        return features, labels

    X, y = draw(setting.records)
    queries, truth = draw(setting.queries)
    some = queries[:64]
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X))  # np.linalg.norm would copy all features
    cosines = (some @ X.T) / lengths / np.linalg.norm(some, axis=1)[:, None]
    threshold = float(np.quantile(cosines, 1 - min(setting.neighbours / setting.records, 0.5)))
    return Data(X, y, queries, truth, max(threshold, 0.0))


def model(data: Data, setting: Setting, rng: int | None, **parameters: Any) -> mx.IndividualKNN:
    return mx.IndividualKNN.for_budget(
        setting.epsilon,
        DELTA,
        setting.queries,
        data.threshold,
        setting.vote_sigma,
        n_classes=CLASSES,
        rng=rng,
        **parameters,
    ).fit(data.X, data.y, range(len(data.X)))


# --- the published algorithm ---------------------------------------------------------------------------


def published(
    data: Data, setting: Setting, near: Near, gaussian: Gaussian, queries: Features
) -> tuple[Integers, list[float]]:
    """Zhu et al. 2023, Alg. 3, with the corrections in notebooks/mathematics.md, Errata of the papers; one by one."""
    plan = mx.IndividualKNN.for_budget(setting.epsilon, DELTA, setting.queries, data.threshold, setting.vote_sigma)
    cost = 1 / (2 * plan.count_sigma**2)
    left, labels, counts = np.full(len(data.X), plan.budget), [], []
    for query in queries:
        found, kernels = near(query)
        active = left[found] >= cost
        found, kernels = found[active], kernels[active]
        left[found] -= cost
        count = max(len(found) + gaussian(plan.count_sigma, 1)[0], plan.min_count)
        sigma = plan.vote_sigma * math.sqrt(count)
        parts = np.minimum(kernels, sigma * np.sqrt(2 * left[found]))
        left[found] = np.maximum(left[found] - parts**2 / (2 * sigma**2), 0.0)
        votes = np.bincount(data.y[found], parts, CLASSES)
        labels.append(int(np.argmax(votes + gaussian(sigma, CLASSES))))
        counts.append(count)
    return np.array(labels), counts


def by_numpy(data: Data) -> Near:
    rows = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)

    def near(query: Features) -> tuple[Integers, NDArray[Any]]:
        cosines = rows @ (query / np.linalg.norm(query))
        found = np.flatnonzero(cosines >= data.threshold)
        return found, cosines[found]

    return near


def by_faiss(data: Data) -> Near:
    import faiss

    index = faiss.IndexFlatIP(data.X.shape[1])
    index.add(data.X / np.linalg.norm(data.X, axis=1, keepdims=True))

    def near(query: Features) -> tuple[Integers, NDArray[Any]]:
        _, cosines, found = index.range_search((query / np.linalg.norm(query))[None], data.threshold)
        return found, cosines

    return near


# --- contenders ----------------------------------------------------------------------------------------

PRODUCT, PEER, FAISS = "matrix product alone", "plain numpy", "faiss range search"
EXACT, SINGLE, DURABLE = "ours, batches", "ours, one at a time", "ours, batches, durable"
HASHED, HASHED_SINGLE = "ours, hashed, batches", "ours, hashed, one at a time"
CONTENDERS = [PRODUCT, EXACT, DURABLE, SINGLE, HASHED, HASHED_SINGLE, PEER, *([FAISS] if find_spec("faiss") else [])]


def made(contender: str, data: Data, setting: Setting, place: Path) -> tuple[Answers, list[float]]:
    """A function that answers queries with new budgets, and the list to which it appends numbers of neighbours.

    Durable budgets are in a file in `place`.
    """
    counts: list[float] = []
    if contender == PRODUCT:

        def multiply(queries: Features) -> Integers:
            for start in range(0, len(queries), setting.batch):
                _ = queries[start : start + setting.batch] @ data.X.T
            return np.full(len(queries), -1)

        return multiply, counts
    if contender in (PEER, FAISS):
        near = by_numpy(data) if contender == PEER else by_faiss(data)
        rng = np.random.default_rng(1)

        def publish(queries: Features) -> Integers:
            labels, found = published(data, setting, near, lambda sigma, size: rng.normal(0, sigma, size), queries)
            counts.extend(found)
            return labels

        return publish, counts
    hashing = (setting.tables, setting.bits) if contender in (HASHED, HASHED_SINGLE) else None
    store = open_store(place / f"budgets {time.perf_counter_ns()}") if contender == DURABLE else None
    ours = model(data, setting, None, hashing=hashing, store=store)
    size = 1 if contender in (SINGLE, HASHED_SINGLE) else setting.batch

    def predict(queries: Features) -> Integers:
        labels = []
        for start in range(0, len(queries), size):
            labels.append(ours.predict(queries[start : start + size]))
            counts.extend(ours.counts_)
        return np.concatenate(labels)

    return predict, counts


def check(seed: int = 0) -> None:
    """Compare our labels with those of the published algorithm for the same draws.

    Raises
    ------
    RuntimeError
        It does something else.
    """
    setting = Setting(records=2000, width=32, queries=40, neighbours=100)
    data, source = make_data(setting), as_randomness(seed)
    near = by_numpy(data)
    expected, _ = published(data, setting, near, lambda sigma, size: source.gaussian(sigma, size, 1.0), data.queries)
    labels = model(data, setting, seed).predict(data.queries)
    if labels.tolist() != expected.tolist():
        raise RuntimeError(f"ours: {labels.tolist()}; the published algorithm: {expected.tolist()}")


def peak() -> float:
    """Peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(contender: str, setting: Setting) -> Figures:
    """The median of several runs, after a first one that compiles and imports."""
    check()
    as_randomness(None).gaussian(1.0, 1, 1.0)
    imports, data = peak(), make_data(setting)
    queries = data.queries[: setting.peer_queries] if contender in (PEER, FAISS) else data.queries
    walls, cpus, setups = [], [], []
    with TemporaryDirectory() as place:
        for _ in range(setting.repeats):
            start = time.perf_counter()
            answers, counts = made(contender, data, setting, Path(place))
            setups.append(time.perf_counter() - start)
            start, cpu = time.perf_counter(), time.process_time()
            labels = answers(queries)
            walls.append(time.perf_counter() - start)
            cpus.append(time.process_time() - cpu)
            del answers
    return Figures(
        contender=contender,
        queries=len(queries),
        ms_per_query=1000 * median(walls) / len(queries),
        cpu_ms_per_query=1000 * median(cpus) / len(queries),
        setup_ms=1000 * median(setups),
        accuracy=float((labels == data.truth[: len(queries)]).mean()),
        count=float(np.mean(counts)) if counts else 0.0,
        above_features_mb=(peak() - imports - data.X.nbytes) / MEGABYTE,
        labels=labels.tolist(),
    )


# --- output --------------------------------------------------------------------------------------------


def report(setting: Setting, load: float) -> dict[str, Any]:
    """Run every contender in a fresh process; the figures as they are printed and written to JSON."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        results = [pool.submit(measure, name, setting).result() for name in CONTENDERS]
    exact = next(np.array(figures.labels) for figures in results if figures.contender == EXACT)
    rows = []
    for figures in results:
        row = asdict(figures)
        labels = np.array(row.pop("labels"))
        rows.append({**row, "agreement": float((labels == exact[: len(labels)]).mean())})
    return {
        "setting": asdict(setting),
        "machine": {
            "cores": os.cpu_count(),
            "load_before": load,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "features_mb": 4 * setting.records * setting.width / MEGABYTE,
        "same_labels_for_same_draws": True,
        "results": rows,
    }


def print_table(figures: dict[str, Any]) -> None:
    setting, machine = figures["setting"], figures["machine"]
    table = Table(title="Ind-KNN, cosine kernel")
    table.add_column("contender")
    for name in ("ms a query", "CPU ms", "set up ms", "mean K", "right", "agreement", "MB above features"):
        table.add_column(name, justify="right")
    for row in figures["results"]:
        released = row["contender"] != PRODUCT
        table.add_row(
            row["contender"],
            f"{row['ms_per_query']:.2f}",
            f"{row['cpu_ms_per_query']:.2f}",
            f"{row['setup_ms']:.0f}",
            *([f"{row['count']:.0f}", f"{row['accuracy']:.3f}", f"{row['agreement']:.3f}"] if released else [""] * 3),
            f"{row['above_features_mb']:.0f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(
        f"n = {setting['records']}, d = {setting['width']}, {setting['queries']} queries in batches of "
        f"{setting['batch']}, hashing ({setting['tables']}, {setting['bits']}); "
        f"features {figures['features_mb']:.0f} MB.\n"
        f"{machine['cores']} cores, load before the run {machine['load_before']:.1f}; "
        f"Python {machine['python']}, numpy {machine['numpy']}. Same labels for the same draws: yes."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in asdict(Setting()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--json", type=Path, help="file to write the same figures to")
    arguments = vars(parser.parse_args())
    target = arguments.pop("json")
    load = os.getloadavg()[0]
    figures = report(Setting(**arguments), load)
    print_table(figures)
    if target is not None:
        target.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
