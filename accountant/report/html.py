"""A plan's price as one HTML page that is complete in itself: tables, plots, assumptions, sources, and sliders."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from pathlib import Path
from string import Template

from accountant.errors import NoGuarantee, ProfileUnavailable, ToleranceUnreachable, real
from accountant.files import check_output, write_text
from accountant.guarantee import Guarantee, rounded_down, rounded_up
from accountant.plan import RELEASE_KEYS, Plan, builtin_plans
from accountant.plots.style import need_matplotlib
from accountant.price import epsilon
from accountant.renyi.conversion import CONVERSIONS, Conversion, check_conversion
from accountant.report.figures import Figure, drawn
from accountant.report.script import embedded, script
from accountant.report.sources import ROUTES, items, references, sources
from accountant.summary import assumptions, shares

__all__ = ["report", "write_page"]


def report(
    plan: Plan,
    delta: float,
    *,
    method: str = "renyi",
    conversion: str = "improved",
    tolerance: float = 0.01,
) -> str:
    """The page, as HTML.

    Parameters
    ----------
    plan : Plan
    delta : float
        In [0, 1).
    method, conversion, tolerance
        Of the price at the top, as for `epsilon`. The page shows the other routes beside it.

    Raises
    ------
    DataDependentError
        The plan's cost depends on private data: it is not to be published.
    MissingExtra
        matplotlib is not installed.
    AccountantError
        As `epsilon`.
    """
    rule = check_conversion(conversion)
    delta = real("delta", delta, 0.0, 1.0, open_high=True)
    run = plan.composition
    price = epsilon(run, delta, method=method, conversion=rule, tolerance=tolerance)
    price.as_dict()  # refuses what depends on private data
    need_matplotlib()
    rules = {each: epsilon(run, delta, conversion=each) for each in CONVERSIONS}
    tight: Guarantee | str
    try:
        tight = price if price.method == "tight" else epsilon(run, delta, method="tight", tolerance=tolerance)
    except (ProfileUnavailable, ToleranceUnreachable, NoGuarantee) as error:
        tight = str(error)
    parts = shares(plan, price)
    data = embedded(plan, delta, rule, rules)
    body = {
        "title": html.escape(_title(plan)),
        "description": f'<p class="lead">{html.escape(plan.description)}</p>' if plan.description else "",
        "epsilon": rounded_up(price.epsilon),
        "delta": rounded_up(delta),
        "guarantee": html.escape(f"{price}."),
        "assumptions": items(html.escape(line) for line in assumptions(plan)),
        "releases": _release_rows(plan, parts),
        "tables": _about_tables('"table":' in data),
        "routes": _route_rows(rules, tight),
        "figures": _figures(drawn(plan, delta, rule, tolerance, parts)),
        "sources": sources(plan, tight),
        "lines": "1 release" if len(plan.releases) == 1 else f"{len(plan.releases)} releases",
    }
    return _assembled(body, data)


def _assembled(body: dict[str, str], data: str) -> str:
    from accountant import __version__

    folder = resources.files("accountant.report.page")
    code = script()
    return Template(folder.joinpath("report.html").read_text("utf-8")).substitute(
        body,
        references=references("".join(body.values())),
        style=folder.joinpath("report.css").read_text("utf-8"),
        script=code,
        script_hash=f"sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}",
        data=data,
        version=__version__,
    )


# --- parts of the page -----------------------------------------------------------------------------------


def _title(plan: Plan) -> str:
    """The plan's name, without the folder that its file is in."""
    return plan.name if plan.name in builtin_plans() else Path(plan.name).name.removesuffix(".toml")


def _release_rows(plan: Plan, parts: list[float]) -> str:
    rows = []
    for release, line, share in zip(plan.releases, plan.tables["release"], parts, strict=True):
        numbers = ", ".join(f"{key} {value}" for key, value in line.items() if key not in RELEASE_KEYS)
        rate = f"{line['sampling_rate']}" if "sampling_rate" in line else "all records"
        bar = f'<span class="share" aria-hidden="true"><i style="--part: {share:.6f}"></i></span>'
        rows.append(
            f'<tr><th scope="row">{html.escape(release.name)}</th>'
            f"<td>{html.escape(line['event'])}<small>{html.escape(numbers)}</small></td>"
            f'<td class="n">{html.escape(rate)}</td><td class="n">{release.count:,}</td>'
            f'<td class="n">{share:.1%}{bar}</td></tr>'
        )
    return "\n".join(rows)


def _route_rows(rules: dict[Conversion, Guarantee], tight: Guarantee | str) -> str:
    if isinstance(tight, str):
        found, about = "not available", tight
    else:
        found = f"{rounded_down(tight.lower or 0.0)} to {rounded_up(tight.epsilon)}"
        about = f"certified interval for the plan as written, by {tight.source}"
    rows = [(rule, *ROUTES[rule], rounded_up(rules[rule].epsilon)) for rule in CONVERSIONS]
    rows.sort(key=lambda row: list(ROUTES).index(row[0]))
    return "\n".join(
        f'<tr><th scope="row">{html.escape(name)}<small>{html.escape(source)}</small></th>'
        f'<td class="n" id="{key}">{value}</td><td class="n live" id="live-{key}" hidden></td></tr>'
        for key, name, source, value in [*rows, ("tight", "tight", about, found)]
    )


def _about_tables(some: bool) -> str:
    return (
        "A release that the page cannot compute comes with a table of the library's values at many orders; then the "
        "search is over these orders alone. Any of them gives a valid bound, so epsilon may only be larger than the "
        "library's."
        if some
        else "The best of all real orders is searched, as the library does."
    )


def _figures(figures: list[Figure]) -> str:
    blocks = []
    for number, figure in enumerate(figures, 1):
        plot = f'<div class="wide" role="region" tabindex="0" aria-label="Plot {number}">{figure.svg}</div>'
        words = f"<figcaption>{html.escape(figure.caption)}</figcaption>"
        blocks.append(f"<figure>{plot if figure.svg else ''}{words}</figure>")
    return "\n".join(blocks)


# --- files -----------------------------------------------------------------------------------------------


def write_page(page: str, path: str | Path) -> None:
    """Write the page to a file ending in .html, wholly or not at all."""
    write_text(check_output(path, (".html",)), page)
