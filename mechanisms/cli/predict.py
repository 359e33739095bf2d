"""``mechanisms predict ind-knn``: private prediction with a budget for every record."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.cluster_option import add_cluster, on_cluster
from mechanisms.cli.data import CommandData, add_data, parse_seed, warn_of_seed
from mechanisms.cli.preparation import plan_run, read_data, warn_of_delta
from mechanisms.cli.results_file import (
    OptionError,
    ResultsFile,
    add_output,
    count_answers,
    follow_link,
    refuse_finished,
    refuse_no_output,
    refuse_seeded_repeat,
    write_results,
)
from mechanisms.cli.sharded import use_cluster
from mechanisms.cli.store_option import (
    check_store,
    hold_digests,
    open_existing,
    parse_store,
    refuse_moving_digests,
    rehearse_store,
    store_exists,
)
from mechanisms.cli.stream import serve_stream
from mechanisms.cli.summary import NOT_PRIVATE, list_also_public, make_table, show_prices
from mechanisms.individual_votes import worth_of_budget
from mechanisms.presets import PRESETS, individual_knn_preset
from mechanisms.validation import check_real

if TYPE_CHECKING:
    from mechanisms.budgets.journal import Journal
    from mechanisms.budgets.store import Store
    from mechanisms.experiment.prediction import Prediction

__all__ = ["add_predict"]

EARLIER = ("mechanism", "epsilon", "delta", "budget", "store")
"""Keys of a finished run's summary that the next summary in the same file keeps."""

WRITTEN = "written: "
"""Before the name of a run in a store, a run without queries: the results of the former are in their file."""

BARS = 10
BAR_LENGTH = 40
"""Of the histogram of spent budgets: number of bars, and characters of the longest."""


def add_predict(commands: Any) -> None:
    """Add the subcommand `predict`."""
    text = "Answer public queries one by one; every private record pays for the answers it took part in."
    predict = commands.add_parser("predict", help=text, description=text)
    kinds = predict.add_subparsers(
        dest="mechanism", required=True, parser_class=ac.terminal.Parser, metavar="MECHANISM"
    )
    parser = kinds.add_parser("ind-knn", help="kernel-weighted votes, individual budgets", description=text)
    parser.set_defaults(run=_run_predict)
    number, whole, add = ac.terminal.number, ac.terminal.whole, parser.add_argument
    add("--epsilon", type=number, required=True, help="the guarantee, for the whole interaction")
    add("--delta", type=number, required=True, help="of the guarantee; well below one over the number of records")
    add_data(parser)
    add("--queries", type=whole, help="public points to ask, in order (default all); with --public -, about how many")
    add("--preset", metavar="NAME", help=f"threshold, noise and hashing of the paper, {', '.join(PRESETS)}")
    add("--kernel", choices=("cosine", "rbf"), help="similarity (default cosine)")
    add("--bandwidth", type=number, help="of rbf (default e^0.75)")
    add("--threshold", type=number, help="least similarity (default: by --selectivity, on public points)")
    add("--selectivity", type=number, help="share of points that a query is similar to (default 0.05)")
    add("--vote-sigma", type=number, help="noise of votes (default: a typical record's votes take half its budget)")
    add("--count-share", type=number, help="share of the budget for always being counted (default 3)")
    add("--conversion", default="gdp", choices=("gdp", "renyi"), help="from the target to budgets (default gdp)")
    add("--hash", metavar="L,B", dest="hashing", type=_parse_hashing, help="L tables of B random hyperplanes")
    add("--reuse", action="store_true", help="answered queries join the records, at no cost")
    add(
        "--store", metavar="WHERE", type=parse_store, help="durable budgets: a file, sqlite:///path or postgresql://..."
    )
    add("--ids", metavar="NAME|digest", help="column that identifies records, or a keyed digest; needed with --store")
    add("--seed", type=parse_seed, help="reproducible; without it exact noise from the system, as a real service needs")
    add_cluster(parser)
    add("--diagnostics", action="store_true", help="print accuracy and spent budgets, too: not to be published")
    out = "labels as .npz, .parquet or .csv; with --store an interrupted run goes on when started again"
    add_output(parser, out, dry_run=True)


def _parse_hashing(text: str) -> tuple[int, int]:
    try:
        tables, bits = text.split(",")
        return int(tables), int(bits)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: TABLES,BITS such as 30,8") from None


def _run_predict(options: argparse.Namespace) -> int:
    from mechanisms.budgets.store import StoreError
    from mechanisms.experiment.prediction import PredictionSetting, Serving, plan_prediction, predict, rehearse

    _check(options)
    _choose_kernel(options)
    if options.public == "-":
        if on_cluster(options):
            accepted = "--public SOURCE, as partitions are read for many queries at a time"
            raise OptionError(f"--public - was given with --workers or --scheduler; accepted: {accepted}")
        return serve_stream(options)
    earlier = _read_earlier(options)
    refuse_no_output(options)
    data = read_data(options)
    warn_of_delta(options.delta, data.nominal)
    named = vars(options)
    setting = PredictionSetting(**{field.name: named[field.name] for field in fields(PredictionSetting)})
    public = {"n_classes": data.n_classes, "nominal": data.nominal}
    if options.dry_run or (options.store is not None and not store_exists(options.store)):
        with open_existing(options.store) as store, plan_run():
            found = plan_prediction(setting, data.private, data.public, **public, store=store)
            if not on_cluster(options):  # those in partitions are read by the run alone
                ids = options.ids if options.ids == "digest" else data.private.ids
                rehearse(found.model, data.private, rehearse_store(options, store, data.private, data.class_names), ids)
            identity = _identify(store)
        if options.dry_run:
            _show(options, data, found, _summarise(options, data, found, identity, earlier))
            return 0
    warn_of_seed(options)
    with use_cluster(options), _hold(options, earlier) as (results, journal), _open(options) as store:
        hold_digests(store, options, data.private, data.class_names)
        identity = _identify(store)
        ids = options.ids if options.ids == "digest" or on_cluster(options) else data.private.ids
        asked = data.public.features[: options.queries]
        run = store and _name_run(store, results, asked)
        serving = Serving(store, ids, run, announce=partial(_announce, len(asked)))
        found = predict(setting, data.private, data.public, **public, serving=serving)
        summary = _summarise(options, data, found, identity, earlier)
        count = len(found.labels)
        columns = {"id": data.query_ids[:count], "label": data.name_labels(found.labels), "answered": found.labels >= 0}
        write_results(results.held_path(journal), columns, summary)
        if store is not None:
            with suppress(StoreError):  # the results are there, whatever the store says of them
                store.begin(f"{WRITTEN}{run}", {}, 0)
    _show(options, data, found, summary)
    if options.diagnostics:
        _print_budgets(found, options.json)
    return 0


@contextmanager
def _hold(options: argparse.Namespace, earlier: list[dict[str, Any]]) -> Iterator[tuple[ResultsFile, Journal]]:
    """The file for the results, which no other process writes meanwhile, and its journal.

    Raises
    ------
    OptionError
        Another process has just finished a run into it, or a run of another command was interrupted there.
    JournalError
        Another process holds it.
    """
    path = follow_link(Path(options.out))
    results = ResultsFile(path, earlier, ac.Composition())
    with results.hold() as journal:
        if journal.held() != (0, 0):
            accepted = "that command again, or another file"
            raise OptionError(
                f"--out {path}: {journal.path.name} is of an interrupted run of another command; accepted: {accepted}"
            )
        yield results, journal


def _open(options: argparse.Namespace) -> Any:
    """The store, made if it is not there; a context manager of None without one."""
    from mechanisms.budgets.store import open_store

    return nullcontext() if options.store is None else open_store(options.store)


def _announce(asked: int, kept: int) -> None:
    # one with all answers may have been finished, by an earlier version or into a file that is gone
    found = "an interrupted run" if kept < asked else "a run of the same queries"
    print(f"mechanisms: going on with {found}, {count_answers(kept)} kept", file=sys.stderr)


def _show(options: argparse.Namespace, data: CommandData, found: Prediction, summary: dict[str, Any]) -> None:
    if options.json:
        ac.terminal.print_json(summary)
    else:
        _print(found, summary, data.private.name, options.store is not None)


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, before anything is read or spent."""
    if options.store is not None and options.seed is not None:
        raise OptionError("--store keeps what real answers cost; accepted: without --seed")
    if options.store is not None and options.ids is None:
        raise OptionError("--store without --ids; accepted: --ids NAME, a column, or --ids digest")
    check_real("delta", options.delta, "[0, 1)", lambda delta: 0 <= delta < 1)
    check_store(options.store)
    refuse_moving_digests(options)
    refuse_seeded_repeat(options)


def _choose_kernel(options: argparse.Namespace) -> None:
    """Take what the user leaves open from the preset, and refuse what would not be read.

    Raises
    ------
    OptionError
    """
    if options.selectivity is not None and options.threshold is not None:
        raise OptionError(
            f"--selectivity {options.selectivity:g} and --threshold {options.threshold:g}; accepted: one of them, as "
            "the first chooses the second"
        )
    bandwidth = options.bandwidth  # that of a preset may meet a kernel that was given
    _fill_preset(options)
    if bandwidth is not None and options.kernel != "rbf" and options.store is None:  # a store keeps its kernel
        raise OptionError(f"--bandwidth {bandwidth:g} without --kernel rbf; accepted: both, or no --bandwidth")


def _fill_preset(options: argparse.Namespace) -> None:
    """Take what the user leaves open from the preset."""
    if options.preset is None:
        return
    try:
        found = individual_knn_preset(options.preset, options.epsilon)
    except ac.ParameterError as error:
        raise OptionError(f"--{error}") from None
    if options.selectivity is not None:
        raise OptionError(f"--preset {options.preset} with --selectivity; accepted: one of them, or --threshold")
    for name, value in found.parameters.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def _read_earlier(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Earlier releases that the results file lists, oldest first."""
    found = refuse_finished(options)
    if found is None:
        return []
    try:
        return [*found["earlier"], {name: found[name] for name in EARLIER}]
    except (KeyError, TypeError):
        accepted = "another file"
        raise OptionError(f"--out {options.out}: holds the results of another command; accepted: {accepted}") from None


def _name_run(store: Store, results: ResultsFile, queries: Any) -> str:
    """The name under which a store keeps the answers.

    It is the same when an interrupted command is started again: the same file, queries and number of finished runs. One
    that has all answers, whose results were not written, and whose directory is gone, was moved with it and goes on
    under its old name. Without all answers it may be a run of another machine, where that directory is.

    Raises
    ------
    OptionError
        Several runs may have been moved here, or the one that may have been lacks answers.
    """
    assert results.path is not None
    asked = hashlib.sha256(np.ascontiguousarray(queries).tobytes()).hexdigest()
    place, about = results.path.resolve(), f" {asked[:16]} {len(results.earlier)}"
    known = set(store.runs(about))
    left = [Path(name.removesuffix(about)) for name in known if f"{WRITTEN}{name}" not in known]
    moved = [each for each in left if each.is_absolute() and each.name == place.name and _is_gone(each.parent)]
    if f"{place}{about}" in known or not moved:
        return f"{place}{about}"
    if len(moved) > 1:
        places, accepted = " or ".join(sorted(map(str, moved))), "the file at one of them, or another name"
        raise OptionError(f"--out {results.path}: its run began as {places}, which are gone; accepted: {accepted}")
    name = f"{moved[0]}{about}"
    answered = np.count_nonzero(store.answers(name, 0, len(queries))[0] >= 0)
    if answered < len(queries):
        began = f"a run that began as {moved[0]}, which is not there, has {answered} of {len(queries)} answers"
        accepted = "that path, which goes on with it, or another name, which begins a new run"
        raise OptionError(f"--out {results.path}: {began}; accepted: {accepted}")
    print(f"mechanisms: the run that began as {moved[0]}, which is gone, goes on here", file=sys.stderr)
    return name


def _is_gone(directory: Path) -> bool:
    """Whether a directory is not there; one that this user cannot look at may be."""
    try:
        return not directory.exists()
    except OSError:
        return False


def _identify(store: Any) -> str | None:
    """A public name of the store."""
    return None if store is None else hmac.digest(store.key(), b"identity", "sha256").hex()[:16]


# --- results -------------------------------------------------------------------------------------------


def _summarise(
    options: argparse.Namespace, data: CommandData, found: Prediction, store: str | None, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    """The summary for `--json` and `--out`: public options, what follows from them, and what was paid for; no more."""
    price, model = found.guarantee, found.model
    setting = asdict(found.setting)
    seeded = setting.pop("seed") is not None  # the seed would reveal the noise
    return {
        "mechanism": "ind-knn",
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "conversion": found.setting.conversion,
        "queries": found.setting.queries,
        "answered": len(found.labels),
        "budget": model.budget,
        "threshold": model.threshold,
        "count_sigma": model.count_sigma,
        "vote_sigma": model.vote_sigma,
        "records": {"private": data.nominal, "public": len(data.public)},
        "classes": data.n_classes,
        "class_names": data.class_names,
        "also_public": list_also_public(options, data.nominal, class_names=data.class_names),
        "store": store,
        "earlier": earlier,
        "total": _price_total(found, store, earlier),
        "setting": setting,
        "seeded": seeded,
        "dry_run": options.dry_run,
        "out": options.out,
    }


def _price_total(found: Prediction, store: str | None, earlier: list[dict[str, Any]]) -> dict[str, float]:
    """The price of all releases that the file lists; all that use the same store share one budget and count once."""
    budgets = {each["store"] or number: each["budget"] for number, each in enumerate(earlier)}
    budgets[store or len(earlier)] = found.model.budget
    price = found.guarantee
    if len(budgets) > 1:
        run = ac.Composition((worth_of_budget(budget), 1) for budget in budgets.values())
        price = ac.epsilon(run, price.delta, method="tight")
    return {"epsilon": price.epsilon, "delta": price.delta}


def _print(found: Prediction, summary: dict[str, Any], name: str, stored: bool) -> None:
    table = make_table(f"ind-knn on {name}")
    dry = summary["dry_run"]
    whole = "everything that the store ever pays for" if stored else "this run; others add to it"
    for what, value in (
        ("records", ", ".join(f"{count} {part}" for part, count in summary["records"].items())),
        ("also public", "; ".join(summary["also_public"])),
        ("would ask", f"{summary['queries']} queries" if dry else ""),
        ("answered", "" if dry else f"{summary['answered']} of {summary['queries']} queries"),
        ("budget of a record", f"{summary['budget']:.6g} ({summary['conversion']})"),
        ("threshold", f"{summary['threshold']:.4g}"),
        ("noise", f"{summary['count_sigma']:.4g} on counts, {summary['vote_sigma']:.4g} sqrt(K) on votes"),
        ("guarantee", f"{found.guarantee}, for {whole}"),
    ):
        if value:
            table.add_row(what, value)
    show_prices(table, summary | {"out": None} if dry else summary)
    if dry:
        table.add_row("released", "nothing: this was a dry run")
    ac.terminal.console().print(table)


def _print_budgets(found: Prediction, quiet: bool) -> None:
    """Print what was not paid for; on stderr if stdout holds a JSON object."""
    screen = ac.terminal.console(stderr=quiet)
    screen.print(NOT_PRIVATE)
    screen.print("accuracy: " + ("not known" if found.accuracy is None else f"{100 * found.accuracy:.1f} %"))
    screen.print("share of its budget that a record has spent")
    counts, edges = np.histogram(found.spent, BARS, (0.0, 1.0))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        bar = "#" * round(BAR_LENGTH * count / max(int(counts.max()), 1))
        screen.print(f"{100 * low:4.0f} to {100 * high:3.0f} %  {count:7d}  {bar}")
