"""Readers of labelled data on small files of each format; damaged and hostile files are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import struct
import subprocess
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

import accountant as ac
from mechanisms import datasets
from mechanisms.datasets import DataError, Dataset, load, private_public_test_split
from mechanisms.datasets.matlab import matlab_arrays

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
LABELS = np.array([3, 0, 9, 1, 1, 7])


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (Path.write_text, (self.target, "unpickled"))


@pytest.fixture
def bomb(tmp_path: Path):
    target = tmp_path / "unpickled.txt"
    yield Bomb(target)
    assert not target.exists()
    pickle.loads(pickle.dumps(Bomb(target)))  # unpickling does write the file
    assert target.exists()


def refusal(call: Callable[..., object], *arguments: object) -> str:
    """The one-line message with which a call is refused."""
    with pytest.raises(DataError) as caught:
        call(*arguments)
    line = str(caught.value)
    assert "\n" not in line
    assert "; accepted: " in line
    return line


# --- files of the real formats --------------------------------------------------------------------------


def idx_bytes(values: np.ndarray) -> bytes:
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def write_idx(directory: Path, part: str = "train", labels: np.ndarray = LABELS, **style: str) -> np.ndarray:
    pixels = RNG.integers(0, 256, (len(labels), 28, 28), np.uint8)
    mark, end = style.get("mark", "-"), style.get("end", "")
    for kind, values in (("images", pixels), ("labels", labels)):
        raw = idx_bytes(values)
        file = directory / f"{part}-{kind}{mark}idx{values.ndim}-ubyte{end}"
        file.write_bytes(gzip.compress(raw) if end else raw)
    return pixels


def write_svhn(path: Path, labels: np.ndarray, compressed: bool = True, **replaced: object) -> np.ndarray:
    pixels = RNG.integers(0, 256, (32, 32, 3, len(labels)), np.uint8)
    arrays = {"X": pixels, "y": labels.reshape(-1, 1).astype(np.uint8), **replaced}
    savemat(path, arrays, do_compression=compressed)
    return pixels


def write_cifar(path: Path, labels: np.ndarray = LABELS) -> np.ndarray:
    pixels = RNG.integers(0, 256, (len(labels), 3, 32, 32), np.uint8)
    path.write_bytes(b"".join(bytes([y]) + x.tobytes() for x, y in zip(pixels, labels, strict=True)))
    return pixels


def write_npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **{"features": RNG.normal(size=(6, 4)), "labels": LABELS, **arrays})
    return path


def write_parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


# --- each reader on its format --------------------------------------------------------------------------


def test_digits():
    digits = load("digits")
    assert digits.name == "digits"
    assert digits.features.shape == (1797, 64)
    assert digits.features.dtype == np.float32
    assert (digits.features.min(), digits.features.max()) == (0, 1)
    assert digits.labels.dtype == np.int64
    assert set(digits.labels) == set(range(10))
    assert digits.images == (8, 8)
    assert len(digits) == 1797


@pytest.mark.parametrize("style", [{}, {"end": ".gz"}, {"mark": "."}], ids=str)
def test_idx(tmp_path, style):
    train = write_idx(tmp_path, **style)
    test = write_idx(tmp_path, "t10k", LABELS[:2], **style)
    found = load(tmp_path)
    assert found.name == str(tmp_path)
    assert found.images == (28, 28)
    np.testing.assert_array_equal(found.labels, [*LABELS, *LABELS[:2]])
    expected = np.concatenate([train, test]).reshape(8, 784) / np.float32(255)
    np.testing.assert_array_equal(found.features, expected)


def test_idx_reads_a_file_once_when_it_lies_there_plain_and_compressed(tmp_path):
    write_idx(tmp_path, end=".gz")
    plain = write_idx(tmp_path)
    found = load(tmp_path)
    np.testing.assert_array_equal(found.features, plain.reshape(6, 784) / np.float32(255))


def test_idx_of_more_classes(tmp_path):
    write_idx(tmp_path, labels=np.array([26, 1]))
    assert "has label 26; accepted: 0..9" in refusal(load, tmp_path)
    assert datasets.idx(tmp_path, classes=27).labels.tolist() == [26, 1]


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("kind", [np.uint8, np.float64, np.int16])
def test_svhn(tmp_path, compressed, kind):
    path = tmp_path / "train_32x32.mat"
    labels, others = np.array([10, 1, 9]), {"note": "text", "cells": np.array([1, "a"], object), "z": 1j * np.ones(2)}
    pixels = write_svhn(path, labels, compressed, y=labels.reshape(3, 1).astype(kind), **others)
    found = load(path)
    assert found.labels.tolist() == [0, 1, 9]
    assert found.images == (32, 32, 3)
    np.testing.assert_array_equal(found.features[2].reshape(32, 32, 3), pixels[..., 2] / np.float32(255))
    write_svhn(tmp_path / "test_32x32.mat", np.array([2]))
    write_svhn(tmp_path / "extra_32x32.mat", np.array([3]))
    assert load(tmp_path).labels.tolist() == [0, 1, 9, 3, 2]


def test_cifar10_binary(tmp_path):
    test = write_cifar(tmp_path / "test_batch.bin", LABELS[:1])
    second = write_cifar(tmp_path / "data_batch_2.bin", LABELS[:2])
    first = write_cifar(tmp_path / "data_batch_1.bin")
    (tmp_path / "batches.meta.txt").write_text("airplane\n")
    found = load(tmp_path)
    assert found.labels.tolist() == [*LABELS, *LABELS[:2], *LABELS[:1]]
    assert found.images == (32, 32, 3)
    pixels = np.concatenate([first, second, test])
    np.testing.assert_array_equal(
        found.features.reshape(-1, 32, 32, 3)[..., 1], pixels[:, 1] / np.float32(255), "green is the second channel"
    )
    assert load(tmp_path / "data_batch_2.bin").labels.tolist() == LABELS[:2].tolist()


def test_npz(tmp_path):
    features = RNG.normal(size=(6, 4))
    found = load(write_npz(tmp_path / "a.npz", features=features))
    np.testing.assert_array_equal(found.features, features.astype(np.float32))
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.images is None


def test_npz_bytes_are_pixels_in_images_and_numbers_in_tables(tmp_path):
    values = RNG.integers(0, 256, (6, 5, 4, 3), np.uint8)
    images = load(write_npz(tmp_path / "images.npz", features=values))
    assert images.images == (5, 4, 3)
    np.testing.assert_array_equal(images.features, values.reshape(6, 60) / np.float32(255))
    table = load(write_npz(tmp_path / "table.npz", features=values.reshape(6, 60)))
    np.testing.assert_array_equal(table.features, values.reshape(6, 60))


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.uint64, np.float32, bool])
def test_whole_labels_of_any_kind(tmp_path, kind):
    found = load(write_npz(tmp_path / "a.npz", labels=LABELS.astype(kind)))
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.labels, LABELS.astype(kind))


def test_several_labels_a_record(tmp_path):
    several = RNG.integers(0, 2, (6, 3))
    np.testing.assert_array_equal(load(write_npz(tmp_path / "a.npz", labels=several)).labels, several)
    columns = {"features": RNG.normal(size=(6, 2)).tolist(), "label": several.tolist()}
    np.testing.assert_array_equal(load(write_parquet(tmp_path / "a.parquet", **columns)).labels, several)
    assert "has label 2; accepted: 0..1" in refusal(load, write_npz(tmp_path / "b.npz", labels=several + 1))


def test_parquet_of_columns(tmp_path):
    columns = {"b": [0.5, 1.5], "label": [1, 0], "town": ["x", "y"], "a": [7, 8], "flag": [True, False]}
    found = load(write_parquet(tmp_path / "a.parquet", **columns))
    np.testing.assert_array_equal(found.features, [[0.5, 7, 1], [1.5, 8, 0]])
    assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_parquet_of_lists(tmp_path, kind):
    features = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], kind)
    path = write_parquet(tmp_path / "a.parquet", features=features, label=[0, 1, 2], other=[9, 9, 9])
    np.testing.assert_array_equal(load(path).features, [[1, 2], [3, 4], [5, 6]])


def test_parquet_leaves_out_the_index_of_pandas(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "label": [0, 1], "person": [17, 18]})
    described = {"index_columns": ["person"], "columns": [], "column_indexes": []}
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(described)}), tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet").features.tolist() == [[1], [2]]


def test_a_partitioned_directory_name_adds_no_column(tmp_path):
    directory = tmp_path / "label=7"
    directory.mkdir()
    assert load(write_parquet(directory / "a.parquet", a=[1.0], label=[3])).labels.tolist() == [3]


# --- CSV ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "separator"), [("csv", ","), ("tsv", "\t"), ("CSV", ",")])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_csv(tmp_path, ending, separator, mark):
    path = tmp_path / f"a.{ending}"
    lines = [["b", "label", '"a, or c"'], ["0.5", "1", "7"], ["1e3", "0", "-8"], ["2", "2.0", "9"]]
    path.write_text(mark + "".join(f"{separator.join(line)}\r\n" for line in lines), encoding="utf-8")
    found = load(path)
    np.testing.assert_array_equal(found.features, [[0.5, 7], [1000, -8], [2, 9]])
    assert found.labels.tolist() == [1, 0, 2]
    assert (found.ids, found.classes) == (None, None)


def test_csv_whose_numbers_are_whole_for_long(tmp_path):
    """A reader that guesses types from the first rows would fail at the last row."""
    path = tmp_path / "a.csv"
    path.write_text("x,label\n" + "1,0\n" * 400_000 + "0.5,1\n")
    found = load(path)
    assert len(found) == 400_001
    assert (found.features[-1, 0], found.labels[-1]) == (0.5, 1)


def test_csv_without_labels(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    assert load(tmp_path / "a.csv", labelled=False).labels is None
    assert "has no labels; accepted: a column label beside the features" in refusal(load, tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first row is []; accepted: a header, names of columns"),
        ("\n1,2\n", "the first row is []"),
        ("1,2\n3,4\n", "the first row holds the number '1'; accepted: a header"),
        ("nan,1e5\n1,2\n", "the first row holds the number 'nan'"),
        ("x,,label\n1,2,0\n", "the first row is ['x', '', 'label']"),
        ("x,x,label\n1,2,0\n", "2 columns 'x'"),
        ("label\n0\n", "no column of numbers beside 'label'"),
        ("x,label\n", "features hold float64 values of shape (0, 1)"),
        ("x,town,label\n1,Oslo,0\n", "column 'town' holds 'Oslo', not a number"),
        ("x,label\n1,0\nyes,1\n", "column 'x' holds 'yes', not a number"),
        ("x,day,label\n1,2020-01-01,0\n", "column 'day' holds '2020-01-01', not a number"),
        ("x,label\n1,cat\n", "column 'label' holds 'cat', not a number (labels by name need a list of the classes)"),
        ("x,label\n1,0\n,1\n", "record 1 has no value in column 'x'"),
        ("x,y,label\n1,2,0\n1,NA,1\n", "record 1 has no value in column 'y' (public means can stand for it: --impute"),
        ("x,label\n1,0\n2,\n", "record 1 has no value in column 'label'; accepted: "),
        ("x,label\n1,0\ninf,1\n", "feature 0 of record 1 is inf"),
        ("x,label\n1,0\n1,2,3\n", "Expected 2 columns, got 3"),
        ("x,label\n1,0\n\n2,1\n", "record 1 has no value in column 'x'"),
        ("x,label\n1,-1\n", "record 0 has label -1"),
        ("x,label\n1,0.5\n", "record 0 has label 0.5"),
        ("x,label\n1,70000\n", "record 0 has label 70000"),
    ],
)
def test_wrong_csv(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    line = refusal(load, path)
    assert line.startswith(f"{path}: ")
    assert message in line


def test_csv_of_one_column_loses_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n\n3\n")
    with pytest.raises(DataError, match="record 1 has no value in column 'x'"):
        load(tmp_path / "a.csv", labelled=False)


def test_csv_says_which_record(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,0\nyes,1\n")
    assert "record 1: column 'x' holds 'yes'" in refusal(load, tmp_path / "a.csv")


# --- identifiers and named classes ----------------------------------------------------------------------

PEOPLE = ["p3", "p0", "p9", "p1", "p2", "p7"]


def write_table(path: Path, ids: object, **columns: object) -> Path:
    """Six records with a column `person`."""
    features = RNG.normal(size=(6, 2))
    table = {"x": features[:, 0], "person": ids, "y": features[:, 1], "label": LABELS, **columns}
    if path.suffix == ".npz":
        arrays = {"labels" if name == "label" else name: table[name] for name in ("person", "label")}
        np.savez(path, features=features, **arrays)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(table), path)
    else:
        rows = [",".join(str(value) for value in row) for row in zip(*table.values(), strict=True)]
        path.write_text("\n".join([",".join(table), *rows, ""]))
    return path


TABLES = ["a.npz", "a.parquet", "a.csv"]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("ids", [PEOPLE, [5, 3, 1, 2, 7, 1000]], ids=["text", "integers"])
def test_identifiers_are_no_feature(tmp_path, name, ids):
    found = load(write_table(tmp_path / name, ids), ids="person")
    assert found.ids == tuple(map(str, ids))
    assert found.features.shape == (6, 2)
    rows = np.array([4, 0])
    assert found.take(rows).ids == (str(ids[4]), str(ids[0]))
    assert found.take(np.arange(6) < 2).ids == found.ids[:2]
    cut = private_public_test_split(found, (3, 2, 1), 0)
    assert {*cut.private.ids, *cut.public.ids, *cut.test.ids} == set(found.ids)


def test_identifiers_in_text_stay_text(tmp_path):
    """Leading zeros are part of an identifier."""
    assert load(write_table(tmp_path / "a.csv", ["07", "7", "1.0", "1", "NA", "x"]), ids="person").ids[:2] == (
        "07",
        "7",
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([*PEOPLE[:5], "p0"], "records 1 and 5 have the same identifier 'p0'"),
        ([*PEOPLE[:5], ""], "record 5 has identifier ''; accepted: text or whole numbers"),
    ],
)
def test_wrong_identifiers(tmp_path, name, ids, message):
    path = write_table(tmp_path / name, ids)
    with pytest.raises(DataError, match=message):
        load(path, ids="person")


def test_identifiers_of_other_kinds_are_refused(tmp_path):
    for name, ids in (("a.npz", np.arange(6.0)), ("a.parquet", [b"x"] * 6), ("b.npz", np.ones((6, 2), int))):
        with pytest.raises(DataError, match=r"person.* holds .*, not"):
            load(write_table(tmp_path / name, ids), ids="person")
    for ids, message in (
        (np.arange(6.0), "identifier 0.0"),
        ([True, *range(5)], "True"),
        ([None, *PEOPLE[1:]], "None"),
    ):
        with pytest.raises(DataError, match=message):
            Dataset("mine", np.ones((6, 1)), None, ids=ids)
    with pytest.raises(DataError, match=r"identifiers of shape \(2,\); accepted: shape \(6,\)"):
        Dataset("mine", np.ones((6, 1)), None, ids=("a", "b"))


@pytest.mark.parametrize("name", TABLES)
def test_identifiers_that_are_not_there(tmp_path, name):
    path = write_table(tmp_path / name, PEOPLE)
    with pytest.raises(DataError, match="'nobody'"):
        load(path, ids="nobody")


def test_identifiers_need_a_table(tmp_path):
    write_idx(tmp_path)
    for source in ("digits", tmp_path):
        with pytest.raises(DataError, match="has no column 'person'; accepted: identifiers in"):
            load(source, ids="person")


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_identifiers_of_public_points_are_left_out(tmp_path, name):
    path = write_table(tmp_path / name, [5, 3, 1, 2, 7, 1000])
    assert load(path, leave_out="person").features.shape == (6, 2)
    assert load(path).features.shape == (6, 3)
    assert load(path, leave_out="nobody").features.shape == (6, 3)


@pytest.mark.parametrize("name", TABLES)
def test_named_classes(tmp_path, name):
    words = np.array([f"n{label}" for label in LABELS])
    path = write_table(tmp_path / name, PEOPLE, label=words)
    classes = ("n9", "n0", "n1", "n3", "n7", "n5")
    assert load(path, ids="person", classes=classes).labels.tolist() == [3, 1, 0, 2, 2, 4]
    with pytest.raises(DataError, match="record 5 has label 'n7'; accepted: n9, n0, n1, n3"):
        load(path, ids="person", classes=classes[:4])
    with pytest.raises(DataError, match="label"):
        load(path, ids="person")


@pytest.mark.parametrize("kind", [int, float, np.uint8, "category"])
def test_numbers_are_matched_by_their_text(tmp_path, kind):
    if kind == "category":
        values = pa.array([str(label) for label in LABELS]).dictionary_encode()
        path = write_parquet(tmp_path / "a.parquet", x=RNG.normal(size=6), label=values)
    else:
        path = write_npz(tmp_path / "a.npz", labels=LABELS.astype(kind))
    assert load(path, classes=("9", "0", "1", "3", "7")).labels.tolist() == [3, 1, 0, 2, 2, 4]


def test_named_classes_of_formats(tmp_path):
    write_idx(tmp_path)
    assert load(tmp_path).classes == 10
    found = load(tmp_path, classes=("9", "0", "1", "3", "7"))
    assert found.labels.tolist() == [3, 1, 0, 2, 2, 4]
    assert found.classes is None
    with pytest.raises(DataError, match="labels of shape"):
        load(write_npz(tmp_path / "a.npz", labels=np.ones((6, 2), int)), classes=("0", "1"))


def test_classes_of_the_formats(tmp_path):
    write_svhn(tmp_path / "train_32x32.mat", np.array([1, 2]))
    write_cifar(tmp_path / "data_batch_1.bin")
    for source in ("digits", tmp_path / "train_32x32.mat", tmp_path / "data_batch_1.bin"):
        found = load(source)
        assert (found.classes, found.take(np.arange(2)).classes) == (10, 10)
    assert load(write_npz(tmp_path / "a.npz")).classes is None


# --- OpenML, from canned answers of its real interface ---------------------------------------------------


def openml_site(nominal: str = "") -> dict[str, bytes]:
    """Answers of openml.org for a data set of two features and three records, by the end of the address."""
    arff = f"@RELATION small\n@ATTRIBUTE a REAL\n@ATTRIBUTE b {nominal or 'REAL'}\n@ATTRIBUTE class {{9,10,1}}\n"
    arff += "@DATA\n" + "".join(f"{a},{'x' if nominal else b},{c}\n" for a, b, c in ((1, 2, 10), (3, 4, 9), (5, 6, 1)))
    kinds = {"a": "numeric", "b": "nominal" if nominal else "numeric", "class": "nominal"}
    described = {"id": "7", "name": "small", "version": "1", "status": "active", "format": "ARFF", "description": "d"}
    described |= {"url": "https://www.openml.org/data/v1/download/70/small.arff", "default_target_attribute": "class"}
    described |= {"md5_checksum": hashlib.md5(arff.encode()).hexdigest()}
    flags = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
    features = [
        {"index": str(i), "name": name, "data_type": kind, "is_target": str(name == "class").lower(), **flags}
        for i, (name, kind) in enumerate(kinds.items())
    ]
    answers: dict[str, object] = {
        "data_name/small/limit/2/status/active/": {"data": {"dataset": [{"did": 7, "version": 1, "status": "active"}]}},
        "json/data/7": {"data_set_description": described},
        "features/7": {"data_features": {"feature": features}},
        "qualities/7": {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "3"}]}},
    }
    return {end: json.dumps(answer).encode() for end, answer in answers.items()} | {"small.arff": arff.encode()}


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Answer for openml.org; without answers there is no network."""
    openml = pytest.importorskip("sklearn.datasets._openml")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(openml.time, "sleep", lambda seconds: None)

    def answer(answers: dict[str, bytes]) -> None:
        def urlopen(request, *_, **__):
            body = next((body for end, body in answers.items() if request.full_url.endswith(end)), None)
            if body is None and answers:
                raise urllib.error.HTTPError(request.full_url, 412, "Precondition Failed", None, io.BytesIO())
            if body is None:
                raise urllib.error.URLError(OSError(-3, "Temporary failure in name resolution"))
            response = io.BytesIO(body)
            response.info = dict  # type: ignore[attr-defined]
            return response

        monkeypatch.setattr(openml, "urlopen", urlopen)

    return answer


@pytest.mark.parametrize("name", ["small", "7"])
def test_openml(site, name):
    site(openml_site())
    found = load(f"openml:{name}")
    assert found.name == f"openml:{name}"
    assert found.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.labels.tolist() == [2, 1, 0], "classes 1, 9, 10 in the order of their values"


def test_openml_by_named_classes(site):
    """Classes are in the order of the list, whichever occur."""
    site(openml_site())
    assert load("openml:small", classes=("10", "11", "1", "9")).labels.tolist() == [0, 3, 2]
    with pytest.raises(DataError, match="openml:small: record 1 has label '9'; accepted: 10, 1"):
        load("openml:small", classes=("10", "1"))


def test_openml_refuses_names_as_features(site):
    site(openml_site(nominal="{x,y}"))
    assert "openml:small: feature 'b' holds names, not numbers" in refusal(load, "openml:small")


def test_openml_without_a_network(site):
    site({})
    line = refusal(load, "openml:small")
    assert line.startswith("openml:small: ")
    assert "name resolution" in line
    assert line.endswith("and a network")


def test_openml_of_an_unknown_name(site):
    site(openml_site())
    assert "No active dataset smal found" in refusal(load, "openml:smal")


# --- nothing is unpickled -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["features", "labels"])
def test_npz_of_objects_is_refused(tmp_path, bomb, name):
    objects = np.array([bomb] * 6, dtype=object)
    path = write_npz(tmp_path / "a.npz", **{name: objects})
    assert "a.npz: Object arrays cannot be loaded" in refusal(load, path)


@pytest.mark.parametrize("name", ["a.npz", "a.mat", "a.parquet", "a.bin", "a.pkl"])
def test_a_pickle_under_any_name_is_refused(tmp_path, bomb, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps(bomb))
    assert refusal(load, path).startswith(f"{path}: ")


def test_the_pickled_version_of_cifar_is_refused_with_advice(tmp_path, bomb):
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(bomb))
    assert "pickled files are never read; CIFAR-10 also comes as a binary version" in refusal(load, tmp_path)


def test_mat_of_cells_and_objects_is_refused(tmp_path, bomb):
    cells = np.empty((3, 1), dtype=object)
    cells[:] = np.frombuffer(pickle.dumps(bomb), np.uint8).tobytes().hex()
    for key, message in (("X", "no array 'X' among ['y']"), ("y", "no array 'y' among ['X']")):
        path = tmp_path / f"{key}.mat"
        write_svhn(path, np.array([1, 2, 3]), **{key: cells})
        assert message in refusal(load, path)


def test_parquet_of_an_extension_type_is_refused(tmp_path, bomb):
    """Old releases of pyarrow unpickled this metadata (CVE-2023-47248)."""
    hostile = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(bomb)}
    for name, kind in (("features", pa.list_(pa.float64())), ("spare", pa.int64()), ("label", pa.int64())):
        schema = pa.schema([("a", pa.float64()), ("label", pa.int64())])
        position = schema.get_field_index(name)
        field = pa.field(name, kind, metadata=hostile)
        schema = schema.append(field) if position < 0 else schema.set(position, field)
        values = [[[1.0], [2.0]] if column.type == pa.list_(pa.float64()) else [0, 1] for column in schema]
        arrays = [pa.array(value, column.type) for value, column in zip(values, schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), tmp_path / "a.parquet")
        assert f"column {name!r} has a type of its own" in refusal(load, tmp_path / "a.parquet")


@pytest.mark.parametrize("version", ["14.0.2", "9.0.0"])
def test_parquet_refuses_a_pyarrow_that_unpickles(tmp_path, monkeypatch, version):
    monkeypatch.setattr(pa, "__version__", version)
    with pytest.raises(ac.MissingExtra, match="older than 15; accepted: pip install"):
        load(write_parquet(tmp_path / "a.parquet", a=[1.0], label=[0]))


def test_parquet_of_pickled_bytes_is_refused(tmp_path, bomb):
    raw = [pickle.dumps(bomb)]
    assert "'label' holds binary" in refusal(load, write_parquet(tmp_path / "a.parquet", a=[1.0], label=raw))
    assert "'features' holds binary" in refusal(load, write_parquet(tmp_path / "b.parquet", features=raw, label=[1]))


# --- damaged files --------------------------------------------------------------------------------------


def test_matlab_arrays_are_those_of_scipy(tmp_path):
    kinds = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.int64, np.uint64, np.float32, np.float64]
    arrays = {f"a_{kind.__name__}": (RNG.normal(size=(2, 3, 4)) * 50).astype(kind) for kind in kinds}
    arrays |= {"scalar": np.array([[7.0]]), "short": np.array([[1, 2, 3]], np.uint8), "none": np.zeros((0, 3))}
    for compressed in (True, False):
        savemat(tmp_path / "a.mat", arrays, do_compression=compressed)
        found = matlab_arrays(memoryview((tmp_path / "a.mat").read_bytes()))
        assert found.keys() == arrays.keys()
        for name, values in loadmat(tmp_path / "a.mat", variable_names=arrays).items():
            if name in arrays:
                np.testing.assert_array_equal(found[name], values, strict=True)


def complete(directory: Path, kind: str) -> tuple[Path, Path]:
    """What to load, and a file of it to damage."""
    if kind in ("idx", "idx.gz"):
        write_idx(directory, end=kind.removeprefix("idx"))
        return directory, next(directory.glob("*images*"))
    path = directory / f"file.{kind}"
    if kind in ("mat", "plain.mat"):
        write_svhn(path, np.array([1, 2, 10]), compressed=kind == "mat")
    elif kind == "bin":
        write_cifar(path)
    elif kind == "npz":
        write_npz(path)
    else:
        write_parquet(path, features=RNG.normal(size=(6, 4)).tolist(), label=LABELS.tolist())
    return path, path


KINDS = ["idx", "idx.gz", "mat", "plain.mat", "bin", "npz", "parquet"]


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_files_are_refused(tmp_path, kind):
    source, file = complete(tmp_path, kind)
    assert len(load(source)) in (3, 6)
    raw = file.read_bytes()
    for length in sorted({0, 1, 3, 4, 15, 16, 127, 128, 136, len(raw) // 2 + 1, len(raw) - 9, len(raw) - 1}):
        file.write_bytes(raw[:length])
        assert refusal(load, source).startswith(f"{file}: "), length


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_as_valid_data_or_refused_in_one_line(tmp_path, kind):
    source, file = complete(tmp_path, kind)
    raw, rng = file.read_bytes(), np.random.default_rng(1)
    for _ in range(150):
        damaged = bytearray(raw)
        for position in rng.integers(0, min(len(raw), 400), 4):
            damaged[position] = rng.integers(256)
        file.write_bytes(damaged)
        try:
            found = load(source)
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert np.isfinite(found.features).all()
            assert len(found.features) == len(found.labels)


def test_idx_errors(tmp_path):
    write_idx(tmp_path)
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    good = labels.read_bytes()
    labels.write_bytes(idx_bytes(LABELS[:5]))
    assert f"{labels}: labels hold uint8 values of shape (5,); accepted: whole numbers of shape (6,)" in refusal(
        load, tmp_path
    )
    labels.write_bytes(idx_bytes(np.array([0, 1, 2, 3, 4, 10])))
    assert f"{labels}: record 5 has label 10; accepted: 0..9" in refusal(load, tmp_path)
    labels.write_bytes(good + b"\0")
    assert f"{labels}: 7 bytes of values; accepted: 6" in refusal(load, tmp_path)
    labels.write_bytes(images.read_bytes())
    assert f"{labels}: begins with 00000803" in refusal(load, tmp_path)
    labels.unlink()
    assert f"{images}: has no partner" in refusal(load, tmp_path)
    images.unlink()
    assert "none of its files found" in refusal(datasets.idx, tmp_path)


def test_idx_parts_that_do_not_fit(tmp_path):
    write_idx(tmp_path)
    for kind, values in (("images-idx3", np.zeros((1, 20, 20))), ("labels-idx1", LABELS[:1])):
        (tmp_path / f"t10k-{kind}-ubyte").write_bytes(idx_bytes(values))
    assert "images of different shapes [(20, 20), (28, 28)]" in refusal(load, tmp_path)


def test_empty_files_of_the_right_form_are_refused(tmp_path):
    write_idx(tmp_path, labels=LABELS[:0])
    assert "features hold float32 values of shape (0, 784)" in refusal(load, tmp_path)
    for features in (np.zeros((0, 3)), np.zeros((6, 0)), np.zeros(6), np.zeros((6, 0, 2))):
        assert "features hold" in refusal(load, write_npz(tmp_path / "a.npz", features=features, labels=LABELS))
    assert "features" in refusal(
        load, write_parquet(tmp_path / "a.parquet", a=pa.array([], "f4"), label=pa.array([], "i4"))
    )


def test_svhn_errors(tmp_path):
    path = tmp_path / "a.mat"
    for wrong in (0, 11):
        write_svhn(path, np.array([1, wrong]))
        assert f"{path}: record 1 has label {wrong}; accepted: 1..10" in refusal(load, path)
    write_svhn(path, np.array([1, 2]), y=np.ones((3, 1), np.uint8))
    assert "labels hold uint8 values of shape (3,)" in refusal(load, path)
    write_svhn(path, np.array([1, 2]), X=np.zeros((28, 28, 3, 2), np.uint8))
    assert "X holds uint8 values of shape (28, 28, 3, 2)" in refusal(load, path)
    raw = bytearray(path.read_bytes())
    raw[124:126] = b"\x00\x02"
    path.write_bytes(raw)
    assert "no header of a little-endian MATLAB 5 file; accepted: " in refusal(load, path)
    savemat(path, {"digitStruct": np.ones(3)})
    assert "no array 'X' among ['digitStruct']" in refusal(load, path)


def test_cifar_errors(tmp_path):
    path = tmp_path / "data_batch_1.bin"
    write_cifar(path, np.array([1, 10]))
    assert f"{path}: record 1 has label 10; accepted: 0..9" in refusal(load, tmp_path)
    path.write_bytes(bytes(3074 * 2))
    assert f"{path}: 6148 bytes; accepted: 3073 for each record" in refusal(load, tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": LABELS[:5]}, "labels hold int64 values of shape (5,)"),
        ({"labels": LABELS.reshape(6, 1)}, "labels hold int64 values of shape (6, 1)"),
        ({"labels": np.array(3)}, "labels hold int64 values of shape ()"),
        ({"labels": np.array(3), "features": np.zeros((6, 2, 2))}, "labels hold int64 values of shape ()"),
        ({"labels": LABELS - 1}, "record 1 has label -1; accepted: 0..32767"),
        ({"labels": LABELS.astype(np.uint64) + 2**63}, "record 0 has label 9223372036854775811"),
        ({"labels": LABELS + 0.5}, "record 0 has label 3.5"),
        ({"labels": np.array([0, 1, np.nan, 0, 0, 0])}, "record 2 has label nan"),
        ({"labels": np.array([0, 1, np.inf, 0, 0, 0])}, "record 2 has label inf"),
        ({"labels": np.array(list("abcdef"))}, "labels hold <U1 values"),
        ({"features": np.full((6, 4), "1")}, "features hold <U1 values"),
        ({"features": np.ones((6, 4), complex)}, "features hold complex128 values"),
        ({"features": np.array([[1.0, 2.0]] * 5 + [[1.0, np.nan]])}, "feature 1 of record 5 is nan"),
        ({"features": np.array([[1.0, 2.0]] * 5 + [[-np.inf, 1]])}, "feature 0 of record 5 is -inf"),
        ({"features": np.array([[1.0, 2.0]] * 5 + [[1e39, 1]])}, "feature 0 of record 5 is 1e+39"),
        ({"features": np.array([[[np.nan, 2.0]]] * 6)}, "feature 0 of record 0 is nan"),
    ],
)
def test_wrong_arrays(tmp_path, arrays, message):
    assert message in refusal(load, write_npz(tmp_path / "a.npz", **arrays))


def test_npz_of_other_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2)), labels=np.ones(2))
    assert "no array 'features' among ['X', 'labels']" in refusal(load, tmp_path / "a.npz")
    with (tmp_path / "b.npz").open("wb") as stream:
        np.save(stream, np.ones(2))
    assert "one array, not an archive" in refusal(load, tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0]}, "has no labels; accepted: a column label beside the features"),
        ({"label": [1]}, "no column of numbers beside 'label'"),
        ({"town": ["x"], "label": [1]}, "no column of numbers beside 'label'"),
        ({"a": [1.0], "label": ["x"]}, "column 'label' holds string, not numbers (labels by name need a list"),
        ({"a": [1.0, None], "label": [1, 1]}, "record 1 has no value in column 'a'"),
        ({"a": [1, 1], "label": [1, None]}, "record 1 has no label"),
        ({"a": [1, 1], "label": [1, -3]}, "record 1 has label -3"),
        ({"a": [True, None], "label": [1, 1]}, "record 1 has no value in column 'a'"),
        ({"features": [[1.0], [1.0, 2.0]], "label": [1, 1]}, "holds lists of lengths ['1', '2']"),
        ({"features": [[1.0], None], "label": [1, 1]}, "holds lists of lengths ['1', 'None']"),
        ({"features": pa.array([[1.0], None], pa.list_(pa.float64(), 1)), "label": [1, 1]}, "['1', 'None']"),
        ({"features": [["x"]], "label": [1]}, "column 'features' holds string"),
        ({"features": [[[1.0]]], "label": [1]}, "column 'features' holds list"),
        ({"features": [[]], "label": [1]}, "features' holds null"),
        ({"features": [1.0], "label": [1]}, "features hold float64 values of shape (1,)"),
        ({"features": [[1.0, None]], "label": [1]}, "feature 1 of record 0 is nan"),
    ],
)
def test_wrong_columns(tmp_path, columns, message):
    path = write_parquet(tmp_path / "a.parquet", **columns)
    line = refusal(load, path)
    assert line.startswith(f"{path}: ")
    assert message in line


def test_parquet_whose_checksum_fails(tmp_path):
    path = tmp_path / "a.parquet"
    features = RNG.normal(size=50)
    table = pa.table({"a": features, "label": np.arange(50) % 3})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    assert len(load(path)) == 50
    raw, value = path.read_bytes(), features[7].tobytes()
    path.write_bytes(raw.replace(value, bytes(8), 1))
    assert "CRC checksum verification failed" in refusal(load, path)


def test_signalling_nan_is_refused(tmp_path):
    features = np.ones((6, 4))
    features.view(np.uint64)[2, 1] = 0x7FF0000000000001
    assert "feature 1 of record 2 is nan" in refusal(load, write_npz(tmp_path / "a.npz", features=features))


def test_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([1]), pa.array([2])], ["a", "label", "label"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert "2 columns 'label'" in refusal(load, tmp_path / "a.parquet")


# --- sources --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "no such file, directory or name (did you mean 'digits'?)"),
        ("a.npx", "no such file, directory or name (did you mean 'a.npz'?)"),
        ("missing/a.npz", "no such file, directory or name"),
        ("", "'': not a known kind of data; accepted: digits, mnist-5k"),
        (".", "train-images-idx3-ubyte: has no partner"),
        ("a.npy", "a.npy: No data left in file; accepted: a .npy file, nothing pickled"),
        ("train-images-idx3-ubyte", "train-images-idx3-ubyte: has no partner"),
        ("\0", "no such file, directory or name"),
    ],
)
def test_other_sources_are_refused_with_a_suggestion(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    write_npz(tmp_path / "a.npz")
    for other in ("a.npy", "train-images-idx3-ubyte"):
        (tmp_path / other).touch()
    assert message in refusal(load, name)


@pytest.mark.parametrize(
    "loader", [datasets.svhn, datasets.cifar10_binary, datasets.npz, datasets.parquet, datasets.csv]
)
def test_a_missing_file_is_named(tmp_path, loader):
    assert f"{tmp_path}/none: No such file or directory; accepted: " in refusal(loader, tmp_path / "none")


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ac.MissingExtra, match=r"pyarrow\.parquet is not installed; accepted: pip install"):
        load(write_parquet(tmp_path / "a.parquet", a=[1.0], label=[0]))


@pytest.mark.audit
def test_import_is_light():
    heavy = ["sklearn", "pyarrow", "scipy.io", "scipy.stats", "pandas"]
    code = f"import sys, mechanisms.datasets; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_data_set_of_ones_own_is_checked():
    own = Dataset("mine", np.ones((2, 4)), np.array([0, 1]), (2, 2))
    assert own.features.dtype == np.float32
    assert "mine: images of shape (3, 2)" in refusal(Dataset, "mine", np.ones((2, 4)), np.array([0, 1]), (3, 2))


# --- splits ---------------------------------------------------------------------------------------------


def make_numbered(n: int) -> Dataset:
    return Dataset("numbered", np.arange(n * 4).reshape(n, 4), np.arange(n) % 10, (2, 2))


def test_parts_are_disjoint_shuffled_and_seeded():
    data = make_numbered(100)
    split = private_public_test_split(data, (50, 30, 10), 7)
    parts = (split.private, split.public, split.test)
    assert [len(part) for part in parts] == [50, 30, 10]
    rows = np.concatenate([part.features[:, 0] / 4 for part in parts]).astype(int)
    assert len(set(rows)) == 90
    assert list(rows) != sorted(rows)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), rows % 10)
    assert {part.images for part in parts} == {(2, 2)}
    again = private_public_test_split(data, (50, 30, 10), np.random.default_rng(7))
    np.testing.assert_array_equal(split.test.features, again.test.features)
    other = private_public_test_split(data, (50, 30, 10), 8)
    assert not np.array_equal(split.test.features, other.test.features)


def test_parts_may_use_every_record():
    split = private_public_test_split(make_numbered(3), (1, 1, 1))
    assert sorted(part.features[0, 0] for part in (split.private, split.public, split.test)) == [0, 4, 8]


@pytest.mark.parametrize("sizes", [(1, 1, 2), (0, 1, 1), (-1, 1, 1), (1, 1), (1, 1, 1, 0), (1.0, 1, 1), (True, 1, 1)])
def test_impossible_sizes_are_refused(sizes):
    line = refusal(private_public_test_split, make_numbered(3), sizes)
    assert f"numbered: sizes = {sizes}; accepted: three whole numbers >= 1 that sum to at most 3" in line


# --- without labels ------------------------------------------------------------------------------------


def test_unlabelled_files_are_read_where_labels_are_not_needed(tmp_path):
    features = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "a.npz", features=features)
    write_parquet(tmp_path / "a.parquet", u=[0.0, 2.0, 4.0], v=[1.0, 3.0, 5.0])
    for name, wanted in (("a.npz", "an array labels"), ("a.parquet", "a column label")):
        dataset = load(tmp_path / name, labelled=False)
        assert dataset.labels is None
        assert np.array_equal(dataset.features, features)
        assert dataset.take(np.array([2])).labels is None
        assert f"has no labels; accepted: {wanted} beside the features" in refusal(load, tmp_path / name)
    np.savez(tmp_path / "images.npz", features=np.zeros((3, 8, 8), np.uint8))
    assert load(tmp_path / "images.npz", labelled=False).images == (8, 8)
