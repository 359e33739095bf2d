"""The report on several plans: one HTML file that compares what they cost and why."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from accountant import plots
from accountant.errors import DataDependentError, ParameterError, real
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee, format_up
from accountant.patience import PATIENCE
from accountant.plan import Plan
from accountant.plots.findings import price_in_words
from accountant.plots.style import LINES, need_matplotlib
from accountant.price import choose_route, epsilon, try_tight
from accountant.renyi.conversion import Conversion
from accountant.report.figures import Draft, draw_plot
from accountant.report.headline import AttackFigures, attack_figures, attack_tolerance
from accountant.report.html import figure_blocks, fill_page, title_of
from accountant.report.sources import items
from accountant.summary import assumptions

__all__ = ["compare_plans"]


Judge: TypeAlias = Callable[[Sequence[Plan], list[Guarantee]], tuple[Iterable[Sequence[Any]], Iterable[str]]]


def compare_plans(
    plans: Sequence[Plan],
    delta: float,
    *,
    judge: Judge,
    conversion: str | None = None,
    tolerance: float = 0.01,
    **prices: Any,
) -> str:
    """The page, as HTML.

    Parameters
    ----------
    plans : sequence of Plan
        2 to 7.
    delta : float
        In [0, 1).
    judge : callable
        From the plans, by their titles, and their certified prices, or Rényi prices where one has none: what the plans
        state differently, in rows of a name and a value for each; and sentences, which plan costs less, and how far
        that can be said.
    conversion, tolerance, **prices
        Of the prices, as for `epsilon`: `method` and `patience`, too.

    Raises
    ------
    ParameterError
        Fewer or more plans.
    DataDependentError
        The cost of one depends on private data.
    MissingExtra, AccountantError
        As `report`.
    """
    if not 2 <= len(plans) <= len(LINES):
        raise ParameterError(f"{len(plans)} plans; accepted: 2 to {len(LINES)} in one report")
    for plan in plans:
        if plan.composition.data_dependent:
            raise DataDependentError(f"{plan.name}: its cost depends on private data; accepted: other plans")
    route, rule = choose_route(prices.get("method"), conversion)
    delta = real("delta", delta, 0.0, 1.0, open_high=True)
    need_matplotlib()
    runs = [plan.composition for plan in plans]
    how: Any = {"tolerance": tolerance, "patience": prices.get("patience", PATIENCE)}
    found = [epsilon(run, delta, method=route, conversion=rule, **how) for run in runs]
    tights = [
        price if price.method == "tight" else try_tight(run, delta, **how)
        for run, price in zip(runs, found, strict=True)
    ]
    names = _name_apart(plans)
    known = [price for price in tights if not isinstance(price, str)]
    titled = [replace(plan, name=name) for plan, name in zip(plans, names, strict=True)]
    differences, verdict = judge(titled, known if len(known) == len(plans) else found)
    risks = [attack_figures(run, tolerance) for run in runs]
    # one route: what is drawn is what the verdict is about
    drawing = _Drawing(delta, rule, tolerance, len(known) == len(plans) and all(risk.tight for risk in risks))
    named = dict(zip(names, runs, strict=True))
    drawn = [draw_plot(draft, f"plot{number}") for number, draft in enumerate(_drafts(named, drawing))]
    body = {
        "title": html.escape(" and ".join(names) if len(names) == 2 else ", ".join(names)),
        "delta": format_up(delta),
        "verdict": "".join(f"<p>{html.escape(line)}</p>" for line in verdict),
        "names": "".join(f'<th scope="col" class="n">{html.escape(name)}</th>' for name in names),
        "prices": _rows(_price_rows(plans, found, tights, risks)),
        "differences": _rows(differences),
        "figures": figure_blocks(drawn),
        "assumptions": "\n".join(
            f"<h3>{html.escape(name)}</h3><ul>{items(html.escape(line) for line in assumptions(plan))}</ul>"
            for name, plan in zip(names, plans, strict=True)
        ),
    }
    frame = {
        "question": "what they cost in privacy",
        "eyebrow": "Privacy report: plans compared",
        "origin": f"{len(plans)} plans",
    }
    return fill_page("comparison.html", body, frame)


def _name_apart(plans: Sequence[Plan]) -> list[str]:
    """The plans' titles; with a number where two are the same."""
    titles = [title_of(plan) for plan in plans]
    return [f"{title} ({i + 1})" if titles.count(title) > 1 else title for i, title in enumerate(titles)]


def _price_rows(
    plans: Sequence[Plan],
    prices: Sequence[Guarantee],
    tights: Sequence[Guarantee | str],
    risks: Sequence[AttackFigures],
) -> list[list[str]]:
    runs = [plan.composition for plan in plans]
    rows = [
        ["epsilon, at most", *(format_up(price.epsilon) for price in prices)],
        ["certified interval", *("not available" if isinstance(t, str) else price_in_words(t) for t in tights)],
        ["adjacency", *(str(run.adjacency or "any") for run in runs)],
        ["releases", *(f"{run.releases:,}" for run in runs)],
    ]
    figures = [dict(risk.rows) for risk in risks]
    every = dict.fromkeys(name for found in figures for name in found)
    return rows + [[name, *(found.get(name, "") for found in figures)] for name in every]


def _rows(rows: Iterable[Sequence[Any]]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{html.escape(str(what))}</th>'
        + "".join(f'<td class="n">{"" if value is None else html.escape(str(value))}</td>' for value in values)
        + "</tr>"
        for what, *values in rows
    )


class _Drawing(NamedTuple):
    """How the plots are computed: by the tight route, or by the Rényi route with a conversion."""

    delta: float
    conversion: Conversion
    tolerance: float
    tight: bool


def _drafts(runs: Mapping[str, Composition], how: _Drawing) -> list[Draft]:
    """Rényi curves, and what attackers miss; not of plans that protect different things.

    Where the page's prices are tight the curves are drawn without the larger epsilons that they give.
    """
    if len({run.adjacency for run in runs.values() if run.adjacency is not None}) > 1:
        return []
    return [
        Draft(
            "curves",
            lambda ax: plots.curve_against_order(
                runs, delta=None if how.tight else how.delta or None, conversion=how.conversion, ax=ax
            ),
            "Upper bounds on the Rényi divergence between neighbouring inputs. The lower curve costs less there."
            + (" The certified prices above are no larger than what these curves give." if how.tight else ""),
        ),
        Draft(
            "trade-off",
            lambda ax: plots.trade_off(
                runs,
                method="tight" if how.tight else "renyi",
                conversion=how.conversion,
                tolerance=max(attack_tolerance(run, how.tolerance) for run in runs.values()),
                ax=ax,
            ),
            "What an attacker can do: any test has at least this type II error. The higher curve protects more.",
            (4.9, 4.9 + 0.2 * len(runs)),
        ),
    ]
