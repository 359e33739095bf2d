"""``mechanisms plan private-knn --public FILE --records 60000 --epsilon 1``: what settings will bring, at no cost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import accountant as ac
from mechanisms.cli.data import MAPS, parse_classes, parse_names, parse_seed
from mechanisms.cli.plan_votes import add_plan_votes, parse_ratio, values_of
from mechanisms.cli.results_file import OptionError

if TYPE_CHECKING:
    from mechanisms.forecast import Forecast, Proposal

__all__ = ["add_plan"]

MECHANISMS = {
    "private-knn": "Private-kNN",
    "ind-knn": "Ind-KNN",
    "reverse-knn": "reverse k-NN",
}

COLUMNS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "private-knn": (
        ("n_neighbors", "k", "count"),
        ("sampling_rate", "rate", "number"),
        ("screening_sigma", "screening noise", "number"),
        ("threshold", "threshold", "number"),
        ("vote_sigma", "vote noise", "number"),
        ("rounds", "rounds", "count"),
    ),
    "ind-knn": (
        ("kernel", "kernel", "text"),
        ("threshold", "threshold", "number"),
        ("count_sigma", "count noise", "number"),
        ("vote_sigma", "vote noise", "number"),
    ),
    "reverse-knn": (
        ("n_neighbors", "k", "count"),
        ("model", "model", "text"),
        ("noise", "noise", "text"),
        ("randomizer", "reports", "text"),
    ),
}
"""Parameters in the table: name, title and kind of column."""

SUPPORT = 10
"""Public points behind an answer below which a forecast is rough."""


def add_plan(commands: Any) -> None:
    """Add the subcommand `plan`."""
    text = "Compare settings by labelled public points, and propose the best; spends nothing and reads no private data."
    plan = commands.add_parser("plan", help=text, description=text)
    kinds = plan.add_subparsers(dest="mechanism", required=True, parser_class=ac.terminal.Parser, metavar="MECHANISM")
    for name, title in MECHANISMS.items():
        parser = kinds.add_parser(name, help=title, description=f"Compare settings of {title} by public points.")
        parser.set_defaults(run=_run)
        _add_common(parser, name)
        _add_values(parser, name)
    add_plan_votes(kinds)


def _add_common(parser: argparse.ArgumentParser, mechanism: str) -> None:
    number, whole, add = ac.terminal.number, ac.terminal.whole, parser.add_argument
    usual = "0" if mechanism == "reverse-knn" else "a power of ten, at most a tenth of one over the records"
    add("--public", metavar="SOURCE", required=True, help="public points with public labels: digits, openml:NAME, file")
    add("--records", metavar="N", type=whole, required=True, help="public number of private records")
    add("--epsilon", type=number, required=True, help="the guarantee that all settings keep")
    add("--delta", type=number, help=f"of the guarantee (default {usual})")
    add("--classes", metavar="N|LIST", type=parse_classes, help="number of classes, their names, or @names.txt")
    add("--label", metavar="NAME", default="label", help="column of labels (default label)")
    add("--features", choices=MAPS, default="raw", help="what is made of the columns (default raw)")
    add("--exclude", metavar="A,B,C", type=parse_names, default=(), help="columns that are not used")
    add("--seed", type=parse_seed, default=0, help="of the draws of public points (default 0)")
    add("--top", metavar="N", type=whole, default=10, help="settings in the table (default 10)")
    add("--plot", metavar="FILE", help="draw the best forecasts: a file ending in .svg, .png or .pdf")
    ac.terminal.add_forms(parser)


def _add_values(parser: argparse.ArgumentParser, mechanism: str) -> None:
    """Options for the values to compare; the names are those of `plan_labelling`."""
    add, names = parser.add_argument, values_of(ac.terminal.nonblank)
    whole, real = values_of(ac.terminal.whole), values_of(ac.terminal.number)
    listed: dict[str, Any] = {"metavar": "A,B,C"}
    add("--queries", type=whole, help="numbers of queries (default: by the public points)", **listed)
    if mechanism != "ind-knn":
        add("--neighbors", dest="n_neighbors", type=whole, help="values of k (default: by the data)", **listed)
    if mechanism == "private-knn":
        add("--sampling-rate", type=real, help="rates of samples (default 0.05,0.1,0.2,0.5,1)", **listed)
        ratios = "screening noise over vote noise, none is no screening (default none,3)"
        add("--screening-ratio", type=values_of(parse_ratio), help=ratios, **listed)
        add("--threshold", type=real, help="votes that pass, as shares of k (default 0.5,0.6)", **listed)
        add("--max-labels", type=real, help="with screening, most answers as shares of queries (default 0.5)", **listed)
        add("--rounds", type=whole, help="rounds of so many queries each, all within epsilon (default 1)", **listed)
    elif mechanism == "ind-knn":
        add("--threshold", type=real, help="least similarities (default: 1 to 20 %% of points are similar)", **listed)
        add("--vote-sigma", type=real, help="noises of votes (default: by budget and queries)", **listed)
        add("--count-share", type=real, help="shares of the budget for being counted (default 1,3,9)", **listed)
        add("--kernel", type=names, help="similarities (default cosine)", **listed)
    else:
        add("--noise", type=names, help="of counts (default laplace, and gaussian if delta > 0)", **listed)
        add("--model", type=names, help="whom clients trust: central (default), local, shuffle", **listed)
        reports = "of the local and shuffle models (default collision, randomized-response)"
        add("--randomizer", type=names, help=reports, **listed)


def _run(options: argparse.Namespace) -> int:
    from mechanisms.forecast import plan_labelling
    from mechanisms.forecast.planning import GRIDS, default_delta

    target = None
    if options.plot is not None:
        target = ac.files.check_output(options.plot, (".svg", ".png", ".pdf"), keep=[options.public])
    features, labels, classes = _read_public(options)
    names = GRIDS[options.mechanism].__dataclass_fields__
    values = {name: value for name, value in vars(options).items() if name in names and value is not None}
    delta = default_delta(options.mechanism, options.records) if options.delta is None else options.delta
    guarantee = {"epsilon": options.epsilon, "delta": delta, "n_records": options.records}
    found = plan_labelling(
        options.mechanism, features, labels, **guarantee, n_classes=classes, seed=options.seed, **values
    )
    if target is not None:
        from mechanisms.forecast.drawing import draw_proposal

        ac.plots.save(draw_proposal(found), target)
    _show(options, found, delta)
    return 0


def _read_public(options: argparse.Namespace) -> tuple[Any, Any, int]:
    """Features and labels of the public points, and the number of classes."""
    from mechanisms.datasets import Columns, load
    from mechanisms.features import feature_map

    names = options.classes if isinstance(options.classes, tuple) else None
    data = load(options.public, classes=names, columns=Columns(options.label, exclude=options.exclude))
    if data.labels is None or data.labels.ndim != 1:
        raise OptionError(f"--public {options.public}: accepted: one public label for each point")
    classes = len(names) if names is not None else options.classes or data.classes or int(data.labels.max()) + 1
    return feature_map(options.features, data.features, data.images)(data.features), data.labels, classes


# --- what is printed -------------------------------------------------------------------------------------


def _show(options: argparse.Namespace, found: Proposal, delta: float) -> None:
    best, chosen = found.best, COLUMNS[options.mechanism]
    columns = [
        ac.terminal.Column("queries", "count"),
        *(ac.terminal.Column(title, kind) for _, title, kind in chosen),
        ac.terminal.Column("answers", "number"),
        ac.terminal.Column("right answers", "share"),
        ac.terminal.Column("right labels of all", "share"),
    ]
    rows = [
        [each.queries, *(_cell(each, name) for name, _, _ in chosen), round(each.answers, 1), each.accuracy, each.reach]
        for each in found.forecasts[: options.top]
    ]
    title = f"{MECHANISMS[options.mechanism]} by {options.public}: best of {len(found.forecasts)} settings"
    price = f"(epsilon {options.epsilon:g}, delta {delta:g}) for {options.records} private records"
    notes = [f"proposed: {propose_command(best, options)}", "spent: nothing; it assumes that"]
    notes += [f"  - {each};" for each in found.assumptions]
    notes.append("  - a point takes the label of the nearest answered query (right labels of all).")
    if best.support < SUPPORT:
        notes.append(f"rough: {best.support:.1f} public points stand for the records behind an answer; give more.")
    if options.plot is not None:
        notes.append(f"wrote {options.plot}")
    table = ac.terminal.Table(title, columns, rows, heading=price, notes=notes)
    ac.terminal.write_table(table, options.form, summarise(found, options, delta))


def _cell(forecast: Forecast, name: str) -> Any:
    value = forecast.rounds if name == "rounds" else forecast.parameters.get(name)
    return "none" if value is None else value


def summarise(found: Proposal, options: argparse.Namespace, delta: float) -> dict[str, Any]:
    """What `--json` prints."""

    def record(each: Forecast) -> dict[str, Any]:
        names = ("queries", "rounds", "answers", "accuracy", "reach", "epsilon", "delta", "support")
        parameters = {
            name: value if isinstance(value, int | float | str) else str(value)
            for name, value in each.parameters.items()
            if value is not None
        }
        return {**{name: getattr(each, name) for name in names}, "parameters": parameters}

    return {
        "mechanism": options.mechanism,
        "epsilon": options.epsilon,
        "delta": delta,
        "records": options.records,
        "public": options.public,
        "best": record(found.best),
        "command": propose_command(found.best, options),
        "assumptions": list(found.assumptions),
        "settings": [record(each) for each in found.forecasts[: options.top]],
    }


def propose_command(best: Forecast, options: argparse.Namespace) -> str:
    """The command that runs a setting; data and output are left to the user."""
    given, delta = best.parameters, best.delta
    target = f"--epsilon {options.epsilon!r} --delta {delta!r} --records {options.records}"
    if best.mechanism == "ind-knn":
        share = best.queries / (2 * given["budget"] * given["count_sigma"] ** 2)
        chosen = f"--queries {best.queries} --kernel {given['kernel']} --threshold {given['threshold']:.6g}"
        noise = f"--vote-sigma {given['vote_sigma']:.6g} --count-share {share:.4g}"
        return f"mechanisms predict ind-knn {target} {chosen} {noise}"
    features = "" if options.features == "raw" else f" --features {options.features}"
    if best.mechanism == "reverse-knn":
        target = target.partition(" --records")[0]
        trust = ("noise", "model", "randomizer")
        kind = " ".join(f"--{name} {given[name]}" for name in trust if name in given)
        chosen = f"--queries {best.queries} --neighbors {given['n_neighbors']} {kind}"
        return f"mechanisms label reverse-knn {target}{features} {chosen}"
    chosen = f"--queries {best.queries} --neighbors {given['n_neighbors']} --sampling-rate {given['sampling_rate']:g}"
    if given["screening_sigma"] is not None:
        ratio = given["screening_sigma"] / given["vote_sigma"]
        chosen += f" --screening-ratio {ratio:g} --threshold {given['threshold']:g} --max-labels {given['max_labels']}"
    chosen += f" --rounds {best.rounds}" if best.rounds > 1 else ""
    return f"mechanisms label private-knn {target}{features} {chosen}"
