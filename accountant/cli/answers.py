"""What the commands without a plan print: a price by both routes, what it means, and the plan to go on with."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accountant.adjacency import Adjacency
from accountant.attack import Attack, ask
from accountant.cli.arguments import TOLERANCE, WIDTH
from accountant.errors import PlanError
from accountant.files import check_output, write_text
from accountant.guarantee import Guarantee, format_down, format_up
from accountant.numerics.roots import Interval
from accountant.plan import Plan
from accountant.risk import RiskInterval
from accountant.summary import assumptions
from accountant.tables import Column, Table, add_forms, console, write_table
from accountant.terminal import number, show_work

__all__ = ["Answer", "add_output", "check_write", "write_answer"]

FPR_FLOOR = 1e-9
"""Rate of false positives down to which mu holds."""
RATES = (0.01, 0.001)
"""Rates of false positives at which the attacker's true positives are shown."""


@dataclass(frozen=True)
class Answer:
    """What one of the commands found.

    Attributes
    ----------
    plan : Plan
        The releases, with the noise that was given or found.
    price, renyi : Guarantee
        By the sharpest route, and by the Rényi route.
    facts : sequence of (str, text)
        Further lines of the table, above the price.
    record : mapping
        Further keys of the JSON object.
    bold : str
        A sentence that must not be overlooked: what is assumed of the sampler.
    notes : sequence of str
        Further sentences.
    asks_delta : bool
        Whether delta was asked for, at a given epsilon.
    """

    plan: Plan
    price: Guarantee
    renyi: Guarantee
    facts: Sequence[tuple[str, str]] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    bold: str = ""
    notes: Sequence[str] = ()
    asks_delta: bool = False

    def prices(self) -> list[tuple[str, str]]:
        """Both prices as lines of the table, the certified one with its lower end."""
        name = "delta" if self.asks_delta else "epsilon"
        high, other = getattr(self.price, name), getattr(self.renyi, name)
        rows = []
        if self.price.lower is not None:
            low = format_down(self.price.lower)
            route = "tight" if self.price.method == "tight" else "certified"
            rows.append((f"{name} ({route})", f"at most {format_up(high)}, certified to be at least {low}"))
        order = "" if self.renyi.order is None else f", order {self.renyi.order:.4g}"
        return [*rows, (f"{name} (Rényi{order})", f"at most {format_up(other)}")]


def add_output(parser: argparse.ArgumentParser, *, adjacency: bool = True) -> None:
    """Add the options that these commands share."""
    add = parser.add_argument
    if adjacency:
        names = [str(member) for member in Adjacency]
        add("--adjacency", default=names[0], choices=names, help=f"which data sets are neighbours (default {names[0]})")
    add("--tolerance", type=number, default=TOLERANCE, help=WIDTH)
    add("--write", metavar="PLAN.toml", help="write a plan for the other commands; an existing file stays")
    add("--force", action="store_true", help="--write may replace an existing file")
    add_forms(parser)


def check_write(options: argparse.Namespace) -> None:
    """Refuse --write before anything is computed, if it cannot or must not write.

    Raises
    ------
    PlanError
        The file exists, or cannot be written.
    """
    if options.write is None:
        return
    check_output(options.write, (".toml",), name="--write", refuse=PlanError)
    if Path(options.write).exists() and not options.force:
        raise PlanError(f"--write {options.write}: exists; accepted: another file, or --force to replace it")


def write_answer(answer: Answer, options: argparse.Namespace) -> int:
    """Print an answer, and write its plan if that was asked for."""
    with show_work("what an attacker can do"):
        risks = _risks(answer.plan, options.tolerance)
    rows = [*answer.facts, *answer.prices()]
    rows += [(name, f"at most {format_up(found.upper, 4)}") for name, found in risks.items()]
    price = answer.price
    sampled = [answer.bold] if answer.bold and options.form != "table" else []
    stated = [line for line in assumptions(answer.plan) if not (answer.bold and line.startswith("Sampling:"))]
    table = Table(
        title=answer.plan.name,
        columns=[Column("what"), Column("value")],
        rows=rows,
        heading=price.heading("delta" if answer.asks_delta else "epsilon"),
        notes=[str(price), *sampled, *stated, *answer.notes],
    )
    if options.write is not None:
        text = answer.plan.to_toml()
        write_text(options.write, text, replace=options.force, name="--write", refuse=PlanError)
    write_table(table, options.form, _record(answer, risks) if options.form == "json" else None)
    if answer.bold and options.form == "table":
        console().print(answer.bold, style="bold")
    if options.write is not None and options.form == "table":
        print(f"wrote {options.write}")
    return 0


def _risks(plan: Plan, tolerance: float) -> dict[str, RiskInterval[float]]:
    """What the best attacker can do, in the worse direction."""
    places = np.sort(RATES)

    def ask_all(attack: Attack) -> dict[str, Interval]:
        mu, advantage = attack.gaussian(FPR_FLOOR), attack.advantage()
        lower, upper = (ends.tolist() for ends in attack.rates(places))
        known = {rate: Interval(*ends) for rate, *ends in zip(places.tolist(), lower, upper, strict=True)}
        return {
            f"mu (Gaussian DP, both errors above {FPR_FLOOR:g})": mu,
            "attacker's advantage": advantage,
            **{f"attacker's true positives at {rate:.1%} false positives": known[rate] for rate in RATES},
        }

    # one computation for all of them
    found, how = ask(plan.run, ask_all, "worst", "auto", tolerance)
    return {name: RiskInterval(*ends, *how) for name, ends in found.items()}


def _record(answer: Answer, risks: Mapping[str, RiskInterval[float]]) -> dict[str, Any]:
    mu, *attack = risks.values()
    keys = ["advantage", *(f"true_positive_rate_at_{rate:g}" for rate in RATES)]
    lines = [
        {**line, "name": release.name, "count": release.count}
        for release, line in zip(answer.plan.releases, answer.plan.tables["release"], strict=True)
    ]
    return {
        **answer.price.as_dict(),
        "renyi": answer.renyi.as_dict(),
        "mu": {"lower": mu.lower, "upper": mu.upper, "fpr_floor": FPR_FLOOR},
        **{key: {"lower": each.lower, "upper": each.upper} for key, each in zip(keys, attack, strict=True)},
        **answer.record,
        "assumes": [*([answer.bold] if answer.bold else []), *assumptions(answer.plan), *answer.notes],
        "releases": lines,
    }
