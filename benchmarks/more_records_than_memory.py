"""Claim: out of core, labels cost at most 1.5 times the bare matrix products, in less memory than the data.

Private-kNN labels queries by the records of a directory of Parquet files, which this script makes, on processes of one
machine. Beside it: the same workers read the same partitions and multiply them with the same queries, and nothing else.
The time grows in proportion to the number of records; from the figures follows a model of 10^9 records on 100 workers.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import mechanisms as mx
from mechanisms.neighbours.sampled import PRODUCTS
from mechanisms.shards import Shard, ShardedRecords, shard_records
from mechanisms.shards.nearest import PASS

CLASSES = 10
FILE_RECORDS = 500_000
GROUP_RECORDS = 50_000
MEGABYTE = 1e6
NEIGHBOURS, RATE = 300, 0.15


def make_data(folder: Path, records: int, width: int) -> None:
    """Gaussian clusters, one for each class, a file at a time."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, width), dtype=np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, records, FILE_RECORDS)):
        count = min(FILE_RECORDS, records - start)
        labels = rng.integers(0, CLASSES, count)
        features = rng.standard_normal((count, width), dtype=np.float32) + centres[labels]
        lists = pa.FixedSizeListArray.from_arrays(features.ravel(), width)
        table = pa.table({"features": lists, "label": labels.astype(np.int8)})
        path = folder / f"part-{number:04}.parquet"
        pq.write_table(table, path, row_group_size=GROUP_RECORDS, compression="none", use_dictionary=["label"])


def multiply(shard: Shard, queries: np.ndarray) -> int:
    """The bare products, of blocks as large as those of the search."""
    step = max(PRODUCTS // len(queries), 1024)
    for start in range(0, len(shard.features), step):
        queries @ shard.features[start : start + step].T
    return 0


class Memory:
    """The most memory that this process and its children held at once, in megabytes, while the block ran."""

    def __enter__(self) -> Memory:
        self.peak, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        self.peak = held_now()
        while not self._over.wait(1.0):
            self.peak = max(self.peak, held_now())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def held_now() -> float:
    """Megabytes that this process and its children hold and share with nobody."""
    me, held = psutil.Process(), 0.0
    for each in (me, *me.children(recursive=True)):
        try:
            held += each.memory_full_info().uss / MEGABYTE
        except psutil.Error:
            continue
    return held


def processor_seconds() -> float:
    """Of this process and its children, which live on."""
    me = psutil.Process()
    return float(sum(sum(each.cpu_times()[:2]) for each in (me, *me.children(recursive=True))))


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, the seconds that it took, and those of processors."""
    start, used = time.perf_counter(), processor_seconds()
    found = work()
    return found, time.perf_counter() - start, processor_seconds() - used


def make_model(queries: int) -> mx.PrivateKNN:
    return mx.PrivateKNN(NEIGHBOURS, RATE, 75.0, vote_sigma=25.0, max_labels=queries, n_classes=CLASSES, rng=0)


def measure(folder: Path, queries: np.ndarray) -> dict[str, Any]:
    """Figures for the records of one directory."""
    model = make_model(len(queries))
    with Memory() as memory:
        _, reading, _ = timed(lambda: model.fit(folder, "label"))
        out, seconds, used = timed(lambda: model.label(queries))
    shards: ShardedRecords = shard_records(folder, "label", None, CLASSES)

    def products() -> None:
        for start in range(0, len(queries), PASS):
            shards.ask("product", multiply, queries[start : start + PASS], sum)

    _, bare, bare_used = timed(products)
    return {
        "records": len(shards),
        "partitions": len(shards.sizes),
        "fit_seconds": reading,
        "seconds": seconds,
        "bare_seconds": bare,
        "ratio": seconds / bare,
        "cpu_seconds": used,
        "cpu_ratio": used / bare_used,
        "ms_per_query": 1000 * seconds / len(queries),
        "answered": int(out.answered.sum()),
        "peak_mb": memory.peak,
        "features_mb": len(shards) * shards.width * 4 / MEGABYTE,
    }


def model_of(rows: list[dict[str, Any]], workers: int, queries: int) -> dict[str, float]:
    """What 10^9 records on 100 workers would take, from the slope and the intercept of the measured times."""
    sizes, times = (np.array([row[name] for row in rows]) for name in ("records", "seconds"))
    slope, overhead = np.polyfit(sizes, times, 1) if len(rows) > 1 else (times[0] / sizes[0], 0.0)
    passes = -(-queries // PASS)
    pair, fixed = slope * workers / queries, max(overhead, 0.0) / passes
    parts, each = 10**9 // 10**6, 2 * NEIGHBOURS * 24.0
    return {
        "ns_per_query_and_record": 1e9 * pair,
        "overhead_seconds_per_pass": fixed,
        "overhead_ms_per_query": 1000 * max(overhead, 0.0) / queries,
        "seconds_per_1024_queries": pair * 10**9 * PASS / 100 + fixed,
        "megabytes_between_workers_per_1024_queries": each * PASS * parts / MEGABYTE,
        "megabytes_to_coordinator_per_1024_queries": each * PASS / MEGABYTE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--queries", type=int, default=PASS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="where to make the data, and to keep them")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    queries = np.random.default_rng(1).standard_normal((options.queries, options.width), dtype=np.float32)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        base = options.folder or Path(scratch)
        local = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 40}
        with distributed.LocalCluster(processes=True, memory_limit=0, **local) as cluster, distributed.Client(cluster):
            warm = base / "warm"
            make_data(warm, 20_000, options.width)
            make_model(64).fit(warm, "label").label(queries[:64])  # compiles, and starts what starts once
            for size in options.records:
                folder = base / f"records-{size}"
                if not folder.exists():
                    make_data(folder, size, options.width)
                rows.append(measure(folder, queries))
                print("  ".join(f"{name} {value:.6g}" for name, value in rows[-1].items()), flush=True)
    figures = {"sizes": rows, "model": model_of(rows, options.workers, options.queries), "workers": options.workers}
    for name, value in figures["model"].items():
        print(f"{name:48s}{value:.4g}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
