"""Queries from standard input, one a line; every answer is in the store before its line is written."""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from mechanisms.cli.data import load_private
from mechanisms.cli.preparation import warn_of_delta
from mechanisms.cli.results_file import OptionError, csv_writer
from mechanisms.cli.store_option import hold_digests, rehearse_store, store_exists

if TYPE_CHECKING:
    from accountant import Guarantee
    from mechanisms.budgets.store import Store
    from mechanisms.datasets import Dataset
    from mechanisms.individual_knn import IndividualKNN

__all__ = ["read_queries", "serve_stream"]


def serve_stream(options: argparse.Namespace) -> int:
    """Answer ``--public -``: a header, then a query a line; lines ``id,label`` go out, each as soon as it is known.

    An answer and its charges are committed to the store before its line is written. The same identifier (or the same
    number of the line) with the same values is the same query: asked again, it gets the same answer, at no cost.

    Raises
    ------
    accountant.AccountantError
        Options do not go together, or a line cannot be used; nothing is charged for this line.
    """
    from mechanisms.budgets.store import open_store
    from mechanisms.experiment.prediction import rehearse

    _check(options)
    private, n_classes, names, nominal = load_private(options)
    warn_of_delta(options.delta, nominal)
    new = not store_exists(options.store)
    if new:
        store, ids = rehearse_store(options, None, private, names), _identifiers(options, private)
        rehearse(_plan_service(options, private, n_classes, nominal, None)[0], private, store, ids)
    queries = read_queries(sys.stdin, private, None if options.ids == "digest" else options.ids)
    with ExitStack() as stack:

        def start() -> IndividualKNN:
            store = stack.enter_context(open_store(options.store))
            model, guarantee = _plan_service(options, private, n_classes, nominal, store)
            hold_digests(store, options, private, names)
            model.fit(private.features, private.labels, _identifiers(options, private))
            print(f"mechanisms: {guarantee}, for everything that the store ever pays for", file=sys.stderr)
            return model

        # a new store begins with the first query that can be used: input that is refused leaves none
        model = None if new else start()
        lines = _AnswerLines(options.json)
        for name, point in queries:
            model = model or start()
            digest = hashlib.sha256(point.tobytes()).hexdigest()[:32]
            number = int(model.predict(point[None], run=f"stream {digest} {name}")[0])
            lines.write(name, number if names is None else names[number])
    return 0


def _identifiers(options: argparse.Namespace, private: Dataset) -> Sequence[str] | str | None:
    """What identifies the records, as for `IndividualKNN.fit`."""
    return "digest" if options.ids == "digest" else private.ids


class _AnswerLines:
    """Answers on standard output, each flushed: a table with a header, or JSON objects."""

    def __init__(self, as_json: bool) -> None:
        self._json, self._writer = as_json, csv_writer(sys.stdout)
        if not as_json:
            self._writer.writerow(("id", "label"))
            sys.stdout.flush()

    def write(self, name: str, label: int | str) -> None:
        if self._json:
            print(json.dumps({"id": name, "label": label}))
        else:
            self._writer.writerow((name, label))
        sys.stdout.flush()


def _plan_service(
    options: argparse.Namespace, private: Dataset, n_classes: int, nominal: int, store: Store | None
) -> tuple[IndividualKNN, Guarantee]:
    """The mechanism, by the options and by what the store was settled with, and its guarantee."""
    from mechanisms.datasets import Dataset
    from mechanisms.experiment.prediction import PredictionSetting, complete_setting, make_model

    named = vars(options)
    setting = PredictionSetting(**{field.name: named[field.name] for field in fields(PredictionSetting)})
    settled = None if store is None else store.settings()
    wanted = {"--queries": options.queries, "--threshold": options.threshold, "--vote-sigma": options.vote_sigma}
    lacking = [name for name, value in wanted.items() if value is None]
    if not settled and lacking:
        accepted = "--queries N, --threshold T and --vote-sigma S, or a store that a run over a file has settled"
        raise OptionError(f"--public - with a new store and without {', '.join(lacking)}; accepted: {accepted}")
    # there are no public points yet
    unknown = Dataset("standard input", np.zeros((1, private.features.shape[1]), np.float32), None)
    chosen = complete_setting(setting, options.queries or 1, nominal, unknown, settled or None)
    model = make_model(setting, chosen, settled or None, n_classes, store)
    return model, model.guarantee(setting.delta, setting.conversion)


def _check(options: argparse.Namespace) -> None:
    if options.store is None:
        reason = "answers that are paid for must outlast the process"
        raise OptionError(f"--public - without --store: {reason}; accepted: --store WHERE and --ids NAME or digest")
    for name, given in (
        ("--out", options.out is not None),
        ("--diagnostics", options.diagnostics),
        ("--again", options.again),
        ("--dry-run", options.dry_run),
    ):
        if given:
            raise OptionError(f"{name} was given with --public -; accepted: answers on standard output alone")
    if options.reuse:
        raise OptionError("--reuse was given with --public -; accepted: without --reuse")


def read_queries(lines: TextIO, private: Dataset, ids: str | None) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Identifier and features of each query, in the order of the private columns; each as soon as its line is there.

    The header is read, and checked, by the call itself.

    Parameters
    ----------
    lines : text stream
        CSV with a header, if the private features have names; else lines of numbers in the order of the features.
    private : Dataset
    ids : str or None
        Column of identifiers, if the header has it; else a query's number, from 0, identifies it.

    Raises
    ------
    OptionError
        A line cannot be used; the message says which.
    """
    rows = csv.reader(iter(lines.readline, ""), strict=True)
    width, where, key = private.features.shape[1], list(range(private.features.shape[1])), None
    length = width
    if private.columns is not None:
        header = _next(rows)
        if header is None:
            return iter(())
        where, key, length = *_match_header(header, private, ids), len(header)
    return _read_rows(rows, where, key, length)


def _read_rows(rows: Any, where: list[int], key: int | None, length: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    number = 0
    while (row := _next(rows)) is not None:
        if row:
            yield (str(number) if key is None else row[key]), _parse(row, where, length, rows.line_num)
            number += 1


def _next(rows: Any) -> list[str] | None:
    try:
        return next(rows, None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise OptionError(f"standard input, line {rows.line_num + 1}: {error}; accepted: CSV in UTF-8") from None


def _match_header(header: Sequence[str], private: Dataset, ids: str | None) -> tuple[list[int], int | None]:
    """Where the private columns, and the identifiers, stand in the header."""
    columns = private.columns or ()
    lone = [name for name in columns if name not in header]
    lone += [name for name in header if name not in columns and name != ids and name not in private.ignored]
    twice = [name for name in header if header.count(name) > 1]
    if lone or twice:
        what = f"column {lone[0]!r} on one side only" if lone else f"column {twice[0]!r} twice"
        raise OptionError(f"standard input: {what}; accepted: a header with the features of {private.name}")
    return [header.index(name) for name in columns], None if ids is None or ids not in header else header.index(ids)


def _parse(row: list[str], where: list[int], length: int, line: int) -> NDArray[np.float32]:
    """The features in a line."""
    if len(row) != length:
        raise OptionError(f"standard input, line {line}: {len(row)} values; accepted: {length}")
    values = np.empty(len(where))
    for place, position in enumerate(where):
        try:
            values[place] = float(row[position])
        except ValueError:
            values[place] = np.nan
        if not abs(values[place]) <= 1e15:
            raise OptionError(f"standard input, line {line}: {row[position]!r}; accepted: numbers in [-1e15, 1e15]")
    return values.astype(np.float32) + np.float32(0)  # turns -0 into 0, which is the same number
