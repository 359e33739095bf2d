"""Clusters that were found elsewhere, from a file."""

import numpy as np
import pytest

from tests.mechanisms.cli.test_command import run, summary


def test_clusters_from_a_file_decide_whose_label_a_point_takes(capsys, tmp_path):
    """All points of a cluster get one label; the price is that of as many queries, wherever they come from."""
    clusters = np.arange(600) % 7
    given = tmp_path / "clusters.txt"
    given.write_text("\n".join(map(str, clusters)) + "\n")
    usual = [
        "label",
        "reverse-knn",
        "--data",
        "digits",
        "--split",
        "900,600,297",
        "--epsilon",
        5,
        "--delta",
        0,
    ]
    found = summary(capsys, *usual, "--seed", 1, "--assignment", f"@{given}", "--out", tmp_path / "a.npz")
    assert found["setting"]["queries"] == 7
    labels = np.load(tmp_path / "a.npz")["label"]
    assert [len(set(labels[clusters == cluster])) for cluster in range(7)] == [1] * 7
    plain = summary(capsys, *usual, "--queries", 7, "--dry-run", "--out", tmp_path / "b.npz")
    assert plain["epsilon"] == found["epsilon"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n1\n", "assignment has shape (2,)"),
        ("0\n" * 599 + "-1\n", "assignment holds -1; accepted: 0..0"),
        ("0\n" * 599 + "2\n", "assignment without queries leaves 1 empty"),
        ("0\nno\n", "holds something else than whole numbers; accepted: a file with a cluster number"),
        ("", "holds nothing; accepted: a file with a cluster number"),
    ],
)
def test_wrong_clusters_are_refused_before_anything_is_spent(capsys, tmp_path, text, message):
    given = tmp_path / "clusters.txt"
    given.write_text(text)
    usual = ["label", "reverse-knn", "--data", "digits", "--split", "900,600,297", "--epsilon", 5, "--delta", 0]
    code, _, errors = run(capsys, *usual, "--assignment", f"@{given}", "--dry-run", "--out", tmp_path / "a.csv")
    assert code == 2
    assert message in errors
