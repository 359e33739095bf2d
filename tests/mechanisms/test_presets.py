"""Presets are what the papers print, and what the items of the papers run."""

import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

import accountant as ac
import mechanisms as mx
from mechanisms.cli import main
from mechanisms.presets import PRESETS

ITEMS = Path(mx.__file__).parent / "papers" / "ind-knn"


def rows(item, name, **fixed):
    """Runs of a figure's lines, by epsilon."""
    found = tomllib.loads((ITEMS / f"{item}.toml").read_text())["row"]
    chosen = [row for row in found if row["name"] == name and row.get("only") == "full"]
    assert chosen
    return {epsilon: row["run"] for row in chosen for epsilon in row["vary"]["epsilon"]}


@pytest.mark.parametrize(
    ("preset", "item", "name"),
    [
        ("cifar10", "figure-1a", "Ind-KNN, cosine"),
        ("cifar10-hash", "figure-4", "CIFAR-10, L = 30"),
        ("ag-news-hash", "figure-4", "AG News, L = 30"),
    ],
)
def test_presets_are_what_the_items_run(preset, item, name):
    for epsilon, run in rows(item, name).items():
        found = mx.individual_knn_preset(preset, epsilon)
        assert (found.vote_sigma, found.threshold) == (run["vote_sigma"], run["threshold"])
        assert found.n_queries == run["queries"]
        assert found.kernel == run["kernel"]
        assert found.hashing == (tuple(run["hashing"]) if "hashing" in run else None)


def test_printed_values_of_both_versions():
    assert [mx.individual_knn_preset("cifar10", e).threshold for e in (0.5, 1, 1.5, 2)] == [0.12] * 4
    assert [mx.individual_knn_preset("cifar10-uai", e).threshold for e in (0.5, 1, 1.5, 2)] == [0.26, 0.26, 0.27, 0.28]
    assert [mx.individual_knn_preset("fashion-mnist", e).vote_sigma for e in (0.5, 1, 1.5, 2)] == [1.3, 0.6, 0.3, 0.3]
    assert [mx.individual_knn_preset("dbpedia", e).vote_sigma for e in (0.5, 1, 1.5, 2)] == [0.45, 0.3, 0.2, 0.1]


def test_misprints_become_kernels_at_the_printed_cosine():
    """In the range of search that the paper states for this kernel, [0.68, 0.73]."""
    assert mx.individual_knn_preset("cifar10-rbf", 0.5).threshold == 0.8
    for epsilon, cosine in ((1, 0.25), (1.5, 0.26), (2, 0.28)):
        found = mx.individual_knn_preset("cifar10-rbf", epsilon)
        assert found.printed_threshold == cosine
        assert 0.68 <= found.threshold <= 0.73
        one, other = np.array([1.0, 0.0]), np.array([cosine, math.sqrt(1 - cosine**2)])
        squared = ((one - other) ** 2).sum()
        assert found.threshold == pytest.approx(math.exp(-squared / found.parameters["bandwidth"] ** 2))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_an_estimator(name):
    for epsilon in (0.5, 1.0, 1.5, 2.0):
        preset = mx.individual_knn_preset(name, epsilon)
        model = mx.IndividualKNN.for_budget(epsilon, 1e-5, preset.n_queries, n_classes=2, rng=0, **preset.parameters)
        assert model.guarantee(1e-5).epsilon <= epsilon
        model.fit(np.eye(4, 40), [0, 1, 0, 1]).predict(np.eye(2, 40))


@pytest.mark.parametrize(
    ("name", "epsilon", "message"),
    [
        ("mnist", 1.0, "preset = 'mnist'; accepted: ag-news, ag-news-hash, cifar10"),
        ("cifar10", 3.0, "preset 'cifar10' at epsilon 3.0; accepted: 0.5, 1, 1.5, 2"),
    ],
)
def test_other_settings_are_refused(name, epsilon, message, capsys):
    with pytest.raises(ac.ParameterError) as caught:
        mx.individual_knn_preset(name, epsilon)
    assert message in str(caught.value)
    given = ["predict", "ind-knn", "--data", "digits", "--epsilon", str(epsilon), "--delta", "1e-5", "--dry-run"]
    assert main([*given, "--preset", name]) == 2
    assert message in capsys.readouterr().err


def test_the_command_takes_what_is_left_open_from_the_preset(capsys):
    given = ["predict", "ind-knn", "--data", "digits", "--epsilon", "2", "--delta", "1e-5", "--dry-run", "--json"]
    assert main([*given, "--preset", "ag-news-hash", "--threshold", "0.5"]) == 0
    setting = json.loads(capsys.readouterr().out)["setting"]
    assert (setting["threshold"], setting["vote_sigma"]) == (0.5, 0.2)
    assert tuple(setting["hashing"]) == (30, 9)
    assert main([*given, "--preset", "cifar10", "--selectivity", "0.1"]) == 2
    assert "--preset cifar10 with --selectivity" in capsys.readouterr().err
