"""Claim: out of core, labels of 10^7 records take 1.4 times as long as the bare products, in less memory than the data.

Private-kNN labels queries by the records of a directory of Parquet files, which this script makes, on processes of one
machine. Beside it: the same workers read the features of the same partitions and multiply them with the same queries,
in single precision and into one buffer, and nothing else. The time grows in proportion to the number of records.

Ind-KNN then answers by a smaller set, whose partitions charge their records in an SQLite store. From the measured
constants follows a model of 10^9 records on 100 workers: time, bytes between machines, load of the store, and what is
full first. It leaves out waiting for a network that is slower than the workers.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import mechanisms as mx
from mechanisms.budgets import open_store
from mechanisms.budgets.ledger import Ledger, reach_ledger
from mechanisms.budgets.prediction_run import COMMIT_BATCH
from mechanisms.neighbours.sampled import count_rows
from mechanisms.shards import ShardedRecords, shard_records
from mechanisms.shards.engine import compute, count_workers
from mechanisms.shards.nearest import PASS
from mechanisms.shards.pieces import ParquetPiece, list_pieces
from mechanisms.shards.records import UnreadShard

CLASSES = 10
FILE_RECORDS = 500_000
GROUP_RECORDS = 50_000
MEGABYTE = 1e6
WARM_RECORDS = 80_000
NEIGHBOURS, RATE = 300, 0.15
SELECTED = 0.01
"""Share of the records that a query of Ind-KNN is similar to."""

MODELLED, MODELLED_WORKERS, MODELLED_PARTITION = 10**9, 100, 10**6


def make_data(folder: Path, records: int, width: int, ids: bool = False) -> None:
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
        if ids:
            table = table.append_column("person", pa.array([f"person {i}" for i in range(start, start + count)]))
        path = folder / f"part-{number:04}.parquet"
        pq.write_table(table, path, row_group_size=GROUP_RECORDS, compression="none", use_dictionary=["label"])


def multiply(piece: ParquetPiece, queries: np.ndarray) -> int:
    """The bare products, of blocks as large as those of the search."""
    queries, step = np.require(queries, requirements=["C", "ALIGNED"]), count_rows(len(queries))
    out = np.empty((len(queries), step), np.float32)
    tables = []
    for path in dict.fromkeys(path for path, _ in piece.segments):
        with pq.ParquetFile(path) as file:
            groups = [group for each, group in piece.segments if each == path]
            tables.append(file.read_row_groups(groups, columns=["features"]))
    column = pa.concat_tables(tables).column("features").combine_chunks()
    features = column.flatten().to_numpy().reshape(len(column), -1)
    for start in range(0, len(features), step):
        block = features[start : start + step]
        np.matmul(queries, block.T, out=out[:, : len(block)])
    return len(features)


def count_read(parts: Any) -> int:
    return sum(parts)


class _Nothing:
    """What the engine takes for a pass without any work."""

    lazy = True

    def __call__(self, part: UnreadShard, question: None) -> int:
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

    inputs = [(piece.source,) for piece in list_pieces(folder, "label", None, None, count_workers())]

    def products() -> None:
        for start in range(0, len(queries), PASS):
            read = compute("product", multiply, inputs, queries[start : start + PASS], count_read)
            assert read == len(shards)

    _, bare, bare_used = timed(products)
    _, _, engine = timed(lambda: [shards.ask("nothing", _Nothing(), None, sum) for _ in range(5)])
    passes = -(-len(queries) // PASS)
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
        "bare_ms_per_query": 1000 * bare / len(queries),
        "engine_ms_per_query": 1000 * engine / 5 * passes / len(queries),
        "engine_ms_per_task": 1000 * engine / 5 / len(shards.sizes),
        "answered": int(out.answered.sum()),
        "peak_mb": memory.peak,
        "features_mb": len(shards) * shards.width * 4 / MEGABYTE,
    }


def similarity_threshold(queries: np.ndarray, width: int) -> float:
    """Cosine that a share `SELECTED` of records reaches, on made records."""
    with tempfile.TemporaryDirectory() as scratch:
        make_data(Path(scratch), 20_000, width)
        lists = pq.read_table(Path(scratch)).column("features").combine_chunks()
    records = lists.flatten().to_numpy().reshape(len(lists), -1)
    sides = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries[:100], records))
    left, right = sides
    return float(np.quantile(left @ right.T, 1 - SELECTED))


def payment_seconds(ledger: Ledger, positions: np.ndarray) -> float:
    """For charging these records once, in one transaction; the least of several times."""
    batch, times = ledger.begin_batch(""), []
    for part in range(5):
        _, seconds, _ = timed(lambda part=part: ledger.pay(batch, part, positions, charge_one))
        times.append(seconds)
    ledger.cancel_batch(batch)
    return min(times)


def charge_one(spent: np.ndarray) -> tuple[np.ndarray, bytes]:
    return np.ones_like(spent), b""


def measure_payments(base: Path, queries: np.ndarray, records: int) -> dict[str, float]:
    """Figures of Ind-KNN, whose partitions charge a store."""
    folder, width = base / f"people-{records}", queries.shape[1]
    if not folder.exists():
        make_data(folder, records, width, ids=True)
    settings = {"budget": 2.0, "count_sigma": 60.0, "vote_sigma": 0.3, "n_classes": CLASSES}
    threshold = similarity_threshold(queries, width)
    with tempfile.TemporaryDirectory() as scratch, open_store(Path(scratch) / "store") as store:
        few_people = Path(scratch) / "few"  # imports what a first fit imports, which is no memory of records
        make_data(few_people, 2000, width, ids=True)
        mx.IndividualKNN(threshold=threshold, store=store, **settings).fit(few_people, "label", "person")
    with tempfile.TemporaryDirectory() as scratch, open_store(Path(scratch) / "store") as store:
        model = mx.IndividualKNN(threshold=threshold, store=store, **settings)
        tracemalloc.start()
        model.fit(folder, "label", "person")
        held = tracemalloc.get_traced_memory()[0] / records
        tracemalloc.stop()
        rounds: list[str] = []
        ask = model._records.ask
        model._records.ask = lambda what, *more: rounds.append(what) or ask(what, *more)
        _, seconds, _ = timed(lambda: model.predict(queries))
        positions = store.positions(model.ids_)
        ledger = reach_ledger(store.ledger())
        few, many = (payment_seconds(ledger, positions[: max(int(s * len(positions)), 1)]) for s in (0.01, 1.0))
    slope = max(many - few, 0.0) / (0.99 * records)
    return {
        "records": records,
        "ms_per_query": 1000 * seconds / len(queries),
        "rounds_per_query": len(rounds) / len(queries),
        "batches_per_query": rounds.count("pay") / len(queries),
        "store_us_per_record": 1e6 * slope,
        "store_ms_per_payment": 1000 * max(few - slope * 0.01 * records, 0.0),
        "coordinator_bytes_per_record": held,
    }


def model_of(rows: list[dict[str, Any]], people: dict[str, float], workers: int, queries: int) -> dict[str, float]:
    """What 10^9 records on 100 workers would take, from measured constants.

    Times are processor time, so that a busy machine does not change them. A pass of Private-kNN takes that of a query
    and a record, on all workers; what a pass costs a worker whatever the size; and what the engine does for each task.
    Ind-KNN pays in the store, one partition after another.
    """
    sizes, used = (np.array([row[name] for row in rows]) for name in ("records", "cpu_seconds"))
    times = used / workers
    slope, overhead = np.polyfit(sizes, times, 1) if len(rows) > 1 else (times[0] / sizes[0], 0.0)
    passes = -(-queries // PASS)
    pair, fixed = slope * workers / queries, max(overhead, 0.0) / passes
    parts, answer = MODELLED // MODELLED_PARTITION, 2 * NEIGHBOURS * 24.0 * PASS
    task = rows[-1]["engine_ms_per_task"] / 1000
    engine = parts * task
    products = pair * MODELLED * PASS / MODELLED_WORKERS
    touched = 1 - (1 - SELECTED) ** COMMIT_BATCH
    batches = people["batches_per_query"] * COMMIT_BATCH
    store = (
        batches * parts * people["store_ms_per_payment"] / 1000
        + MODELLED * touched * people["store_us_per_record"] / 1e6
    )
    search = pair * MODELLED * COMMIT_BATCH / MODELLED_WORKERS
    counts, votes = 16.0 * COMMIT_BATCH * parts, 8.0 * (1 + CLASSES) * COMMIT_BATCH * parts
    paying = people["batches_per_query"]
    return {
        "ns_per_query_and_record": 1e9 * pair,
        "overhead_seconds_per_pass": fixed,
        "overhead_ms_per_query": 1000 * max(overhead, 0.0) / queries,
        "relative_misfit_of_the_line": float(np.max(np.abs(slope * sizes + overhead - times) / times)),
        "seconds_per_1024_queries": products + fixed + engine,
        "engine_seconds_per_1024_queries": engine,
        "gigabytes_between_workers_per_1024_queries": answer * parts / 1e9,
        "megabytes_to_coordinator_per_1024_queries": answer / MEGABYTE,
        "partitions_where_the_engine_takes_as_long_as_the_products": products / task,
        "ind_knn_seconds_per_query_search": search / COMMIT_BATCH,
        "ind_knn_seconds_per_query_store": store / COMMIT_BATCH,
        "ind_knn_seconds_per_query_engine": people["rounds_per_query"] * engine,
        "ind_knn_kilobytes_per_query": ((people["rounds_per_query"] - paying) * counts + paying * votes) / 1000,
        "ind_knn_gigabytes_written_per_128_queries": 8e-9 * MODELLED * touched,
        "ind_knn_gigabytes_at_coordinator": people["coordinator_bytes_per_record"] * MODELLED / 1e9,
        "ind_knn_records_with_64_gigabytes_at_coordinator": 64e9 / people["coordinator_bytes_per_record"],
    }


def warm_up(folder: Path, queries: np.ndarray) -> None:
    """Compile, and start what a process starts once, on every worker: each has partitions of its own."""
    make_data(folder, WARM_RECORDS * count_workers(), queries.shape[1])
    make_model(len(queries)).fit(folder, "label").label(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000, 2_500_000, 5_000_000, 10_000_000])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--queries", type=int, default=PASS)
    parser.add_argument("--people", type=int, default=200_000, help="records of the set of Ind-KNN")
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
            warm_up(base / "warm", queries[:64])
            for size in options.records:
                folder = base / f"records-{size}"
                if not folder.exists():
                    make_data(folder, size, options.width)
                rows.append(measure(folder, queries))
                print("  ".join(f"{name} {value:.6g}" for name, value in rows[-1].items()), flush=True)
            people = measure_payments(base, queries[:COMMIT_BATCH], options.people)
            print("  ".join(f"{name} {value:.6g}" for name, value in people.items()), flush=True)
    model = model_of(rows, people, options.workers, options.queries)
    figures = {"sizes": rows, "people": people, "model": model, "workers": options.workers}
    for name, value in figures["model"].items():
        print(f"{name:60s}{value:.4g}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
