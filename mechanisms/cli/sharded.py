"""Commands over private records that stay in partitions, on workers of this machine or of a cluster."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from mechanisms.cli.cluster_option import on_cluster
from mechanisms.cli.data import CommandData
from mechanisms.cli.results_file import OptionError

__all__ = ["load_sharded", "use_cluster"]


@contextmanager
def use_cluster(options: argparse.Namespace) -> Iterator[None]:
    """A block in which Dask's workers read partitions; without them for other records."""
    if not on_cluster(options):
        yield
        return
    from mechanisms.validation import require

    distributed = require("distributed", "cluster")
    with warnings.catch_warnings():
        warnings.showwarning = cast(Any, _show_warning)
        try:
            client = _connect(distributed, options)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            accepted = "the address of a Dask scheduler that runs"
            raise OptionError(f"--scheduler {options.scheduler}: {reason}; accepted: {accepted}") from None
        with client:
            if find_spec("bokeh") is not None:  # without it there is no dashboard
                print(f"mechanisms: tasks are shown at {client.dashboard_link}", file=sys.stderr)
            yield


def _connect(distributed: Any, options: argparse.Namespace) -> Any:
    if options.scheduler is not None:
        return distributed.Client(options.scheduler, timeout=10)
    local = {"n_workers": options.workers, "threads_per_worker": 1, "processes": True, "silence_logs": logging.CRITICAL}
    return distributed.Client(**local, dashboard_address=":0")


def _show_warning(message: Any, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
    from mechanisms.shards import ShardSizeWarning

    where = "" if issubclass(category, ShardSizeWarning) else f" ({category.__name__} at {filename}:{lineno})"
    print(f"mechanisms: warning: {message}{where}", file=sys.stderr)


def load_sharded(options: argparse.Namespace) -> CommandData:
    """Public points, and what the footers of private Parquet files say; errors as for `load_data`."""
    from mechanisms.cli.data import check_excluded, read_query_ids, refuse_same
    from mechanisms.datasets import Columns, load, match_columns
    from mechanisms.shards.dataset import load_partitioned
    from mechanisms.validation import nominal_count

    _refuse(options)
    refuse_same(options)
    names = options.classes if isinstance(options.classes, tuple) else None
    exclude = (*options.exclude, *(() if options.ids is None else (options.ids,)))
    columns = Columns(options.label, None, options.columns, exclude, names)
    private: Any = load_partitioned(options.private, columns)
    if options.command == "predict" and options.ids not in (None, *private.ignored):
        found = f"{options.private} has no column {options.ids!r}"
        raise OptionError(f"--ids: {found}; accepted: the name of one that identifies records")
    public = match_columns(private, load(options.public, labelled=False, classes=names, columns=columns))
    check_excluded(exclude, [private, public])
    if public.features.shape[1] != private.width:
        found = f"{options.public}: records of {public.features.shape[1]} columns"
        raise OptionError(f"{found}; accepted: {private.width}, as {options.private}")
    n_classes = options.classes if isinstance(options.classes, int) else len(options.classes)
    if public.labels is not None and np.max(public.labels, initial=0) >= n_classes:
        raise OptionError(f"{options.public}: label {public.labels.max()}; accepted: 0..{n_classes - 1}")
    nominal = options.records or nominal_count(len(private))
    query_ids = read_query_ids(options.public, options.ids, len(public))
    return CommandData(private, public, None, n_classes, names, nominal, query_ids)


def _refuse(options: argparse.Namespace) -> None:
    """Refuse what needs all private records in one place, or one query at a time."""
    if options.private is None or options.public is None or options.data is not None:
        raise OptionError("--workers and --scheduler: accepted with --private PARQUET --public SOURCE")
    if options.classes is None:
        raise OptionError("--workers and --scheduler: accepted with --classes N, or --classes NAME,NAME,...")
    refused = {
        "--test": options.test is not None,
        "--learn-classes": options.learn_classes,
        "--standardize": options.standardize,
        "--impute-public": options.impute_public,
        "--diagnostics": options.diagnostics,
    }
    why = {name: "records stay in their partitions as they are" for name in refused}
    if options.command == "predict":
        refused |= {"--hash": options.hashing, "--ids digest": options.ids == "digest"}
        why["--hash"] = "tables would hold all records in one place"
        why["--ids digest"] = "digests number equal records, which needs all of them in one place"
    elif options.mechanism == "reverse-knn":
        refused |= {"--clients": options.clients, "--client-split": options.client_split}
        refused[f"--model {options.model}"] = options.model != "central"
        refused[f"--features {options.features}"] = options.features != "raw"
        why |= dict.fromkeys((*refused,)[-4:-1], "partitions are no clients, and send no reports")
    else:
        refused[f"--rounds {options.rounds}"] = options.rounds != 1
        refused[f"--features {options.features}"] = options.features != "raw"
    for name, given in refused.items():
        if given:
            reason = why.get(name, "records stay in their partitions as they are")
            raise OptionError(f"{name} was given with --workers or --scheduler: {reason}; accepted: without it")
