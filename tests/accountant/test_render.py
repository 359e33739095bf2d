"""Every form of a table holds what the table holds, and its text cannot break the form."""

import csv
import io
import json
import re

import pytest
from rich.console import Console

from accountant import tables
from accountant.tables import FORMS, Column, Table, escape_latex, escape_markdown, write_table

AWKWARD = [
    'a & b_c 100% $x^2$ {#} ~ \\ "q"',
    "a | b *c* _d_ [e](f) <g> `h`",
    "two\nlines",
    "[bold]x[/bold]",
    "comma, 'x'",
    "--vary",
    "[0, 1] starts a row",
    "*stars* start one",
    "~~gone~~ &amp; $x$ a,,b ---",
]


def table_of(texts):
    columns = [Column("what"), Column("epsilon", "up"), Column("at least", "down"), Column("count", "count")]
    rows = [(text, 1.23456701, 1.2345678, 12345) for text in texts]
    return Table("Prices", columns, [*rows, ("none", None, float("inf"), None)], "a heading", "a caption", ["a note"])


@pytest.fixture
def text_of(capsys):
    def write(table, form):
        write_table(table, form)
        return capsys.readouterr().out

    return write


def test_bounds_are_rounded_outwards(text_of):
    text = text_of(table_of(["x"]), "table")
    assert "1.23457" in text
    assert "1.23456" in text
    assert "12,345" in text
    assert all(words in text for words in ("Prices", "a heading", "a caption", "a note"))


NUMBERS = "6.18773", "1.7087e-06", "12,345,678", "0.5, -", "60.0%"


@pytest.mark.parametrize("width", [1, 12, 25, 40, 60, 80, 110, 200])
def test_no_terminal_is_so_narrow_that_a_number_is_cut(width, monkeypatch):
    """And no text either: what a cell says is there, between its lines, in order."""
    shown = io.StringIO()
    monkeypatch.setattr(tables, "console", lambda: Console(file=shown, width=width, highlight=False))
    path = "/a/path/of/one/long/word/that/has/no/blank.toml"
    titles = ["plan", "route", *(f"a number of kind {place}" for place in range(len(NUMBERS)))]
    columns = [Column("kept", wrap=False), *(Column(each, "text" if len(each) < 6 else "value") for each in titles)]
    write_table(Table("Prices", columns, [("kept as it is", path, "by some route", *NUMBERS)] * 2), "table")
    text = shown.getvalue()
    assert "…" not in text
    assert text.count("kept as it is") == 2
    words = re.split(r"[\s\u2502]+", text)
    assert all(words.count(word) == 2 for number in NUMBERS for word in number.split()), text
    assert text.count(path) == 2 or width == 110, "folded only where a table would have no room"


@pytest.mark.parametrize("text", AWKWARD)
def test_csv_is_read_back_with_every_digit(text, text_of):
    title, first, last = csv.reader(io.StringIO(text_of(table_of([text]), "csv")))
    assert title == ["what", "epsilon", "at least", "count"]
    assert first == [text, "1.23456701", "1.2345678", "12345"]
    assert last == ["none", "", "inf", ""]


@pytest.mark.parametrize("text", AWKWARD)
def test_json_is_read_back(text, text_of):
    found = json.loads(text_of(table_of([text]), "json"))
    assert found["rows"][0] == {"what": text, "epsilon": 1.23456701, "at least": 1.2345678, "count": 12345}


@pytest.mark.parametrize("text", AWKWARD)
def test_markdown_has_as_many_cells_in_every_line(text, text_of):
    lines = [line for line in text_of(table_of([text]), "markdown").splitlines() if line.startswith("|")]
    assert len(lines) == 4
    for line in lines:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 5
    assert lines[1] == "| --- | ---: | ---: | ---: |"


@pytest.mark.parametrize("text", AWKWARD)
def test_latex_has_no_character_of_the_text_that_commands(text, text_of):
    whole = text_of(table_of([text]), "latex")
    assert whole.count("\\begin") == whole.count("\\end") == 2
    assert escape_latex(text) in whole
    left = escape_latex(text).replace("-\\/", "-").replace(",\\/", ",").replace("{[}", "").replace("{*}", "")
    for known in ("\\textbackslash{}", "\\textasciitilde{}", "\\textasciicircum{}", "\\textless{}", "\\textgreater{}"):
        left = left.replace(known, "")
    for known in ("\\textbar{}", "\\textquotesingle{}", "\\textasciigrave{}", *(f"\\{mark}" for mark in "&%$#_{}")):
        left = left.replace(known, "")
    assert not set(left) & set("\\&%$#_{}~^<>|\"'`[*\n")
    assert not any(line.lstrip().startswith(("[", "*")) for line in whole.splitlines())


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("--vary a---b", "-\\/-vary a-\\/-\\/-b"),
        ("1e-05, -2,,3", "1e-05, -2,\\/,3"),
        ("'a' `b`", "\\textquotesingle{}a\\textquotesingle{} \\textasciigrave{}b\\textasciigrave{}"),
        ('"', "\\textquotesingle{}\\textquotesingle{}"),
        ("[0, 1] 2 * 3", "{[}0, 1] 2 {*} 3"),
    ],
)
def test_latex_prints_characters_as_they_are_without_packages(text, written):
    """Two hyphens would be a dash, quotes would be curly, and a bracket would be an option of the row above."""
    assert escape_latex(text) == written


@pytest.mark.parametrize("text", AWKWARD)
def test_markdown_has_no_mark_of_the_text_that_is_not_escaped(text):
    left = re.sub(r"\\[\W_]", "", escape_markdown(text))
    assert not set(left) & set("\\`*_[]<>|#~&$")


def test_forms_exclude_each_other():
    import argparse

    from accountant.tables import add_forms

    parser = argparse.ArgumentParser(exit_on_error=False)
    add_forms(parser)
    assert parser.parse_args([]).form == "table"
    for form in FORMS:
        assert parser.parse_args([f"--{form}"]).form == form
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parser.parse_args(["--json", "--csv"])
