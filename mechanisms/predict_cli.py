"""``mechanisms predict ind-knn``: private prediction with a budget for every record."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli_data import UsageError, add_data, check_output, parts, progress_bar, seed, write_results

if TYPE_CHECKING:
    from mechanisms.prediction import Prediction

__all__ = ["add_predict"]

BARS = 10
WIDTH = 40


def add_predict(commands: Any) -> None:
    """The subcommand."""
    text = "Answer public queries one by one; every private record pays for the answers it took part in."
    predict = commands.add_parser("predict", help=text, description=text)
    kinds = predict.add_subparsers(
        dest="mechanism", required=True, parser_class=ac.terminal.Parser, metavar="MECHANISM"
    )
    parser = kinds.add_parser("ind-knn", help="kernel-weighted votes, individual budgets", description=text)
    parser.set_defaults(run=_run)
    number, whole, add = ac.terminal.number, ac.terminal.whole, parser.add_argument
    add("--epsilon", type=number, required=True, help="the guarantee, for the whole interaction")
    add("--delta", type=number, required=True)
    add_data(parser)
    add("--queries", type=whole, help="public points to ask, in order (default all)")
    add("--kernel", default="cosine", choices=("cosine", "rbf"), help="similarity (default cosine)")
    add("--bandwidth", type=number, default=float(np.exp(1.5)), help="of rbf (default e^1.5)")
    add("--threshold", type=number, help="least similarity (default: by --selectivity, on public points)")
    add("--selectivity", type=number, default=0.05, help="share of points that a query is similar to (default 0.05)")
    add("--vote-sigma", type=number, help="noise of votes (default: a typical record's votes take half its budget)")
    add("--count-share", type=number, default=3.0, help="share of the budget for always being counted (default 3)")
    add("--conversion", default="gdp", choices=("gdp", "renyi"), help="from the target to budgets (default gdp)")
    add("--hash", metavar="L,B", dest="hashing", type=_hashing, help="L tables of B random hyperplanes")
    add("--reuse", action="store_true", help="answered queries join the records, at no cost")
    add("--store", metavar="WHERE", help="durable budgets: a file, sqlite:///path or postgresql://...")
    add("--seed", type=seed, help="reproducible; without it exact noise from the system, as a real service needs")
    add("--out", metavar="FILE", help="labels as .npz or .parquet")
    add("--json", action="store_true", help="one JSON object instead of a table")


def _hashing(text: str) -> tuple[int, int]:
    try:
        tables, bits = text.split(",")
        return int(tables), int(bits)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: TABLES,BITS such as 30,8") from None


def _run(options: argparse.Namespace) -> int:
    from mechanisms.prediction import PredictionSetting, predict

    if options.out:
        check_output(Path(options.out))
    if options.store and options.seed is not None:
        raise UsageError("--store keeps what real answers cost; accepted: without --seed")
    private, public, _ = parts(options)
    named = vars(options)
    setting = PredictionSetting(**{field.name: named[field.name] for field in fields(PredictionSetting)})
    total = len(public) if options.queries is None else options.queries
    with _opened(options.store) as store, progress_bar("predicting", total, options.json) as progress:
        found = predict(setting, private, public, options.classes, store, progress)
    summary = _summary(found, setting, {"private": len(private), "public": len(public)}, options.out)
    if options.out:
        write_results(Path(options.out), {"label": found.labels}, summary)
    if options.json:
        ac.terminal.print_json(summary)
    else:
        _print(found, summary, private.name)
    return 0


def _opened(where: str | None) -> Any:
    if where is None:
        return nullcontext()
    from mechanisms.budgets import open_store

    return open_store(where)


def _summary(found: Prediction, setting: Any, records: dict[str, int], out: str | None) -> dict[str, Any]:
    price, model = found.guarantee, found.model
    return {
        "mechanism": "ind-knn",
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "conversion": setting.conversion,
        "queries": len(found.labels),
        "answered": len(found.labels),
        "accuracy": found.accuracy,
        "budget": model.budget,
        "threshold": model.threshold,
        "count_sigma": model.count_sigma,
        "vote_sigma": model.vote_sigma,
        "records": records,
        "setting": asdict(setting),
        "out": out,
    }


def _print(found: Prediction, summary: dict[str, Any], name: str) -> None:
    from rich.table import Table

    table = Table(title=f"ind-knn on {name}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    accuracy = "not known" if found.accuracy is None else f"{100 * found.accuracy:.1f} %"
    for what, value in (
        ("records", ", ".join(f"{count} {part}" for part, count in summary["records"].items())),
        ("answered", f"{summary['answered']} of {summary['queries']} queries"),
        ("accuracy", accuracy),
        ("budget of a record", f"{summary['budget']:.6g} ({summary['conversion']})"),
        ("threshold", f"{summary['threshold']:.4g}"),
        ("noise", f"{summary['count_sigma']:.4g} on counts, {summary['vote_sigma']:.4g} sqrt(K) on votes"),
        ("guarantee", str(found.guarantee)),
    ):
        table.add_row(what, value)
    if summary["out"]:
        table.add_row("results", summary["out"])
    screen = ac.terminal.console()
    screen.print(table)
    screen.print("share of its budget that a record has spent (private: not to be published)")
    counts, edges = np.histogram(found.spent, BARS, (0.0, 1.0))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        bar = "#" * round(WIDTH * count / max(int(counts.max()), 1))
        screen.print(f"{100 * low:4.0f} to {100 * high:3.0f} %  {count:7d}  {bar}")
    if summary["setting"]["seed"] is not None:
        screen.print("drawn from a seed: for experiments, not for a service")
