"""``accountant risk PLAN``: what an attacker can tell about one record."""

from __future__ import annotations

import argparse
from typing import Any

from accountant.attack import METHODS, WAYS
from accountant.cli.arguments import TOLERANCE, WIDTH, add_patience, add_plan, read_plan
from accountant.errors import PlanError
from accountant.files import check_output
from accountant.guarantee import format_down, format_up
from accountant.plan import Plan
from accountant.risk import Risk, assess
from accountant.summary import assumptions
from accountant.tables import Column, Table, add_forms, write_table
from accountant.terminal import number, show_work

__all__ = ["add_risk"]

RATES = "0.1,0.01,0.001,0.0001,1e-06,1e-09"
"""False-positive rates in the table, unless others are asked for."""


def add_risk(commands: Any) -> None:
    """Add the subcommand to a parser's commands."""
    text = "What an attacker can tell about one record: true-positive rates, advantage, precision, mu."
    parser = commands.add_parser("risk", help=text, description=text)
    parser.set_defaults(run=_run)
    add_plan(parser)
    add = parser.add_argument
    add("--fpr", default=RATES, metavar="A,B", help=f"false-positive rates (default {RATES})")
    add("--base-rate", type=number, default=0.01, help="share of members among those asked about (default 0.01)")
    add("--prior", type=number, default=0.5, help="the attacker's belief in membership before (default 0.5)")
    add("--fpr-floor", type=number, default=1e-9, help="smallest error rate that mu accounts for (default 1e-9)")
    add("--direction", default="worst", choices=WAYS, help="what the attack claims: remove, that a record took part")
    add("--method", default="auto", choices=METHODS, help="route (default auto: tight where it is to be had)")
    add("--tolerance", type=number, default=TOLERANCE, help=WIDTH)
    add_patience(parser, "an answer")
    add("-o", "--out", metavar="FILE", help="draw it too: a file ending in .svg, .png or .pdf")
    add_forms(parser)


def _run(options: argparse.Namespace) -> int:
    target = None
    if options.out is not None:
        from accountant.plots.style import FORMATS, need_matplotlib

        need_matplotlib()
        target = check_output(options.out, FORMATS, keep=[options.plan])
    plan, rates = read_plan(options), _read_rates(options.fpr)
    with show_work("what an attacker can do" + _why_slow(plan)):
        risk = assess(
            plan.composition,
            rates,
            base_rate=options.base_rate,
            prior=options.prior,
            fpr_floor=options.fpr_floor,
            direction=options.direction,
            method=options.method,
            tolerance=options.tolerance,
            patience=options.patience,
        )
    if target is not None:
        from accountant.plots import attack_risk, save

        with show_work("drawing what an attacker can do" + _why_slow(plan)):
            way = {name: getattr(options, name) for name in ("direction", "method", "tolerance", "patience")}
            save(attack_risk(plan.composition, **way), target)
    write_table(_table_of(plan, risk), options.form, _record_of(plan, risk))
    return 0


def _why_slow(plan: Plan) -> str:
    """What a waiting person should know: a game of screenings may need more than the usual patience."""
    screened = plan.composition.total(lambda event: float(event.family))
    if not screened:
        return ""
    return f": a game of {screened:,.0f} screenings (where it takes longer than --patience: the Rényi bound)"


def _read_rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise PlanError(f"--fpr {text}: accepted: numbers in [0, 1], such as {RATES}") from None


def _table_of(plan: Plan, risk: Risk) -> Table:
    rates, precisions = risk.true_positive_rates, risk.precisions
    columns = [
        Column("false-positive rate", "exact"),
        Column("true-positive rate at most", "up"),
        Column("and at least", "down"),
        Column(f"precision at most, base rate {risk.base_rate:g}", "up"),
    ]
    found = zip(risk.fprs[::-1], rates.upper[::-1], rates.lower[::-1], precisions.upper[::-1], strict=True)
    return Table(
        title=f"{plan.name}: risk of one record",
        columns=columns,
        rows=[[float(value) for value in row] for row in found],
        heading=_say_rate(risk),
        caption=plan.description,
        notes=[*_sentences(risk), *assumptions(plan)],
    )


def _say_rate(risk: Risk) -> str:
    """The table's most telling line in words: the largest rate of at most one in a thousand, if there is one."""
    small = [i for i, rate in enumerate(risk.fprs.tolist()) if 0 < rate <= 0.001]
    i = small[-1] if small else len(risk.fprs) - 1
    rate, share = float(risk.fprs[i]), float(risk.true_positive_rates.upper[i])
    often = f"once in {1 / rate:,.6g}" if rate > 0 else "never"
    return (
        f"An attacker who is wrong {often} about outsiders recognises at most {format_up(100 * share, 3)} % of members "
        f"(guessing: {100 * rate:.3g} %)."
    )


def _sentences(risk: Risk) -> list[str]:
    gain, error, mu = risk.advantage, risk.bayes_risk, risk.mu
    how = "from above only" if mu.method == "renyi" else "certified from both sides"
    return [
        f"Advantage (true- less false-positive rate): {_between(*gain)}.",
        f"The best attacker who believes in membership with probability {risk.prior:g} errs with probability "
        f"{_between(*error)}; without these releases {min(risk.prior, 1 - risk.prior):g}.",
        f"Gaussian DP: mu = {_between(*mu)} wherever both error rates are at least {risk.fpr_floor:g}.",
        f"Route: {mu.method} ({mu.source}), {how}; direction: {risk.direction}.",
    ]


def _between(lower: float, upper: float) -> str:
    return f"{format_down(lower, 4)} to {format_up(upper, 4)}"


def _record_of(plan: Plan, risk: Risk) -> dict[str, Any]:
    """The same as plain values."""

    def ends(interval: Any) -> dict[str, Any]:
        return {name: getattr(interval, name) for name in ("lower", "upper")}

    def lists(interval: Any) -> dict[str, Any]:
        return {name: values.tolist() for name, values in ends(interval).items()}

    adjacency = plan.composition.adjacency
    return {
        "plan": plan.name,
        "adjacency": str(adjacency) if adjacency else None,
        "direction": risk.direction,
        "method": risk.mu.method,
        "source": risk.mu.source,
        "fpr": risk.fprs.tolist(),
        "true_positive_rate": lists(risk.true_positive_rates),
        "base_rate": risk.base_rate,
        "precision": lists(risk.precisions),
        "advantage": ends(risk.advantage),
        "prior": risk.prior,
        "bayes_risk": ends(risk.bayes_risk),
        "fpr_floor": risk.fpr_floor,
        "mu": ends(risk.mu),
    }
