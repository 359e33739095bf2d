"""CelebA's files: attributes, partition, images or features."""

import numpy as np
import pytest
from skimage.io import imsave

from mechanisms.datasets import DataError, load


@pytest.fixture
def folder(tmp_path):
    """Five images of three attributes."""
    (tmp_path / "img_align_celeba").mkdir()
    rows = ["1 -1 1", "-1 -1 -1", "1 1 1", "-1 1 -1", "1 -1 -1"]
    lines = [f"{i + 1:06d}.png  {row}" for i, row in enumerate(rows)]
    (tmp_path / "list_attr_celeba.txt").write_text("\n".join(["5", "Bald Bangs Smiling", *lines]) + "\n")
    partition = [f"{i + 1:06d}.png {part}" for i, part in enumerate((0, 2, 0, 1, 2))]
    (tmp_path / "list_eval_partition.txt").write_text("\n".join(partition))
    for i in range(5):
        image = np.full((44, 36, 3), 50 * i, np.uint8)
        imsave(tmp_path / "img_align_celeba" / f"{i + 1:06d}.png", image, check_contrast=False)
    return tmp_path


def test_images_and_label_sets(folder):
    found = load(folder)
    assert found.labels.tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0]]
    assert found.images == (32, 32)
    np.testing.assert_allclose(found.features[:, 0], np.arange(5) * 50 / 255, atol=0.01)
    assert load(f"{folder}:train").labels.tolist() == [[1, 0, 1], [1, 1, 1]]
    assert load(f"{folder}:test[1:2]").labels.tolist() == [[1, 0, 0]]


def test_features_of_ones_own(folder):
    np.save(folder / "features.npy", np.arange(10.0).reshape(5, 2))
    assert load(f"{folder}:test").features.tolist() == [[2, 3], [8, 9]]
    np.save(folder / "features.npy", np.arange(8.0).reshape(4, 2))
    with pytest.raises(DataError, match=r"shape \(4, 2\), not \(5, d\)"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("list_attr_celeba.txt", "2\nBald Bangs\na.png 1 -1\n", "1 lines of images, its first line says 2"),
        ("list_attr_celeba.txt", "1\nBald Bangs\na.png 1 2\n", "other values than 1 and -1"),
        ("list_attr_celeba.txt", "1\nBald Bangs\na.png 1\n", "lines of other lengths"),
        (
            "list_attr_celeba.txt",
            "1\nBald Bangs\n../a.png 1 1\n",
            "lists '../a.png', which is no name of a file in img",
        ),
        ("list_attr_celeba.txt", "1\nBald Bangs\n/etc/a.png 1 1\n", "lists '/etc/a.png', which is no name"),
        ("list_attr_celeba.txt", "1\nBald Bangs\n.. 1 1\n", "lists '..', which is no name"),
        ("list_eval_partition.txt", "", "list_eval_partition.txt"),
    ],
)
def test_damaged_lists(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(DataError, match=message):
        load(f"{folder}:train")


def test_a_missing_image_and_part(folder):
    with pytest.raises(DataError, match="part 'extra'"):
        load(f"{folder}:extra")
    (folder / "img_align_celeba" / "000003.png").unlink()
    with pytest.raises(DataError, match=r"000003\.png"):
        load(f"{folder}:train")
