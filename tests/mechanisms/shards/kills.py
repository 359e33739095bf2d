"""Workers killed at random moments: ``python -m tests.mechanisms.shards.kills --kills 200 [--separate]``.

Runs of all three mechanisms over a Dask cluster, again and again, until so many workers were killed with SIGKILL; every
run must give the labels, counts and budgets of a run in memory. Ind-KNN's partitions charge their records in a store:
an SQLite file, or with ``--postgresql URL`` databases that are made there; ``{}`` in the URL stands for their names.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from unittest import mock

import numpy as np

import mechanisms as mx
from mechanisms.budgets import open_store
from mechanisms.budgets.ledger import close_ledgers
from mechanisms.noise import as_randomness
from mechanisms.shards import nearest, pieces, similar
from tests.mechanisms.shards.tables import individual_knn, private_knn, reverse_knn, write_parquet

WORKERS = 3


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--separate", action="store_true")
    parser.add_argument("--postgresql", metavar="URL")
    options = parser.parse_args(arguments)
    new = None if options.postgresql is None else lambda: new_database(options.postgresql)
    with tempfile.TemporaryDirectory() as folder:
        kills, runs, seconds = run_over_kills(Path(folder), options.kills, options.separate, new)
    kind = "separate programs" if options.separate else "LocalCluster"
    print(f"{kind}: {kills} kills in {runs} runs and {seconds:.0f} s, every run as in memory")


def new_database(url):
    """Address of a new database of a PostgreSQL server."""
    import psycopg

    name = f"d{time.time_ns()}"
    with closing(psycopg.connect(url.format("postgres"), autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.format(name)


def run_over_kills(folder, wanted, separate, new_store=None):
    """Number of kills and of runs, and seconds; asserts that every run is as in memory."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60_000, 16)).astype(np.float32)
    data = x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0), rng.normal(size=(120, 16)).astype(np.float32)
    write_parquet(folder / "records", (30_000, 30_000), 5000, x=x, y=data[1])
    small = (
        mock.patch.object(nearest, "PASS", 20),
        mock.patch.object(similar, "PASS", 20),
        mock.patch.object(pieces, "LEAST_BYTES", 3e5),
        # noise of a store may not come from a seed; here it must, to compare with a run in memory
        mock.patch("mechanisms.individual_knn.check_source", _seeded),
    )
    start, runs = time.monotonic(), 0
    with small[0], small[1], small[2], small[3]:
        cases = [(case, case(None, data, folder)) for case in (private, reverse, individual)]
        if new_store is not None:
            cases = [(lambda *given: individual(*given, new_store()), cases[2][1])]
        with cluster_of(separate) as workers, Killer(workers, wanted) as killer:
            while killer.kills < wanted or runs < len(cases):
                case, expected = cases[runs % len(cases)]
                found = case(folder / "records", data, Path(tempfile.mkdtemp(dir=folder)))
                assert all(a.tobytes() == b.tobytes() for a, b in zip(expected, found, strict=True)), case.__name__
                runs += 1
    close_ledgers()
    return killer.kills, runs, time.monotonic() - start


def _seeded(rng, store):
    return as_randomness(1)


def private(where, data, folder):
    x, y, queries = data
    with mx.Journal(folder / "private") if where else nullcontext() as journal:
        model = private_knn().fit(where or x, "label" if where else y)
        found = model.label(queries, journal)
        assert model.spent_ == found.composition
        if where:  # each query was charged once, and answered or refused
            charges, answers = journal.held()
            assert (charges, answers) == (found.composition.releases, len(queries))
            again = model.unused().fit(where, "label")
            assert again.label(queries[:0]).composition.releases == 0
    return found.labels, found.answered


def reverse(where, data, folder):
    x, y, queries = data
    found = reverse_knn(rounds=2).label(where or x, "label" if where else y, queries)
    return found.labels, *(each.counts for each in found.rounds)


def individual(where, data, folder, store=None):
    x, y, queries = data
    ids = [f"person {i}" for i in range(len(x))]
    if not where:
        model = individual_knn(budget=0.05).fit(x, y, ids)
        return model.predict(queries), model.counts_, model.budgets_, model._filter.UNITS - model._filter.left
    with open_store(store or folder / "store") as store:
        model = individual_knn(budget=0.05, store=store).fit(where, "label", "person")
        labels = model.predict(queries, run="run")
        spent = store.spent(store.positions(ids))
        again = individual_knn(budget=0.05, store=store).fit(where, "label", "person")
        assert np.array_equal(again.predict(queries, run="run"), labels)
        assert np.array_equal(store.spent(store.positions(ids)), spent), "an answer that was kept costs nothing"
        return labels, model.counts_, model.budgets_, spent


# --- clusters ------------------------------------------------------------------------------------------


@contextmanager
def cluster_of(separate):
    """A client of a new cluster; yields a function that lists the process numbers of its workers."""
    import distributed

    with warnings.catch_warnings(action="ignore"):
        if not separate:
            options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
            with distributed.LocalCluster(processes=True, **options) as cluster, distributed.Client(cluster):
                yield _LocalWorkers(cluster)
        else:
            with Programs() as programs, distributed.Client(programs.address, timeout=60) as client:
                client.wait_for_workers(WORKERS, timeout=120)
                yield programs.workers


class _LocalWorkers:
    def __init__(self, cluster):
        self._cluster = cluster

    def __call__(self, known):
        """Process numbers of workers at known addresses; those that Dask's nannies gave up are made anew."""
        self._cluster.scale(WORKERS)
        return [each.pid for each in list(self._cluster.workers.values()) if each.worker_address in known]


class Programs:
    """A scheduler and workers as separate programs; a worker that ended is started again, as a supervisor would."""

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address, self._over = f"tcp://127.0.0.1:{port}", threading.Event()
        options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        self._scheduler = self._start("scheduler", *options)
        self._workers = [self._start_worker() for _ in range(WORKERS)]
        self._supervisor = threading.Thread(target=self._supervise)
        self._supervisor.start()
        return self

    def _start(self, kind, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _start_worker(self):
        return self._start(
            "worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"
        )

    def _supervise(self):
        while not self._over.wait(0.1):
            for i, worker in enumerate(self._workers):
                if worker.poll() is not None:
                    self._workers[i] = self._start_worker()

    def workers(self, known):
        return [worker.pid for worker in self._workers if worker.poll() is None]

    def __exit__(self, *_):
        self._over.set()
        self._supervisor.join()
        for each in (*self._workers, self._scheduler):
            each.kill()
            each.wait()


class Killer:
    """Kills a random worker at random moments, while another one is there."""

    def __init__(self, workers, wanted):
        self.kills, self._workers, self._wanted = 0, workers, wanted
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        import distributed

        self._client = distributed.get_client()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        since = {}
        while self.kills < self._wanted and not self._over.wait(random.uniform(0.0, 0.6)):
            # Dask's nannies give up a worker that dies while it starts
            known = list(self._client.scheduler_info(n_workers=-1)["workers"])
            since = {pid: since.get(pid, time.monotonic()) for pid in self._workers(known) if pid}
            old = [pid for pid, begun in since.items() if time.monotonic() > begun + 1]
            if len(known) > 1 and old:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(old), signal.SIGKILL)
                    self.kills += 1


if __name__ == "__main__":
    main()
