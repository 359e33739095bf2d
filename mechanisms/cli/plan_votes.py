"""``mechanisms plan pate --gaps 60,120 --teachers 250 --classes 10 --epsilon 1 --delta 1e-5``: from votes alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import accountant as ac
from mechanisms.cli.results_file import OptionError

if TYPE_CHECKING:
    from mechanisms.forecast import Forecast, Proposal

__all__ = ["add_plan_votes", "parse_ratio", "values_of"]

ACCEPTED = "a .npy or .csv file of whole numbers, a row for each query and a column for each class"


def values_of(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Several values with commas between them, for argparse."""

    def parse(text: str) -> tuple[Any, ...]:
        return tuple(read(part.strip()) for part in text.split(","))

    return parse


def parse_ratio(text: str) -> float | None:
    """A number, or none."""
    return None if text == "none" else ac.terminal.number(text)


def add_plan_votes(kinds: Any) -> None:
    """Add `mechanisms plan pate`."""
    title = "PATE (GNMAX and LNMAX) from public or assumed votes of its teachers"
    parser = kinds.add_parser("pate", help=title, description=f"Compare settings of {title}. Never give private votes.")
    parser.set_defaults(run=_run)
    number, whole, add = ac.terminal.number, ac.terminal.whole, parser.add_argument
    names = values_of(ac.terminal.nonblank)
    listed: dict[str, Any] = {"metavar": "A,B,C"}
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--votes", metavar="FILE", help="public votes: .npy or .csv, a row for each query")
    given.add_argument(
        "--gaps", type=values_of(whole), help="assumed leads of the plurality, equally frequent", **listed
    )
    add("--teachers", type=whole, help="with --gaps: number of teachers")
    add("--classes", type=whole, help="with --gaps: number of classes")
    add("--labels", metavar="FILE", help="with --votes: right labels, line by line (default: the plurality is right)")
    add("--epsilon", type=number, required=True, help="the guarantee that all settings keep")
    add("--delta", type=number, required=True, help="of the guarantee")
    add("--queries", type=values_of(whole), default=(100, 300, 1000), help="numbers of queries (default 100,300,1000)")
    add("--noise", type=names, default=("gnmax", "lnmax"), help="gnmax (Gaussian), lnmax (Laplace), or both")
    ratios = "screening noise over vote noise, none is no screening (default none,3)"
    add("--screening-ratio", type=values_of(parse_ratio), help=ratios, **listed)
    add("--threshold", type=values_of(number), help="votes that pass, as shares of the teachers (default 0.5,0.6)")
    add("--max-labels", type=values_of(number), help="with screening, most answers as shares of queries (default 0.5)")
    add("--accuracy", type=number, default=0.9, help="share of right answers that is good enough (default 0.9)")
    add("--top", metavar="N", type=whole, default=10, help="settings in the table (default 10)")
    ac.terminal.add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    from mechanisms.forecast import gap_votes, plan_votes

    labels = None
    if options.votes is not None:
        for name in ("teachers", "classes"):
            if getattr(options, name) is not None:
                raise OptionError(f"--{name} with --votes, which tell it; accepted: with --gaps")
        votes = _read_table(options.votes)
        labels = None if options.labels is None else _read_table(options.labels).ravel()
    elif None in (options.teachers, options.classes) or options.labels is not None:
        raise OptionError("--gaps; accepted: with --teachers N and --classes N, and without --labels")
    else:
        votes = gap_votes(options.gaps, options.teachers, options.classes)
    names = ("screening_ratio", "threshold", "max_labels")
    values: dict[str, Any] = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    values |= {"queries": options.queries, "mechanism": options.noise, "least_accuracy": options.accuracy}
    found = plan_votes(votes, epsilon=options.epsilon, delta=options.delta, labels=labels, **values)
    _show(options, found)
    return 0


def _read_table(name: str) -> Any:
    """Whole numbers of a file."""
    try:
        if Path(name).suffix == ".npy":
            table = np.load(name, allow_pickle=False)
        else:
            table = np.loadtxt(name, delimiter=",", ndmin=2)
        whole = np.asarray(table, np.float64)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "holds something else"
        raise OptionError(f"{name}: {reason}; accepted: {ACCEPTED}") from None
    if not np.isfinite(whole).all() or not (whole == np.floor(whole)).all():
        raise OptionError(f"{name}: holds other numbers; accepted: {ACCEPTED}")
    return whole.astype(np.int64)


# --- what is printed -------------------------------------------------------------------------------------


def _show(options: argparse.Namespace, found: Proposal) -> None:
    titles = ("queries", "noise", "screening noise", "threshold", "answers", "right answers", "right of most queries")
    kinds = ("count", "number", "text", "text", "number", "share", "share")
    columns = [ac.terminal.Column("mechanism", "text")]
    columns += [ac.terminal.Column(title, kind) for title, kind in zip(titles, kinds, strict=True)]
    rows = [_row(each) for each in found.forecasts[: options.top]]
    notes = [f"proposed: {_propose(found.best)}", "spent: nothing; it assumes that"]
    notes += [f"  - {each};" for each in found.assumptions]
    notes.append("  - right of most queries: right answers over the largest number of queries compared.")
    if found.best.accuracy < options.accuracy:
        notes.append(f"no setting has {options.accuracy:.0%} right answers; the most accurate come first.")
    title = f"PATE: best of {len(found.forecasts)} settings"
    price = f"(epsilon {options.epsilon:g}, delta {options.delta:g})"
    table = ac.terminal.Table(title, columns, rows, heading=price, notes=notes)
    ac.terminal.write_table(table, options.form, _summarise(options, found))


def _row(each: Forecast) -> list[Any]:
    given = each.parameters
    screening = [_text(given.get(name)) for name in ("screening_sigma", "threshold")]
    return [each.mechanism, each.queries, _noise(each), *screening, round(each.answers, 1), each.accuracy, each.reach]


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _noise(each: Forecast) -> float:
    return float(each.parameters["sigma" if each.mechanism == "gnmax" else "scale"])


def _propose(best: Forecast) -> str:
    """The command that runs a setting; data and output are left to the user."""
    given = best.parameters
    command = f"mechanisms label {best.mechanism} --epsilon {best.epsilon!r} --delta {best.delta!r}"
    command += f" --teachers {given['n_teachers']} --queries {best.queries}"
    if "screening_sigma" in given:
        ratio = given["screening_sigma"] / _noise(best)
        command += f" --screening-ratio {ratio:g} --threshold {given['threshold']:g} --max-labels {given['max_labels']}"
    return command


def _summarise(options: argparse.Namespace, found: Proposal) -> dict[str, Any]:
    """What `--json` prints."""
    names = ("mechanism", "queries", "answers", "accuracy", "reach", "epsilon", "delta", "parameters")
    settings = [{name: getattr(each, name) for name in names} for each in found.forecasts[: options.top]]
    target = {"epsilon": options.epsilon, "delta": options.delta}
    more = {"command": _propose(found.best), "assumptions": list(found.assumptions), "settings": settings}
    return {"mechanism": "pate", **target, "best": settings[0], **more}
