"""No option of any command takes blank text, as of a variable that a script has not set, for an option not given."""

import argparse

import pytest

from accountant.cli.command import main as accountant
from accountant.cli.command import make_parser as accountant_parser
from mechanisms.cli.command import main as mechanisms
from mechanisms.cli.command import make_parser as mechanisms_parser

BLANK = ("", " ", "\t")


def commands(parser):
    """Parsers that read options, below a parser."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for each in dict.fromkeys(action.choices.values()):
            yield from commands(each)


@pytest.mark.parametrize("make", [accountant_parser, mechanisms_parser])
def test_every_option_refuses_blank_text(make):
    read = [(parser, each) for parser in commands(make()) for each in parser._actions if each.nargs != 0]
    assert len(read) > 100
    for parser, action in read:
        for text in BLANK:
            with pytest.raises(argparse.ArgumentError):
                parser._get_values(action, [text])


@pytest.mark.parametrize("text", BLANK)
@pytest.mark.parametrize(
    ("option", "accepted"),
    [
        ("--store", "a path, sqlite:///path or postgresql://user:password@host/database"),
        *((option, "text that is not blank") for option in ("--out", "--ids", "--split", "--public", "--kernel")),
    ],
)
def test_the_message_names_the_option(capsys, option, accepted, text):
    arguments = ["--data", "digits", "--epsilon", "1", "--delta", "1e-5", "--dry-run", f"{option}={text}"]
    assert mechanisms(["predict", "ind-knn", *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err == (
        f"mechanisms: argument {option}: {text!r}; accepted: {accepted}; see 'mechanisms predict ind-knn --help'\n"
    )


def test_positional_text(capsys):
    assert accountant(["epsilon", ""]) == 2
    assert "argument PLAN: ''; accepted: text that is not blank" in capsys.readouterr().err
