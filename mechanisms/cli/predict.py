"""``mechanisms predict ind-knn``: private prediction with a budget for every record."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import sys
from contextlib import nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.data import LEARNT_CLASSES, Given, add_data, parts, seed, warn_of_seed
from mechanisms.cli.results_file import OptionError, add_output, progress_bar, refuse_finished, write_results

if TYPE_CHECKING:
    from mechanisms.experiment.prediction import Prediction

__all__ = ["add_predict"]

NOT_PRIVATE = "not private: do not publish"

EARLIER = ("mechanism", "epsilon", "delta", "budget", "store")
"""What a summary says of a finished run when the next one goes into the same file."""

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
    add("--delta", type=number, required=True, help="of the guarantee; well below one over the number of records")
    add_data(parser)
    add("--queries", type=whole, help="public points to ask, in order (default all)")
    add("--kernel", choices=("cosine", "rbf"), help="similarity (default cosine)")
    add("--bandwidth", type=number, help="of rbf (default e^1.5)")
    add("--threshold", type=number, help="least similarity (default: by --selectivity, on public points)")
    add("--selectivity", type=number, help="share of points that a query is similar to (default 0.05)")
    add("--vote-sigma", type=number, help="noise of votes (default: a typical record's votes take half its budget)")
    add("--count-share", type=number, help="share of the budget for always being counted (default 3)")
    add("--conversion", default="gdp", choices=("gdp", "renyi"), help="from the target to budgets (default gdp)")
    add("--hash", metavar="L,B", dest="hashing", type=_hashing, help="L tables of B random hyperplanes")
    add("--reuse", action="store_true", help="answered queries join the records, at no cost")
    add("--store", metavar="WHERE", help="durable budgets: a file, sqlite:///path or postgresql://...")
    add("--ids", metavar="NAME|digest", help="column that identifies records, or a keyed digest; needed with --store")
    add("--seed", type=seed, help="reproducible; without it exact noise from the system, as a real service needs")
    add("--diagnostics", action="store_true", help="print accuracy and spent budgets, too: not to be published")
    add_output(parser, "labels as .npz or .parquet; with --store an interrupted run goes on when started again")


def _hashing(text: str) -> tuple[int, int]:
    try:
        tables, bits = text.split(",")
        return int(tables), int(bits)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: TABLES,BITS such as 30,8") from None


def _run(options: argparse.Namespace) -> int:
    from mechanisms.experiment.prediction import PredictionSetting, predict

    _check(options)
    earlier = _earlier(options)
    given = parts(options)
    named = vars(options)
    setting = PredictionSetting(**{field.name: named[field.name] for field in fields(PredictionSetting)})
    total = len(given.public) if options.queries is None else options.queries
    warn_of_seed(options)
    with _opened(options.store) as store, progress_bar("predicting", total, options.json) as progress:
        found = predict(
            setting,
            given.private,
            given.public,
            n_classes=given.n_classes,
            ids="digest" if options.ids == "digest" else given.private.ids,
            nominal=given.nominal,
            store=store,
            progress=progress,
            run=_run_name(options, len(earlier), given.public.features[:total]) if store is not None else None,
        )
        identity = None if store is None else hmac.digest(store.key(), b"identity", "sha256").hex()[:16]
    if found.kept:
        print(f"mechanisms: going on with an interrupted run, {found.kept} answers are kept", file=sys.stderr)
    summary = _summary(options, given, found, identity, earlier)
    if options.out:
        names = found.labels if given.class_names is None else np.array(given.class_names)[found.labels]
        write_results(Path(options.out), {"label": names}, summary)
    if options.json:
        ac.terminal.print_json(summary)
    else:
        _print(found, summary, given.private.name)
    if options.diagnostics:
        _print_diagnostics(found, options.json)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, before anything is read or spent."""
    if options.store and options.seed is not None:
        raise OptionError("--store keeps what real answers cost; accepted: without --seed")
    if options.store and options.ids is None:
        raise OptionError("--store without --ids; accepted: --ids NAME, a column, or --ids digest")
    if options.again and options.seed is not None:
        reason = "its noise could repeat that of an earlier release"
        raise OptionError(f"--again was given with --seed: {reason}; accepted: --again without --seed")


def _earlier(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What was released into the same file before, oldest first."""
    found = refuse_finished(options)
    if found is None:
        return []
    try:
        return [*found["earlier"], {name: found[name] for name in EARLIER}]
    except (KeyError, TypeError):
        accepted = "another file"
        raise OptionError(f"--out {options.out}: holds the results of another command; accepted: {accepted}") from None


def _run_name(options: argparse.Namespace, earlier: int, queries: Any) -> str | None:
    """The same for the same queries into the same file, after as many finished runs; None keeps no answers."""
    if not options.out:
        return None
    asked = hashlib.sha256(np.ascontiguousarray(queries).tobytes()).hexdigest()
    return f"{Path(options.out).resolve()} {asked[:16]} {earlier}"


def _opened(where: str | None) -> Any:
    if where is None:
        return nullcontext()
    from mechanisms.budgets.store import open_store

    return open_store(where)


# --- results -------------------------------------------------------------------------------------------


def _summary(
    options: argparse.Namespace, given: Given, found: Prediction, store: str | None, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    """What `--json` and `--out` say: public options, what they fix, and what was paid for. Nothing else."""
    price, model = found.guarantee, found.model
    setting = asdict(found.setting)
    seeded = setting.pop("seed") is not None  # whoever knows the seed knows the noise
    return {
        "mechanism": "ind-knn",
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "conversion": found.setting.conversion,
        "queries": len(found.labels),
        "answered": len(found.labels),
        "budget": model.budget,
        "threshold": model.threshold,
        "count_sigma": model.count_sigma,
        "vote_sigma": model.vote_sigma,
        "records": {"private": given.nominal, "public": len(given.public)},
        "classes": given.n_classes,
        "class_names": given.class_names,
        "also_public": _also_public(options, given),
        "store": store,
        "earlier": earlier,
        "total": _total(found, store, earlier),
        "setting": setting,
        "seeded": seeded,
        "out": options.out,
    }


def _total(found: Prediction, store: str | None, earlier: list[dict[str, Any]]) -> dict[str, float]:
    """The price of all that the file tells of; answers from one store are one interaction, whatever their number."""
    budgets = {each["store"] or number: each["budget"] for number, each in enumerate(earlier)}
    budgets[store or len(earlier)] = found.model.budget
    price = found.guarantee
    if len(budgets) > 1:
        run = ac.Composition((ac.GaussianDP((2 * budget) ** 0.5), 1) for budget in budgets.values())
        price = ac.epsilon(run, price.delta, method="tight")
    return {"epsilon": price.epsilon, "delta": price.delta}


def _also_public(options: argparse.Namespace, given: Given) -> list[str]:
    """What becomes known of private records beside what was paid for."""
    said = [LEARNT_CLASSES] if options.learn_classes else []
    if options.data is not None:
        return ["the number of records is public: --data is cut by it", *said]
    return said if options.records is not None else [f"about {given.nominal} records (public)", *said]


def _print(found: Prediction, summary: dict[str, Any], name: str) -> None:
    from rich.table import Table

    table = Table(title=f"ind-knn on {name}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    whole = "everything that the store ever pays for" if summary["store"] else "this run; others add to it"
    for what, value in (
        ("records", ", ".join(f"{count} {part}" for part, count in summary["records"].items())),
        ("also public", "; ".join(summary["also_public"])),
        ("answered", f"{summary['answered']} of {summary['queries']} queries"),
        ("budget of a record", f"{summary['budget']:.6g} ({summary['conversion']})"),
        ("threshold", f"{summary['threshold']:.4g}"),
        ("noise", f"{summary['count_sigma']:.4g} on counts, {summary['vote_sigma']:.4g} sqrt(K) on votes"),
        ("guarantee", f"{found.guarantee}, for {whole}"),
        ("released before", ", ".join(f"({each['epsilon']:.6g}, {each['delta']:g})" for each in summary["earlier"])),
        ("results", summary["out"] or ""),
    ):
        if value:
            table.add_row(what, value)
    if summary["earlier"]:
        table.add_row("all together", f"({summary['total']['epsilon']:.6g}, {summary['total']['delta']:g})-DP")
    ac.terminal.console().print(table)


def _print_diagnostics(found: Prediction, quiet: bool) -> None:
    """What nobody paid for; beside a JSON object on stderr."""
    screen = ac.terminal.console(stderr=quiet)
    screen.print(NOT_PRIVATE)
    screen.print("accuracy: " + ("not known" if found.accuracy is None else f"{100 * found.accuracy:.1f} %"))
    screen.print("share of its budget that a record has spent")
    counts, edges = np.histogram(found.spent, BARS, (0.0, 1.0))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        bar = "#" * round(WIDTH * count / max(int(counts.max()), 1))
        screen.print(f"{100 * low:4.0f} to {100 * high:3.0f} %  {count:7d}  {bar}")
