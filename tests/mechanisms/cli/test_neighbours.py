"""With neighbouring private records, equal options and equal released labels, output and files are identical."""

import json

import numpy as np
import pytest

from mechanisms.cli import main
from mechanisms.datasets import Dataset
from mechanisms.experiment.labelling import Experiment, Setting
from mechanisms.experiment.reverse import ReverseExperiment, ReverseSetting
from mechanisms.labelling import Labeller
from mechanisms.students.network import NetworkStudent
from tests.cases import audit_after

CLASSES = 4

SETTINGS = {
    "private-knn": ["--queries", "12", "--method", "renyi"],
    "private-knn, screening": ["--screening-ratio", "3", "--max-labels", "20", "--rounds", "2", "--method", "renyi"],
    "gnmax": [],
    "lnmax": ["--teacher", "nearest", "--method", "renyi"],
    "noisy-sgd": ["--steps", "20", "--method", "renyi"],
    "reverse-knn": ["--adjacency", "add-remove", "--queries", "8", "--clients", "4"],
    "reverse-knn, replace": ["--queries", "8", "--clients", "4", "--noise", "discrete-laplace"],
}


@pytest.fixture
def noise_decides(monkeypatch):
    """Released labels, and whether there is one, come from a generator that does not depend on any record."""

    def start(seed):
        draws = np.random.default_rng(seed)
        monkeypatch.setattr(Labeller, "_passes", lambda *_: bool(draws.integers(2)))
        monkeypatch.setattr(Labeller, "_release", lambda *_: int(draws.integers(CLASSES)))
        # no record is sampled: gradients are pure noise
        monkeypatch.setattr("mechanisms.noisy_sgd.poisson_sample", lambda *_: np.zeros(0, np.int64))

    return start


def records(rng, n):
    return rng.normal(size=(n, 3)), rng.integers(0, CLASSES, n)


def neighbour(rng, features, labels, how):
    """One record is added, removed or replaced, anywhere."""
    row, (extra, label) = int(rng.integers(len(labels))), records(rng, 1)
    extra *= 10 ** rng.uniform(-3, 3)
    if how == "added":
        return np.insert(features, row, extra, axis=0), np.insert(labels, row, label)
    if how == "removed":
        return np.delete(features, row, axis=0), np.delete(labels, row)
    return np.r_[features[:row], extra, features[row + 1 :]], np.r_[labels[:row], label, labels[row + 1 :]]


def everything(capsys, directory, private, arguments, seed, start):
    """What two runs print and write, one with a table and one with JSON."""
    np.savez(directory / "private.npz", features=private[0], labels=private[1])
    said = []
    for extra in (["--out", "a.npz"], ["--out", "a.parquet", "--json"]):
        start(seed)
        status = main([*arguments, "--seed", str(seed), *extra])
        out, err = capsys.readouterr()
        assert status == 0, err
        said += [out, err, (directory / extra[1]).read_bytes()]
        (directory / extra[1]).unlink()
    assert sorted(path.name for path in directory.iterdir()) == ["private.npz", "public.npz", "test.npz"]
    return said


@pytest.fixture
def quickest_students(monkeypatch):
    """What students learn is public."""
    hidden, n_neighbors, clamping, _, seed = NetworkStudent.__init__.__defaults__
    monkeypatch.setattr(NetworkStudent.__init__, "__defaults__", (hidden, n_neighbors, clamping, 5, seed))


ROUNDED = "rounded"
"""The number of records is public as it is rounded, not by an option."""

CASES = [(name, seed, given) for name in SETTINGS for seed, given in ((0, "option"), (1, ROUNDED))]
CASES += [(name, seed, given) for name in SETTINGS for seed, given in ((1, "option"), (0, ROUNDED))]


@pytest.mark.each_run(1)
@pytest.mark.usefixtures("quickest_students")
@pytest.mark.parametrize(("name", "seed", "given"), audit_after(2 * len(SETTINGS), CASES))
def test_neighbours_are_not_told_apart(capsys, tmp_path, monkeypatch, noise_decides, name, seed, given):
    monkeypatch.chdir(tmp_path)
    replaced = name == "reverse-knn, replace"
    arguments = ["label", name.split(",")[0], "--private", "private.npz", "--public", "public.npz", *SETTINGS[name]]
    # so small a budget that noise decides in reverse k-NN, too
    arguments += ["--test", "test.npz", "--epsilon", "0.001", "--delta", "1e-5", "--classes", str(CLASSES)]
    arguments += [] if replaced or given == ROUNDED else ["--records", "60"]
    rng = np.random.default_rng([seed, len(name)])
    for part, n in (("public", 40), ("test", 20)):
        features, labels = records(rng, n)
        np.savez(f"{part}.npz", features=features, labels=labels)
    # 101..104 all round to 100
    n = 103 if given == ROUNDED else int(rng.integers(30, 90))
    first = records(rng, n)
    how = "replaced" if replaced else rng.choice(["added", "removed", "replaced"])
    second = neighbour(rng, *first, how)
    found = [everything(capsys, tmp_path, each, arguments, seed, noise_decides) for each in (first, second)]
    assert found[0] == found[1], how


def test_what_is_fixed_looks_at_the_nominal_number_alone():
    rng = np.random.default_rng(0)
    public = Dataset("public", *records(rng, 300))
    settings = [Setting(name, 1.0, 1e-5) for name in ("private-knn", "gnmax", "lnmax", "noisy-sgd")]
    settings += [
        Setting("private-knn", 1.0, 1e-5, screening_ratio=3.0),
        ReverseSetting(1.0, 0.0, adjacency="add-remove"),
    ]
    for setting in settings:
        fixed = set()
        for n, nominal in ((300, 400), (301, 400), (700, 400)):
            make = ReverseExperiment if isinstance(setting, ReverseSetting) else Experiment
            found = make(setting, Dataset("private", *records(rng, n)), public, None, CLASSES, nominal)
            fixed.add((found.nominal, found.noise, found.planned, found.guarantee, getattr(found, "queries", 0)))
        assert len(fixed) == 1, setting


@pytest.mark.parametrize("n", [1, 2, 3, 9, 95, 105, 115, 1_050])
@pytest.mark.parametrize("mechanism", ["private-knn", "gnmax"])
def test_rounding_up_asks_for_no_more_neighbours_than_records(n, mechanism):
    """One class and a sampling rate of 1: the largest possible number of neighbours."""
    rng = np.random.default_rng(0)
    private, public = (
        Dataset(name, rng.normal(size=(size, 2)), np.zeros(size, int)) for name, size in (("a", n), ("b", 20))
    )
    setting = Setting(mechanism, 1.0, 1e-5, sampling_rate=1.0, teacher="nearest", student="network", queries=2)
    experiment = Experiment(setting, private, public, n_classes=1)
    size = experiment.labeller.n_neighbors if mechanism == "private-knn" else experiment.labeller.n_teachers
    assert 1 <= size <= n
    experiment.labeller.fit(private.features, private.labels)


def test_replace_makes_the_number_public(capsys):
    data = ["--data", "digits", "--epsilon", "1", "--delta", "0", "--json", "--dry-run"]
    assert main(["label", "reverse-knn", *data]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"]["private"] == 988
    assert found["also_public"] == ["the number of records is public: --data is cut by it"]
