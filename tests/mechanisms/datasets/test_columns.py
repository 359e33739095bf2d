"""Frames, Arrow files and numpy pairs, and what their columns are for."""

import numpy as np
import pytest

from mechanisms.datasets import Columns, DataError, Dataset, frame, load, match_columns

pa = pytest.importorskip("pyarrow")
TABLE = {"b": [1.0, 2.0], "who": ["x", "y"], "kind": ["ox", "cat"], "a": [3, 4]}
COLUMNS = Columns(label="kind", ids="who", classes=("cat", "ox"))


class Frame:
    """What polars and pandas give: a stream, and nothing that numpy would take."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(TABLE).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [Frame, lambda: pa.table(TABLE)])
def test_frames(kind):
    found = frame(kind(), columns=COLUMNS)
    assert found.features.tolist() == [[1, 3], [2, 4]]
    assert (found.columns, found.ids, found.labels.tolist()) == (("b", "a"), ("x", "y"), [1, 0])
    with pytest.raises(DataError, match=r"mine: no column 'c' among .*; accepted: "):
        frame(kind(), "mine", columns=Columns(features=("c",)))


@pytest.mark.parametrize("opened", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_files(tmp_path, opened):
    table = pa.table(TABLE)
    with opened(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    assert load(tmp_path / "a.arrow", columns=COLUMNS).labels.tolist() == [1, 0]
    (tmp_path / "a.arrow").write_bytes(b"")
    with pytest.raises(DataError, match="; accepted: an Arrow or Feather file"):
        load(tmp_path / "a.arrow")


def test_pairs_of_numpy_files(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "y.npy", np.array(["ox", "cat", "ox"]))
    found = load(f"{tmp_path}/x.npy,{tmp_path}/y.npy", classes=("cat", "ox"))
    assert found.labels.tolist() == [1, 0, 1]
    learnt = load(f"{tmp_path}/x.npy,{tmp_path}/y.npy", columns=Columns(learn_classes=True))
    assert (learnt.class_names, learnt.labels.tolist()) == (("cat", "ox"), [1, 0, 1])
    assert load(tmp_path / "x.npy", labelled=False).labels is None
    with pytest.raises(DataError, match="has no labels"):
        load(tmp_path / "x.npy")


def test_columns_are_matched_by_name():
    first = Dataset("one", np.array([[1.0, 2.0]]), None, columns=("a", "b"))
    other = Dataset("two", np.array([[2.0, 1.0]]), None, columns=("b", "a"))
    assert match_columns(first, other).features.tolist() == [[1, 2]]
    with pytest.raises(DataError, match="one: column 'b' is not a feature of two"):
        match_columns(first, Dataset("two", np.ones((1, 2)), None, columns=("c", "a")))


@pytest.mark.parametrize(("names", "numbers"), [(("true", "false"), [0, 1]), (("1", "0"), [0, 1])])
def test_booleans_are_labels(names, numbers):
    table = pa.table({"x": [1.0, 2.0], "label": [True, False]})
    assert frame(table, columns=Columns(classes=names)).labels.tolist() == numbers
