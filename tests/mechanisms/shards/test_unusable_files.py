"""Parquet files that cannot be used as private records: the message names the file, and the record within it."""

import re

import numpy as np
import pytest

import accountant as ac
from mechanisms.shards import pieces
from tests.mechanisms.shards.tables import individual_knn, private_knn, write_parquet

dask = pytest.importorskip("dask")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def put(table, name, row, value):
    """The table with another value in one place."""
    values = table[name].to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop_columns(["label"]), "no column 'label'; accepted: a column of labels"),
        (lambda table: table.drop_columns(["f3"]), "no column 'f3' among"),
        (lambda table: table.drop_columns(["person"]), "no column 'person'"),
        (lambda table: put(table, "f3", 5, None), "record 5 has no value in column 'f3' .* if not with --workers"),
        (lambda table: put(table, "f3", 5, np.inf), "feature 3 of record 5"),
        (lambda table: put(table, "label", 7, None), "record 7 has no label"),
        (lambda table: put(table, "label", 7, -1), "record 7 has label -1"),
    ],
)
def test_the_file_is_named_among_those_of_its_partition(tmp_path, change, words):
    """The first file was, with the number of a record that it may not have."""
    folder = write_parquet(tmp_path / "records", (60, 40, 30), lists=False)
    path = folder / "part-001.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(ac.ParameterError, match=rf"part-001\.parquet: .*{words}") as error:
        individual_knn().fit(folder, "label", "person")
    assert "part-000" not in str(error.value)


def test_a_partition_that_begins_within_a_file_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_BYTES", 2.0**12)
    folder = write_parquet(tmp_path / "records", (400, 400), lists=False, rows=100)
    path = folder / "part-000.parquet"
    pq.write_table(put(pq.read_table(path), "f3", 301, None), path, row_group_size=100)
    with pytest.raises(ac.ParameterError, match="has no value in column 'f3'") as error:
        private_knn().fit(folder, "label")
    found = re.search(r"part-000\.parquet from row group ([123]): record (\d+) has", str(error.value))
    assert 100 * int(found[1]) + int(found[2]) == 301
