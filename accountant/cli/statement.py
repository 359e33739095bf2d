"""``accountant statement PLAN``: the paragraph about privacy for a paper or a data sheet."""

from __future__ import annotations

import argparse
from typing import Any

from accountant.adjacency import Adjacency
from accountant.cli.arguments import add_plan, add_route, read_plan, route
from accountant.errors import AccountantError, DataDependentError
from accountant.guarantee import Guarantee, format_down, format_up
from accountant.plain_text import is_plain
from accountant.plan import Plan
from accountant.price import epsilon
from accountant.risk import RiskInterval, gaussian_dp
from accountant.summary import assumptions, parameters_in_words
from accountant.tables import add_forms, escape_latex, escape_markdown, print_json
from accountant.terminal import delta_of, number, show_work

__all__ = ["add_statement"]

NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "one is the other with one {unit} added or removed",
    Adjacency.REPLACE: "one is the other with one {unit} replaced by another",
}

FLOOR = 1e-9
"""The smallest false-positive rate for which mu is stated."""


def add_statement(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "Write the paragraph about privacy for a paper or a data sheet."
    parser = commands.add_parser("statement", help=text, description=text)
    parser.set_defaults(run=_run)
    add_plan(parser)
    parser.add_argument("--delta", type=number, help="instead of the plan's delta")
    text = "what one record stands for, such as person (default record)"
    parser.add_argument("--unit", type=_unit, default="record", help=text)
    add_route(parser)
    add_forms(parser, ("json", "latex", "markdown"))


def _unit(text: str) -> str:
    """A word that can be printed, for argparse."""
    if not text.strip() or not is_plain(text):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: what one record stands for, such as person")
    return text


def _run(options: argparse.Namespace) -> int:
    plan = read_plan(options)
    if plan.composition.data_dependent:
        raise DataDependentError(
            "this plan's cost depends on private data, a statement is made to be published; accepted: other plans"
        )
    delta = delta_of(plan, options.delta)
    with show_work("pricing"):
        price = epsilon(plan.composition, delta, **route(options))
        mu = _mu(plan)
    sentences = _sentences(plan, price, mu, options.unit)
    if options.form == "json":
        ends = {"mu": None if mu is None else mu.upper, "mu_lower": None if mu is None else mu.lower or None}
        print_json({**price.as_dict(), "plan": plan.name, **ends, "fpr_floor": FLOOR, "text": " ".join(sentences)})
    else:
        escape = {"latex": escape_latex, "markdown": escape_markdown}.get(options.form, str)
        print(escape(" ".join(sentences)))
    return 0


def _mu(plan: Plan) -> RiskInterval[float] | None:
    """Bounds on mu, where there is one from above."""
    if not plan.composition.releases:
        return None
    try:
        found = gaussian_dp(plan.composition, FLOOR)
    except AccountantError:  # no profile, or no interval that is narrow enough
        return None
    return found if found.upper < float("inf") else None


def _about_mu(mu: RiskInterval[float]) -> str:
    """The sentence about mu, which says how far it may be from the truth."""
    exact = "an upper bound, with nothing certified from below"
    if mu.lower > 0.0:
        exact = f"the exact mu is certified to be at least {format_down(mu.lower)}"
    elif mu.method == "renyi":
        exact = "an upper bound from a Rényi curve, which says nothing from below"
    return (
        f"They are mu-Gaussian differentially private with mu = {format_up(mu.upper)} for every attack with "
        f"false-positive and false-negative rates of at least {FLOOR:g}; {exact}."
    )


def _sentences(plan: Plan, price: Guarantee, mu: RiskInterval[float] | None, unit: str) -> list[str]:
    """The statement: what is promised to whom, for which releases, how it was computed, and what it rests on."""
    from accountant import __version__

    adjacency = price.adjacency
    between = f" of which {NEIGHBOURS[adjacency].format(unit=unit)} ({adjacency} adjacency)" if adjacency else ""
    lines = [
        f"The results were released with (epsilon, delta)-differential privacy, epsilon = {format_up(price.epsilon)} "
        f"and delta = {format_up(price.delta)}, between any two data sets{between}."
    ]
    if mu is not None:
        lines.append(_about_mu(mu))
    lines.append(f"This covers the following releases, and no others: {_releases(plan)}.")
    lines += [line for line in assumptions(plan) if not line.startswith("Protects")]
    if price.order is not None:
        how = f"from a Rényi curve by the {price.conversion} conversion, an upper bound"
        how += f"; the exact epsilon is at least {format_down(price.lower)}" if price.lower else ""
    else:
        how = f"by {price.source}; the exact epsilon is certified to be at least {format_down(price.lower or 0.0)}"
    lines.append(f"Epsilon was computed by knn-accountant {__version__}, {how}.")
    lines.append("Choices made by looking at private records, and releases that are not named here, are not covered.")
    return lines


def _releases(plan: Plan) -> str:
    """All releases, with how often they happen and by which noise."""
    parts = []
    for release, line in zip(plan.releases, plan.tables["release"], strict=True):
        words = parameters_in_words(line)
        times = "once" if release.count == 1 else f"at most {release.count:,} times"
        parts.append(f"{release.name}, {times} ({line['event']}{': ' if words else ''}{words})")
    return "; ".join(parts)
