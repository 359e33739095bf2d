"""Documentation: pages, notebooks and the reference, executed and built by `make docs`; no network is needed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version as installed
from typing import Any

project = "knn-accountant"
author = "the knn-accountant authors"
version = release = installed("knn-accountant")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_nb"]
exclude_patterns = ["conf.py", "README.md"]
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = False
numpydoc_show_class_members = False

nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
# never from a cache, which would not notice that the library has changed
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "error"
nb_merge_streams = True
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "dollarmath"]

html_math_renderer = "mathml"  # by the browser itself: MathJax would come over the network
html_theme = "furo"
html_title = "knn-accountant"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}


# --- formulas ------------------------------------------------------------------------------------------


def write_formula(translator: Any, node: Any) -> None:
    """A formula as MathML."""
    from docutils import nodes
    from docutils.utils.math.latex2mathml import tex2mathml

    block = isinstance(node, nodes.math_block)
    formula = tex2mathml(node.astext().replace(r"\dots", r"\ldots"), as_block=block)
    translator.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


# --- the reference of commands, from the commands' own parsers -----------------------------------------


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Parsers of the commands below this one, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Options and positional arguments that are this parser's own, without --help."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            yield action


def written(action: argparse.Action) -> str:
    """An argument as it is typed: ``-o, --out FILE``."""
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"[{value}]" if action.nargs == "?" else value
    return " ".join((", ".join(action.option_strings), value)).strip()


def prose(text: str | None) -> str:
    """Words of a parser in Markdown: a dollar is a dollar, not the beginning of a formula."""
    return (text or "").strip().replace("$", r"\$")


def meaning(action: argparse.Action) -> str:
    """What an argument does: its help, the accepted values, and whether it must be given."""
    text = prose(action.help)
    parts = [(text[:1].upper() + text[1:]).rstrip(".") + "."]
    if action.choices is not None:
        parts.append(f"Accepted: {', '.join(f'`{choice}`' for choice in action.choices)}.")
    if action.required and action.option_strings:
        parts.append("Required.")
    return " ".join(parts)


def all_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all below it."""
    yield parser
    for each in subcommands(parser).values():
        yield from all_commands(each)


def section_of(parser: argparse.ArgumentParser) -> str:
    """One command in Markdown: what it does, how it is called, and its arguments."""
    required = [written(action) for action in arguments(parser) if action.required]
    call = " ".join((parser.prog, *required, "COMMAND ..." if subcommands(parser) else "[OPTIONS]"))
    entries = [f"`{written(action)}`\n: {meaning(action)}" for action in arguments(parser)]
    heading = [f"### {parser.prog}"] if " " in parser.prog else []
    return "\n\n".join((*heading, prose(parser.description), f"`{call}`", *entries))


def write_commands(app: Any, name: str, source: list[str]) -> None:
    """Replace ``<!-- commands: PACKAGE -->`` by the reference of that package's commands."""

    def reference(found: re.Match[str]) -> str:
        parser = import_module(f"{found[1]}.cli").make_parser()
        return "\n\n".join(map(section_of, all_commands(parser)))

    source[0] = re.sub("<!-- commands: (\\w+) -->", reference, source[0])


def setup(app: Any) -> None:
    app.connect("source-read", write_commands)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
