"""Claim: 30 tables of 8 or 9 bits find a query's similar records five to seven times faster than a scan of all.

n = 50 000 records of 768 features by default (Zhu et al. 2023, Table 3: 0.25 s exact, 0.03 to 0.04 s with 30 tables of
8 or 9 bits). Search is what finds the similar records and their kernels; an answer is all that `predict` does for a
query, exact noise included. Times are of the processor, on one thread, the least of several repetitions in turn: other
load makes memory slower. Results of hashing are compared with the definition: similar records that share a bucket.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from individual_knn_query_time import Data, Setting, make_data, model

import accountant as ac
from mechanisms.neighbours.coarse import CoarseRows
from mechanisms.neighbours.hashing import Hashing
from mechanisms.neighbours.kernels import Cosine
from mechanisms.neighbours.records import Records
from mechanisms.noise.source import as_randomness

SCAN, COARSE, ANSWER = "scan of all records", "scan of all coarse rows", "answers, exact"


@dataclass
class Row:
    """Milliseconds of the processor for a query: alone, and in batches."""

    contender: str
    single_ms: float
    batch_ms: float
    candidates: float = 0.0
    similar: float = 0.0
    single_ratio: float = 1.0
    batch_ratio: float = 1.0


def searches(data: Data, options: argparse.Namespace) -> dict[str, tuple[Callable[[Any], int], float, float]]:
    """Functions that find the similar records of some queries; candidates and similar records of a query."""
    kernel = Cosine(data.threshold)
    rows, points = kernel.prepare(data.X), kernel.prepare(data.queries)
    records, everyone = Records(kernel, rows), np.arange(len(rows))

    def select(found: Iterable[Any]) -> int:
        return sum(len(records.select(query, slots)[0]) for query, slots in found)

    exact = [records.select(*each)[0] for each in records.near(points)]
    mean = float(np.mean([len(each) for each in exact]))
    coarse = CoarseRows(rows.shape[1])
    coarse.insert(everyone, rows)

    def scan_coarse(some: Any) -> int:
        least = [records.least_products(query, everyone) for query in some]
        return select(zip(some, coarse.reach(some, [everyone] * len(some), least), strict=True))

    found: dict[str, tuple[Callable[[Any], int], float, float]] = {
        SCAN: (lambda some: select(records.near(some)), len(rows), mean),
        COARSE: (scan_coarse, len(rows), mean),
    }
    for bits in options.bits:
        hashing = Hashing(options.tables, bits, rows.shape[1], as_randomness(bits))
        hashing.insert(everyone, rows)
        sizes, similar = check(hashing, records, points, exact)
        name = f"{options.tables} tables of {bits} bits"
        found[name] = (lambda some, hashing=hashing: select(hashing.near(records, some))), sizes, similar
    return found


def check(hashing: Hashing, records: Records, points: Any, exact: list[Any]) -> tuple[float, float]:
    """Mean numbers of candidates and of similar ones among them.

    Raises
    ------
    RuntimeError
        Something else is found than similar records that share a bucket.
    """
    candidates, similar = [], []
    for codes, (query, near), all_similar in zip(
        hashing.codes(points), hashing.near(records, points), exact, strict=True
    ):
        sharing = hashing.candidates(codes)
        found = records.select(query, near)[0]
        if found.tolist() != np.intersect1d(sharing, all_similar).tolist():
            raise RuntimeError("hashing found something else than similar records that share a bucket")
        candidates.append(len(sharing))
        similar.append(len(found))
    return float(np.mean(candidates)), float(np.mean(similar))


def answers(data: Data, setting: Setting, bits: int | None) -> Callable[[Any], int]:
    """A whole prediction with fresh budgets."""
    ours = model(data, setting, None, hashing=None if bits is None else (setting.tables, bits))
    return lambda some: len(ours.predict(some))


def measure(options: argparse.Namespace) -> list[Row]:
    """Times of all contenders, in turn."""
    setting = Setting(options.records, options.width, options.queries, tables=options.tables)
    data = make_data(setting)
    points = Cosine(0.0).prepare(data.queries)
    contenders = {name: (points, *each) for name, each in searches(data, options).items()}
    contenders[ANSWER] = data.queries, answers(data, setting, None), 0.0, 0.0
    for bits in options.bits:
        contenders[f"answers, {options.tables} tables of {bits} bits"] = (
            data.queries,
            answers(data, setting, bits),
            0.0,
            0.0,
        )
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for repeat in range(options.repeats + 1):
        for name, (queries, run, _, _) in contenders.items():
            pair = clock(run, queries, 1), clock(run, queries, options.batch)
            if repeat:  # the first one compiles and sorts
                times[name].append(pair)
    rows = []
    for name, (_, _, candidates, similar) in contenders.items():
        single, batch = (min(each[i] for each in times[name]) for i in (0, 1))
        base = next((row for row in rows if row.contender == (ANSWER if "answers" in name else SCAN)), None)
        ratios = (1.0, 1.0) if base is None else (base.single_ms / single, base.batch_ms / batch)
        rows.append(Row(name, single, batch, candidates, similar, *ratios))
    return rows


def clock(run: Callable[[Any], int], queries: Any, size: int) -> float:
    """Milliseconds of the processor for a query, so many at a time."""
    start = time.process_time()
    for first in range(0, len(queries), size):
        run(queries[first : first + size])
    return 1000 * (time.process_time() - start) / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("records", 50_000), ("width", 768), ("queries", 100), ("batch", 100), ("tables", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 9, 12])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # numpy reads them when it is imported
        rows = pool.submit(measure, options).result()
    titles = ("candidates", "similar", "ms, one at a time", "times faster", "ms, in batches", "times faster in batches")
    columns = [ac.terminal.Column("contender"), *(ac.terminal.Column(title, "value") for title in titles)]
    table = [
        [
            row.contender,
            *(f"{value:.0f}" if value else "" for value in (row.candidates, row.similar)),
            *(f"{value:.2f}" for value in (row.single_ms, row.single_ratio, row.batch_ms, row.batch_ratio)),
        ]
        for row in rows
    ]
    title = f"{options.records} records of {options.width} features, processor time of a query"
    ac.terminal.write_table(ac.terminal.Table(title, columns, table), "table")
    if options.json:
        setting = {key: value for key, value in vars(options).items() if key != "json"}
        figures = {"setting": setting, "results": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
