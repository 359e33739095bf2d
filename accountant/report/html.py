"""The report on a plan: one HTML file with tables, plots, assumptions, sources, and sliders."""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template

from accountant.errors import NoGuarantee, real
from accountant.events.composition import Composition
from accountant.files import check_output, write_text
from accountant.guarantee import Guarantee, format_up
from accountant.patience import PATIENCE
from accountant.plan import Plan, builtin_plans
from accountant.plots.findings import price_in_words
from accountant.plots.style import need_matplotlib
from accountant.price import choose_route, epsilon, try_tight
from accountant.renyi.conversion import CONVERSIONS, Conversion
from accountant.report.figures import Plot, Pricing, draw_plots
from accountant.report.headline import AttackFigures, attack_figures, floor_percent, statement
from accountant.report.script import plan_json, script
from accountant.report.sources import ROUTES, items, references, sources
from accountant.summary import assumptions, parameters_in_words, shares

__all__ = ["figure_blocks", "report", "title_of", "write_page"]


def report(
    plan: Plan,
    delta: float,
    *,
    method: str | None = None,
    conversion: str | None = None,
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> str:
    """The page, as HTML.

    Parameters
    ----------
    plan : Plan
    delta : float
        In [0, 1).
    method, conversion, tolerance, patience
        Of the price at the top, as for `epsilon`. The page also shows the prices by the other routes.

    Raises
    ------
    DataDependentError
        The plan's cost depends on private data and must not be published.
    MissingExtra
        matplotlib is not installed.
    AccountantError
        As `epsilon`.
    """
    route, rule = choose_route(method, conversion)
    delta = real("delta", delta, 0.0, 1.0, open_high=True)
    run = plan.composition
    own = None if route == "tight" else rule
    price = epsilon(run, delta, method=route, conversion=own, tolerance=tolerance, patience=patience)
    price.as_dict()  # raises if the price depends on private data
    need_matplotlib()
    rules = {each: _bound(run, delta, each) for each in CONVERSIONS}
    tight = price if price.method == "tight" else try_tight(run, delta, tolerance, patience)
    risk = attack_figures(run, tolerance)
    parts = shares(plan, price)
    data = plan_json(plan, delta, rule, rules)
    body = {
        "title": html.escape(title_of(plan)),
        "description": f'<p class="lead">{html.escape(plan.description)}</p>' if plan.description else "",
        "epsilon": format_up(price.epsilon),
        "quote": html.escape(statement(plan, price)),
        "facts": _facts(price, tight, risk),
        "delta": format_up(delta),
        "guarantee": html.escape(f"{price}."),
        "assumptions": items(html.escape(line) for line in assumptions(plan)),
        "releases": _release_rows(plan, parts),
        "tables": _describe_search('"table":' in data),
        "routes": _route_rows(rules, tight),
        "figures": figure_blocks(draw_plots(plan, Pricing(delta, rule, tolerance, tight, risk.tight), parts)),
        "sources": sources(plan, tight),
        "lines": "1 release" if len(plan.releases) == 1 else f"{len(plan.releases)} releases",
    }
    return _fill_template(body, data)


def _bound(run: Composition, delta: float, rule: Conversion) -> Guarantee:
    """By the Rényi route; infinite where the curve is."""
    try:
        return epsilon(run, delta, method="renyi", conversion=rule)
    except NoGuarantee:
        return Guarantee(math.inf, delta, run.adjacency, "renyi", rule, None)


def _fill_template(body: dict[str, str], data: str) -> str:
    code = script()
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    frame = {
        "question": "what it costs in privacy",
        "eyebrow": "Privacy report",
        "origin": f"a plan of {body['lines']}",
        "scripts_allowed": f" script-src 'sha256-{digest}';",
        "scripts": f'<script type="application/json" id="plan">{data}</script>\n<script>{code}</script>',
    }
    return fill_page("report.html", {**body, "references": references("".join(body.values()))}, frame)


def fill_page(name: str, body: Mapping[str, str], frame: Mapping[str, str]) -> str:
    """A page: the template `name` with its `body`, within the frame that all pages share."""
    from accountant import __version__

    folder = resources.files("accountant.report.page")
    main = Template(folder.joinpath(name).read_text("utf-8")).substitute(body).rstrip("\n")
    plain = {"description": "", "scripts_allowed": "", "scripts": "", "version": __version__}
    style = folder.joinpath("report.css").read_text("utf-8")
    shared = {**plain, **{key: body[key] for key in ("title", "description") if key in body}, **frame}
    return Template(folder.joinpath("frame.html").read_text("utf-8")).substitute(shared, style=style, main=main)


# --- parts of the page -----------------------------------------------------------------------------------


def title_of(plan: Plan) -> str:
    """The plan's name, without the folder of its file; bytes that are no text are escaped."""
    title = plan.name if plan.name in builtin_plans() else Path(plan.name).name.removesuffix(".toml")
    return title.encode("utf-8", "backslashreplace").decode()


def _facts(price: Guarantee, tight: Guarantee | str, risk: AttackFigures) -> str:
    """Rows of what a reader asks first: the interval, and what an attacker can do."""
    if isinstance(tight, str):
        certified = f"not to be had: {tight}"
    else:
        certified = f"epsilon is {price_in_words(tight)}"
        if price.method != "tight" and tight.epsilon < price.epsilon:
            certified += f", {floor_percent(1 - tight.epsilon / price.epsilon)} below the bound above"
    rows = [("certified interval", certified, "certified"), *((name, words, "") for name, words in risk.rows)]
    return "\n".join(
        f"<dt>{html.escape(name)}</dt><dd{f' id={key}' if key else ''}>{html.escape(words)}</dd>"
        for name, words, key in rows
    )


def _release_rows(plan: Plan, parts: list[float]) -> str:
    rows = []
    for release, line, share in zip(plan.releases, plan.tables["release"], parts, strict=True):
        rate = f"{line['sampling_rate']}" if "sampling_rate" in line else "all records"
        bar = f'<span class="share" aria-hidden="true"><i style="--part: {share:.6f}"></i></span>'
        rows.append(
            f'<tr><th scope="row">{html.escape(release.name)}</th>'
            f"<td>{html.escape(line['event'])}<small>{html.escape(parameters_in_words(line))}</small></td>"
            f'<td class="n">{html.escape(rate)}</td><td class="n">{release.count:,}</td>'
            f'<td class="n">{share:.1%}{bar}</td></tr>'
        )
    return "\n".join(rows)


def _route_rows(rules: dict[Conversion, Guarantee], tight: Guarantee | str) -> str:
    if isinstance(tight, str):
        found, about = "not available", tight
    else:
        found = price_in_words(tight)
        about = f"certified interval for the plan as written, by {tight.source}"
    bounds = {rule: price.epsilon for rule, price in rules.items()}
    shown = {rule: format_up(bound) if bound < math.inf else "no finite bound" for rule, bound in bounds.items()}
    rows = [(rule, *ROUTES[rule], shown[rule]) for rule in CONVERSIONS]
    rows.sort(key=lambda row: list(ROUTES).index(row[0]))
    return "\n".join(
        f'<tr><th scope="row">{html.escape(name)}<small>{html.escape(source)}</small></th>'
        f'<td class="n" id="{key}">{value}</td><td class="n live" id="live-{key}" hidden></td></tr>'
        for key, name, source, value in [*rows, ("tight", "tight", about, found)]
    )


def _describe_search(tables: bool) -> str:
    return (
        "Curves of events outside the common families are tables of the library's values; then the search is over the "
        "orders in the tables. Any order gives a valid bound, so epsilon may only be larger than the library's."
        if tables
        else "The search is over all real orders, as in the library."
    )


def figure_blocks(plots: list[Plot]) -> str:
    blocks = []
    for number, plot in enumerate(plots, 1):
        block = f'<div class="written" role="region" aria-label="Plot {number}">{plot.svg}</div>'
        words = f"<figcaption>{html.escape(plot.caption)}</figcaption>"
        blocks.append(f'<figure data-kind="{plot.kind}">{block if plot.svg else ""}{words}</figure>')
    return "\n".join(blocks)


# --- files -----------------------------------------------------------------------------------------------


def write_page(page: str, path: str | Path) -> None:
    """Write the page to a file ending in .html, wholly or not at all."""
    write_text(check_output(path, (".html",)), page)
