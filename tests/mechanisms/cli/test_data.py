"""Data options of the commands: identifiers, columns that are left out, the public number of records."""

import argparse
import re

import numpy as np
import pytest

from mechanisms.cli.data import add_data, load_data
from mechanisms.cli.results_file import OptionError
from mechanisms.datasets import DataError


@pytest.fixture
def given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n, labelled in (("private", 1049, True), ("public", 30, False), ("test", 20, True)):
        lines = ["x,person,y" + ",label" * labelled]
        for row in range(n):
            x, y = rng.normal(size=2)
            lines.append(f"{x},p{row // 2 if name == 'test' else row},{y}" + f",{row % 3}" * labelled)
        (tmp_path / f"{name}.csv").write_text("\n".join([*lines, ""]))

    def parse(*arguments, ids=None):
        parser = argparse.ArgumentParser()
        add_data(parser)
        options = parser.parse_args([str(argument) for argument in arguments])
        return load_data(argparse.Namespace(**vars(options), seed=None, ids=ids))

    return parse


FILES = ["--private", "private.csv", "--public", "public.csv", "--test", "test.csv", "--classes", 3]


def test_identifiers_are_of_private_records_alone(given):
    """The column of that name in public and test records is no feature, and may hold anything."""
    found = given(*FILES, ids="person")
    assert found.private.ids == tuple(f"p{row}" for row in range(1049))
    assert (found.public.ids, found.test.ids) == (None, None)
    assert [each.features.shape[1] for each in (found.private, found.public, found.test)] == [2, 2, 2]
    assert (found.n_classes, found.class_names) == (3, None)


@pytest.mark.parametrize("option", ["--public", "--test"])
@pytest.mark.parametrize("path", ["private.csv", "./private.csv", "private.csv[5:9]", "link.csv", "again.csv"])
def test_private_records_are_no_others(given, tmp_path, option, path):
    """What is known of public points and of test records is shown: a slip of the name would show private ones."""
    (tmp_path / "link.csv").symlink_to("private.csv")
    (tmp_path / "again.csv").hardlink_to(tmp_path / "private.csv")
    options = {"--private": "private.csv", "--public": "public.csv", "--test": "test.csv", option: path}
    with pytest.raises(OptionError, match=f"{option} {re.escape(path)} holds private records; accepted: others than"):
        given(*(each for pair in options.items() for each in pair), "--classes", 3)


def test_other_rows_of_a_file_are_no_private_records(given):
    sources = ["--private", "private.csv[20:]", "--public", "private.csv[0:20]", "--test", "test.csv"]
    found = given(*sources, "--classes", 3, ids="person")
    assert (len(found.private), len(found.public)) == (1029, 20)


def test_identifiers_of_a_cut(given):
    found = given("--data", "private.csv", "--classes", 3, ids="person")
    every = [*found.private.ids, *found.public.ids, *found.test.ids]
    assert len(set(every)) == len(every) == sum(map(len, (found.private, found.public, found.test)))


def test_a_digest_is_no_column(given):
    with pytest.raises(DataError, match="column 'person' holds 'p0', not a number"):
        given(*FILES, ids="digest")


@pytest.mark.parametrize("ids", ["person", "digest"])
def test_identifiers_of_data_without_columns(given, ids):
    if ids == "digest":
        assert given("--data", "digits", ids=ids).private.ids is None
    else:
        with pytest.raises(DataError, match="digits: has no column 'person'"):
            given("--data", "digits", ids=ids)


def test_the_nominal_number(given):
    assert given(*FILES, ids="person").nominal == 1000
    assert given(*FILES, "--records", 1200, ids="person").nominal == 1200


def test_names(given):
    found = given(*FILES[:-1], "2,0,1", ids="person")
    assert (found.n_classes, found.class_names) == (3, ("2", "0", "1"))
    assert found.private.labels[:3].tolist() == [1, 2, 0]
