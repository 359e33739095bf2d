"""``mechanisms tune private-knn --data digits --grid neighbors=20,40 vote-sigma=8 --delta 1e-4 --out tuned.json``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.data import CommandData, add_data, parse_seed, warn_of_seed
from mechanisms.cli.preparation import plan_run, read_data, warn_of_delta
from mechanisms.cli.results_file import OptionError, add_output
from mechanisms.cli.summary import list_also_public, make_table, show_prices
from mechanisms.cli.tuning_file import TuningFile, find_tuning, refuse_unwritable

if TYPE_CHECKING:
    from mechanisms.tuning import Tuner, Tuning

__all__ = ["add_tune"]

NAMES = {
    "neighbors": "n_neighbors",
    "k": "n_neighbors",
    "queries": "n_queries",
    "rate": "sampling_rate",
    "tau": "threshold",
}
"""Other names of parameters in ``--grid``."""

REQUIRED = {
    "private-knn": ("n_neighbors", "vote_sigma"),
    "ind-knn": ("epsilon", "threshold", "vote_sigma"),
    "reverse-knn": ("n_queries", "n_neighbors", "epsilon"),
}
OPTIONAL = {
    "private-knn": ("sampling_rate", "screening_sigma", "threshold", "max_labels"),
    "ind-knn": ("count_share", "kernel", "bandwidth", "min_count"),
    "reverse-knn": ("delta", "model", "noise", "randomizer", "rounds", "balance"),
}
"""Names that a grid must and may have."""

TRIES = {"geometric": ac.Geometric, "poisson": ac.Poisson, "negative-binomial": ac.NegativeBinomial}


def add_tune(commands: Any) -> None:
    """Add the subcommand `tune`."""
    text = "Choose a setting by private validation records: the best of a random number of tries, for one price."
    tune = commands.add_parser("tune", help=text, description=text)
    parser_class = ac.terminal.Parser
    kinds = tune.add_subparsers(dest="mechanism", required=True, parser_class=parser_class, metavar="MECHANISM")
    for name, names in (
        ("private-knn", "neighbors, vote-sigma; sampling-rate (0.5), screening-sigma (none), threshold, max-labels"),
        ("ind-knn", "epsilon (of a try), threshold, vote-sigma; count-share (3), kernel, bandwidth, min-count"),
        ("reverse-knn", "queries, neighbors, epsilon (of a try); noise (laplace), rounds, balance, model, randomizer"),
    ):
        parser = kinds.add_parser(name, help=f"grid of {names.partition(';')[0]}", description=text)
        parser.set_defaults(run=_run_tune)
        _add_options(parser, names)
        if name == "reverse-knn":
            relations = ("replace", "add-remove")
            parser.add_argument("--adjacency", default="replace", choices=relations, help="add-remove: central alone")


def _add_options(parser: argparse.ArgumentParser, names: str) -> None:
    number, add = ac.terminal.number, parser.add_argument
    add("--grid", nargs="+", action="extend", required=True, metavar="NAME=A,B", help=f"values to try: {names}")
    usual = "geometric:10"
    shown = "geometric:MEAN, poisson:MEAN or negative-binomial:MEAN:SHAPE"
    add("--tries", type=_parse_tries, default=usual, help=f"number of tries, drawn: {shown} (default {usual})")
    add("--score-sigma", type=number, help="noise of a score, in validation records (default 2 %% of their number)")
    add("--epsilon", type=number, help="a budget: a higher price, with all that the file lists, is refused")
    add("--delta", type=number, required=True, help="of the guarantee; well below one over the number of records")
    add_data(parser, third="validation")
    more = "public number of validation records (default their number to two digits, which is then public)"
    add("--validation-records", metavar="N", type=ac.terminal.whole, help=more)
    add("--ids", metavar="NAME", help="column that identifies records and public points: no feature")
    add("--seed", type=parse_seed, help="a rehearsal that can be repeated; a real tuning draws from the system")
    add_output(parser, "result as .json; the whole price is charged beside it before the first try", dry_run=True)


def _parse_tries(text: str) -> Any:
    name, *values = text.split(":")
    try:
        return TRIES[name](*map(float, values))
    except (KeyError, TypeError, ValueError) as error:
        reason = f": {error}" if isinstance(error, ac.ParameterError) else ""
        accepted = "geometric:MEAN, poisson:MEAN or negative-binomial:MEAN:SHAPE"
        raise argparse.ArgumentTypeError(f"{text!r}{reason}; accepted: {accepted}") from None


def parse_grid(parts: list[str], mechanism: str) -> dict[str, list[Any]]:
    """Names and values of ``--grid``.

    Raises
    ------
    OptionError
        A part is not NAME=A,B, or a name comes twice, is unknown, or is missing.
    """
    grid: dict[str, list[Any]] = {}
    for part in parts:
        name, equals, values = part.partition("=")
        key = name.strip().replace("-", "_")
        key = NAMES.get(key, key)
        if not equals or not key or key in grid or not all(each.strip() for each in values.split(",")):
            raise OptionError(f"--grid {part}; accepted: NAME=A,B,..., each name once")
        grid[key] = [_parse_value(each.strip()) for each in values.split(",")]
    required, known = REQUIRED[mechanism], (*REQUIRED[mechanism], *OPTIONAL[mechanism])
    wrong = [f"unknown {_option(key)}" for key in grid if key not in known]
    wrong += [f"{_option(key)} is missing" for key in required if key not in grid]
    if wrong:
        needed, others = (", ".join(map(_option, names)) for names in (required, OPTIONAL[mechanism]))
        accepted = f"{needed}, and of {others} what is to differ from its default"
        raise OptionError(f"--grid: {wrong[0]}; accepted: {accepted}")
    return grid


def _option(key: str) -> str:
    """The name of a parameter in a command."""
    return key.removeprefix("n_").replace("_", "-")


def _parse_value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text == "none" else text


def _make(options: argparse.Namespace, classes: int, queries: int) -> Any:
    """Makes the mechanism of a setting."""
    import mechanisms as mx

    def make(**setting: Any) -> Any:
        if options.mechanism == "private-knn":
            return mx.PrivateKNN(**{"sampling_rate": 0.5, "screening_sigma": None, "n_classes": classes, **setting})
        if options.mechanism == "ind-knn":
            target = {"delta": options.delta, "n_queries": queries, "n_classes": classes}
            return mx.IndividualKNN.for_budget(**target, **setting)
        relation = {str(each): each for each in ac.Adjacency}[options.adjacency]
        return mx.ReverseKNN(n_classes=classes, adjacency=relation, **setting)

    return make


# --- running -------------------------------------------------------------------------------------------


def _run_tune(options: argparse.Namespace) -> int:
    from mechanisms.tuning import Tuner, price_selections
    from mechanisms.validation import nominal_count

    grid, file, data = parse_grid(options.grid, options.mechanism), find_tuning(options), read_data(options)
    validation, replace = data.test, getattr(options, "adjacency", "") == "replace"
    if validation is None or validation.labels is None:
        raise OptionError("no validation records; accepted: --validation SOURCE with labels, or --data SOURCE")
    if replace and options.records is not None:
        accepted = "--adjacency add-remove, or no --records: the number of records is public"
        raise OptionError(f"--records {options.records} was given with --adjacency replace; accepted: {accepted}")
    about = options.validation_records or (len(validation) if replace else nominal_count(len(validation)))
    sigma = max(0.02 * about, 1.0) if options.score_sigma is None else options.score_sigma
    with plan_run():
        tuner = Tuner(
            _make(options, data.n_classes, len(data.public)),
            grid,
            data.public.features,
            tries=options.tries,
            score_sigma=sigma,
            n_records=len(data.private) if replace else data.nominal,
            rng=options.seed,
        )
        price = price_selections(file.charges * tuner.selection, options.delta)
        total = price_selections(file.composition + file.charges * tuner.selection, options.delta)
    if options.epsilon is not None and total.epsilon > options.epsilon:
        price_up = ac.format_up(total.epsilon)
        accepted = f"--epsilon {price_up} or more, fewer tries, or more noise"
        raise OptionError(f"--epsilon {options.epsilon:g}: the price is {price_up}; accepted: {accepted}")
    warn_of_delta(options.delta, data.nominal)
    summary = _summarise(options, data, tuner, price, about)
    summary |= {"charges": file.charges, "earlier": file.earlier}
    summary |= {"total": {"epsilon": total.epsilon, "delta": total.delta}}
    summary["releases"] = ac.composition_to_tables(file.charges * tuner.selection)
    refuse_unwritable("result", summary)
    if not options.dry_run:
        warn_of_seed(options)
        with file.open_for_run() as journal:
            found = tuner.run(data.private.features, data.private.labels, _pair(validation), journal)
            summary |= _describe(found, about)
            file.write(journal, _columns(data, found), summary)
    if options.json:
        ac.terminal.print_json(summary)
    else:
        _print(summary, data, str(price), file)
    return 0


def _pair(validation: Any) -> tuple[Any, Any]:
    return validation.features, validation.labels


def _summarise(
    options: argparse.Namespace, data: CommandData, tuner: Tuner, price: ac.Guarantee, about: int
) -> dict[str, Any]:
    """What is known before anything is drawn: public options, and what follows from them."""
    one, replace = tuner.try_guarantee(options.delta), price.adjacency is ac.Adjacency.REPLACE
    return {
        "mechanism": f"tune {options.mechanism}",
        "outcome": "dry run",
        "setting": None,
        "score": None,
        "epsilon": price.epsilon,
        "delta": price.delta,
        "adjacency": str(price.adjacency),
        "method": price.method,
        "tries": tuner.tries.to_table(),
        "dearest_try": {"epsilon": one.epsilon, "delta": one.delta},
        "score_sigma": tuner.score_event.sigma,
        "grid": tuner.settings,
        "queries": len(tuner.public),
        "records": {"private": tuner.n_records, "public": len(data.public), "validation": about},
        "classes": data.n_classes,
        "class_names": data.class_names,
        "also_public": [
            *list_also_public(options, tuner.n_records, replace, data.class_names),
            *(
                []
                if replace or options.data is not None or options.validation_records
                else [f"about {about} validation records (public)"]
            ),
        ],
        "seeded": options.seed is not None,
        "dry_run": options.dry_run,
        "out": options.out,
    }


def _describe(found: Tuning, about: int) -> dict[str, Any]:
    """What was released."""
    score = found.score
    return {
        "outcome": "no try" if found.setting is None else "chosen",
        "setting": found.setting,
        "score": score,
        "accuracy": None if score is None else min(max(score / about, 0.0), 1.0),
        "labelled": int(np.count_nonzero(found.labels >= 0)),
        "charges": found.charges,
        "releases": ac.composition_to_tables(found.composition),
    }


def _columns(data: CommandData, found: Tuning) -> dict[str, Any]:
    """Labels of the public points, and what the student of them predicts there."""
    labels = found.labels
    predictions = labels if found.student is None else found.student.predict(data.public.features)
    return {"id": data.query_ids, "label": data.name_labels(labels), "prediction": data.name_labels(predictions)}


def _print(summary: dict[str, Any], data: CommandData, price: str, file: TuningFile) -> None:
    table = make_table(f"{summary['mechanism']} on {data.private.name}")
    records = ", ".join(f"{count} {part}" for part, count in summary["records"].items())
    tries = summary["tries"]
    drawn = ", ".join(f"{key} {value}" for key, value in tries.items() if key != "distribution")
    one = summary["dearest_try"]
    rows = [
        ("records", records),
        ("also public", "; ".join(summary["also_public"])),
        ("settings", f"{len(summary['grid'])}, each try draws one at random"),
        ("tries", f"{tries['distribution']}, {drawn}; how many there are stays secret"),
        ("noise of the score", f"{summary['score_sigma']:.4g} validation records"),
        ("the dearest try alone", f"({ac.format_up(one['epsilon'])}, {ac.format_up(one['delta'])})-DP"),
        ("charged before", f"{file.killed} killed runs of this tuning" if file.killed and not file.finished else ""),
        ("price of the tuning", price),
    ]
    if summary["outcome"] == "chosen":
        chosen = ", ".join(f"{name} = {value}" for name, value in summary["setting"].items())
        rows.append(("chosen", chosen))
        rows.append(("score", f"{summary['score']:.1f} right, about {100 * summary['accuracy']:.0f} %"))
    for what, value in rows:
        if value:
            table.add_row(what, value)
    if summary["outcome"] == "no try":
        table.add_row("chosen", "nothing: no try was drawn, which is part of the price")
    dry = summary["dry_run"]
    show_prices(table, summary | {"out": None} if dry else summary)
    if dry:
        table.add_row("released", "nothing: this was a dry run")
    ac.terminal.console().print(table)
