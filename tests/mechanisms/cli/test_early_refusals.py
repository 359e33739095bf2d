"""What is out of range is refused at once, in one line with the value and the range, and with no warning before it."""

import argparse

import numpy as np
import pytest

import accountant as ac
from mechanisms.cli import main
from mechanisms.cli.data import parse_classes
from mechanisms.datasets import Dataset, load
from mechanisms.experiment.reverse import ReverseSetting
from mechanisms.forecast import gap_votes


@pytest.mark.parametrize("delta", ["nan", "inf", "1", "3", "-0.1"])
@pytest.mark.parametrize("public", ["public.csv", "-"])
def test_a_delta_out_of_range_is_not_warned_of(capsys, delta, public):
    """Nothing is read before: the sources are not there."""
    target = ["--epsilon", "2", f"--delta={delta}", "--private", "private.csv", "--public", public, "--classes", "3"]
    assert main(["predict", "ind-knn", *target, "--dry-run"]) == 2
    assert capsys.readouterr().err == f"mechanisms: delta = {float(delta)}; accepted: [0, 1)\n"


@pytest.mark.parametrize("text", ["32769", "1000000", "1", "0", "9" * 5000, ",".join(map(str, range(32769)))])
def test_classes_out_of_range(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"^'.*; accepted: .*; at least 2 classes, at most 32768$"):
        parse_classes(text)


def test_most_classes():
    assert parse_classes("32768") == 32768
    assert parse_classes(" 2 ") == 2
    with pytest.raises(ac.ParameterError, match=r"n_classes = 32769; accepted: an integer in \[2, 32768\]"):
        gap_votes([3], 250, 32769)


def test_most_rounds_of_reverse_knn():
    with pytest.raises(ac.ParameterError, match=r"rounds = 1001; accepted: an integer in \[1, 1000\]"):
        ReverseSetting(1.0, 0.0, queries=3, rounds=1001)


@pytest.mark.parametrize("value", [1e300, -1e39, np.inf])
def test_a_feature_is_shown_as_it_stands(tmp_path, value):
    accepted = r"accepted: finite numbers in single precision, up to 3\.4e\+38"
    message = rf"feature 1 of record 0 is {str(value).replace('+', '.')}; {accepted}"
    with pytest.raises(ac.AccountantError, match=message):
        Dataset("wide", np.array([[0.0, value]]), None)
    (tmp_path / "t.csv").write_text(f"a,b,label\n0,{value},1\n")
    with pytest.raises(ac.AccountantError, match=message):
        load(str(tmp_path / "t.csv"))
