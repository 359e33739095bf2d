"""Claim: accuracy of Ind-KNN, Private-kNN and Linear NoisySGD by number of queries, at equal (epsilon, delta).

On digits (1000 private records, 497 queries, 300 public points) and on synthetic data (50 000 private
records, 10 000 queries, 1000 public points). Public points have no labels; Ind-KNN chooses its threshold by them, and
the student is trained on them. Accuracies are of the first answers, as many as the column says, in percent: mean and
standard deviation over seeds. "Planned for all" spreads the budget over all queries, "planned for these" over as many
as the column says. The student and Linear NoisySGD answer all queries once they are trained.

On digits every mechanism has its defaults. On the synthetic data parameters were chosen by `--choose`: from the grids
below, by the accuracy over all queries (of Private-kNN for each number of queries separately), on a development draw
with other directions, whose seed is `DEVELOPMENT`. The records and queries of the table are not in that draw, so the
choice costs no privacy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
import mechanisms as mx
from mechanisms.datasets import Dataset, digits, private_public_test_split
from mechanisms.experiment.labelling import Experiment, Setting
from mechanisms.experiment.prediction import PredictionSetting, complete_setting, predict

Answers = NDArray[np.int64]

CLASSES = 10
DEVELOPMENT = 1000


@dataclass(frozen=True)
class Task:
    """One draw of the data. `optimal`: the answers of the Bayes rule, if it is known."""

    private: Dataset
    queries: Dataset
    public: Dataset
    optimal: Answers | None = None


@dataclass(frozen=True)
class Workload:
    """Queries, guarantee and parameters of a mechanism; parameters that are not given have their defaults."""

    draw: Callable[[int], Task]
    epsilon: float
    delta: float
    after: tuple[int, ...]
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)


# --- data ----------------------------------------------------------------------------------------------


def digits_task(seed: int) -> Task:
    parts = private_public_test_split(digits(), (1000, 497, 300), seed)
    return Task(parts.private, parts.public, parts.test)


def made_task(
    seed: int, sizes: tuple[int, ...] = (50_000, 10_000, 1000), d: int = 64, directions: int = 3, kappa: float = 35.0
) -> Task:
    """Every class has a few random directions, the j-th with weight 1/j; records are von Mises-Fisher about them."""
    from scipy.special import logsumexp
    from scipy.stats import vonmises_fisher

    rng = np.random.default_rng(seed)
    means = rng.standard_normal((CLASSES * directions, d))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    shares = np.tile(1 / np.arange(1, directions + 1), CLASSES)
    shares /= shares.sum()
    origin = rng.choice(len(means), sum(sizes), p=shares)
    points = np.empty((len(origin), d))
    for j, mean in enumerate(means):
        rows = np.flatnonzero(origin == j)
        if len(rows):
            points[rows] = vonmises_fisher(mean, kappa).rvs(len(rows), random_state=rng)
    labels = origin // directions
    densities = kappa * points @ means.T + np.log(shares)
    optimal = logsumexp(densities.reshape(-1, CLASSES, directions), axis=2).argmax(axis=1)
    cuts = np.cumsum(sizes)[:-1]
    names = ("made, private", "made, queries", "made, public")
    parts = map(Dataset, names, np.split(points, cuts), np.split(labels, cuts))
    return Task(*parts, np.split(optimal, cuts)[1])


# --- mechanisms: answers to the first `count` queries, planned for that number --------------------------


def individual(
    task: Task, load: Workload, count: int, seed: int, *, conversion: ac.FilterConversion, **chosen: Any
) -> Answers:
    setting = individual_setting(task, load, count, seed, conversion=conversion, **chosen)
    return predict(setting, task.private, task.queries, n_classes=CLASSES).labels


def private_knn(
    task: Task,
    load: Workload,
    count: int,
    seed: int,
    *,
    sampling_rate: float = 0.5,
    share: float = 1 / CLASSES,
    planned: int | None = None,
) -> Answers:
    """Direct answers without screening, as an unanswered query is an error. `share`: neighbours over sample."""
    noise = vote_noise(load.epsilon, load.delta, planned or count, sampling_rate)
    neighbors = max(round(len(task.private) * sampling_rate * share), 1)
    model = mx.PrivateKNN(neighbors, sampling_rate, None, vote_sigma=noise, n_classes=CLASSES, rng=seed)
    return model.fit(task.private.features, task.private.labels).label(task.queries.features[:count]).labels


def student(
    task: Task, load: Workload, count: int, seed: int, *, share: float = 1 / CLASSES, queries: int | None = None
) -> Answers:
    """Answers of a student trained on public points that Private-kNN labelled."""
    neighbors = max(round(len(task.private) * 0.5 * share), 1)
    setting = Setting("private-knn", load.epsilon, load.delta, queries=queries, neighbors=neighbors, seed=seed)
    unlabelled = Dataset(task.public.name, task.public.features, None)
    plan = Experiment(setting, task.private, unlabelled, n_classes=CLASSES)
    rounds = mx.label_in_rounds(
        plan.labeller,
        task.private.features,
        task.private.labels,
        unlabelled.features,
        queries=plan.queries,
        rounds=1,
        make_student=plan.make_student,
    )
    return rounds.student.predict(task.queries.features[:count])


def noisy_sgd(task: Task, load: Workload, count: int, seed: int, **chosen: Any) -> Answers:
    noise = step_noise(load.epsilon, load.delta, chosen.get("sampling_rate", 0.05))
    model = mx.LinearNoisySGD(noise, n_classes=CLASSES, rng=seed, **chosen)
    return model.fit(task.private.features, task.private.labels).predict(task.queries.features[:count])


@cache
def vote_noise(epsilon: float, delta: float, count: int, rate: float) -> float:
    """Least noise of Private-kNN's votes for the guarantee; independent of the seed."""
    return mx.PrivateKNN.for_budget(
        epsilon, delta, count, count, sampling_rate=rate, screening_ratio=None, conversion="improved"
    ).vote_sigma


@cache
def step_noise(epsilon: float, delta: float, rate: float) -> float:
    return mx.LinearNoisySGD.for_budget(epsilon, delta, rate, conversion="improved").noise_multiplier


def individual_setting(
    task: Task, load: Workload, count: int, seed: int, *, conversion: ac.FilterConversion, **chosen: Any
) -> PredictionSetting:
    """Threshold and noise as the command line chooses them, from unlabelled public points."""
    target: dict[str, Any] = {"epsilon": load.epsilon, "delta": load.delta, "conversion": conversion}
    setting = PredictionSetting(**target, seed=seed, **chosen)
    return complete_setting(setting, count, len(task.private), replace(task.public, labels=None))


# --- rows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """`chosen`: the name of its parameters; `once`: one plan for all queries, otherwise one per column."""

    answers: Callable[..., Answers]
    chosen: str
    once: bool = True
    fixed: dict[str, Any] = field(default_factory=dict)


ROWS = {
    "Ind-KNN, GDP filter, planned for all": Row(individual, "Ind-KNN", fixed={"conversion": "gdp"}),
    "Ind-KNN, Rényi filter, planned for all": Row(individual, "Ind-KNN", fixed={"conversion": "renyi"}),
    "Ind-KNN, GDP filter, planned for these": Row(individual, "Ind-KNN", False, {"conversion": "gdp"}),
    "Ind-KNN, Rényi filter, planned for these": Row(individual, "Ind-KNN", False, {"conversion": "renyi"}),
    "Private-kNN, planned for these": Row(private_knn, "Private-kNN", False),
    "Private-kNN, student": Row(student, "student"),
    "Linear NoisySGD": Row(noisy_sgd, "Linear NoisySGD"),
}


def measured(row: Row, load: Workload, tasks: dict[int, Task]) -> dict[str, list[float]]:
    """Accuracies over the first queries, by their number: one per seed."""
    found: dict[str, list[float]] = {str(count): [] for count in load.after}
    for seed, task in tasks.items():
        truth, plans = task.queries.labels, {}
        assert truth is not None
        for count in load.after:
            asked = load.after[-1] if row.once else count
            if asked not in plans:
                chosen = {key: at(value, asked) for key, value in load.chosen.get(row.chosen, {}).items()}
                plans[asked] = row.answers(task, load, asked, seed, **row.fixed, **chosen)
            found[str(count)].append(float(np.mean(plans[asked][:count] == truth[:count])))
    return found


def at(value: Any, count: int) -> Any:
    """The parameter for the nearest number of queries."""
    return value[min(value, key=lambda known: abs(known - count))] if isinstance(value, dict) else value


def references(load: Workload, tasks: dict[int, Task]) -> dict[str, dict[str, list[float]]]:
    """Accuracies without privacy; the number of neighbours is the best of four on the public points."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    found: dict[str, dict[str, list[float]]] = {}
    for task in tasks.values():
        private, queries, truth = task.private, task.queries, task.queries.labels
        nearest = [KNeighborsClassifier(k).fit(private.features, private.labels) for k in (1, 5, 20, 100)]
        scores = [model.score(task.public.features, task.public.labels) for model in nearest]
        linear = LogisticRegression(max_iter=1000).fit(private.features, private.labels)
        answers = {
            "not private: k nearest neighbours": nearest[int(np.argmax(scores))].predict(queries.features),
            "not private: logistic regression": linear.predict(queries.features),
        }
        if task.optimal is not None:
            answers["the Bayes rule, knowing the directions"] = task.optimal
        for name, given in answers.items():
            row = found.setdefault(name, {str(count): [] for count in load.after})
            for count in load.after:
                row[str(count)].append(float(np.mean(given[:count] == truth[:count])))
    return found


def retired(load: Workload, tasks: dict[int, Task]) -> dict[str, dict[str, list[float]]]:
    """Share of records whose budgets cannot pay for another count, for up to twice the planned number of queries.

    Both filters under one noise: the Rényi filter's, whose budget is the smaller.
    """
    found, planned = {}, load.after[-1] // 2
    after = [planned * tenths // 10 for tenths in (10, 11, 12, 13, 14, 16, 20)]
    for conversion, name in FILTERS.items():
        row: dict[str, list[float]] = {str(count): [] for count in after}
        budget = ac.IndividualFilter.budget_for(load.epsilon, load.delta, conversion)
        for seed, task in tasks.items():
            chosen = load.chosen.get("Ind-KNN", {})
            setting = individual_setting(task, load, planned, seed, conversion="renyi", **chosen)
            model = planned_model(setting, budget)
            model.fit(task.private.features, task.private.labels)
            for first, last in pairwise((0, *after)):
                model.predict(task.queries.features[first:last])
                row[str(last)].append(float(np.mean(model.budgets_ < 1 / (2 * model.count_sigma**2))))
        found[f"{name} filter"] = row
    return found


def planned_model(setting: PredictionSetting, budget: float) -> mx.IndividualKNN:
    """The setting's noise with another budget."""
    names = ("epsilon", "delta", "threshold", "vote_sigma", "conversion", "count_share")
    planned: dict[str, Any] = {name: getattr(setting, name) for name in names}
    model = mx.IndividualKNN.for_budget(n_queries=setting.queries, n_classes=CLASSES, rng=setting.seed, **planned)
    model.budget = budget
    return model


# --- choice of parameters on the development draw -------------------------------------------------------

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Ind-KNN": {"selectivity": (0.02, 0.05), "count_share": (3.0, 10.0)},
    "Private-kNN": {"sampling_rate": (0.05, 0.15, 0.5), "share": (0.015, 0.03, 0.06, 0.1, 0.2, 0.4)},
    "student": {"queries": (None, 400, 1000), "share": (0.06, 0.1, 0.2)},
    "Linear NoisySGD": {"sampling_rate": (0.02, 0.05), "learning_rate": (0.005, 0.02, 0.1)},
}

JUDGED_BY = 1000
"""Number of queries that judge Private-kNN's parameters, for any planned number of queries."""


def choices(load: Workload, name: str) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """The accuracies of all columns at every point of a grid."""
    task = load.draw(DEVELOPMENT)
    truth = task.queries.labels
    assert truth is not None
    row = next(row for row in ROWS.values() if row.chosen == name)
    for values in product(*GRIDS[name].values()):
        chosen = dict(zip(GRIDS[name], values, strict=True))
        if row.once:
            right = row.answers(task, load, load.after[-1], DEVELOPMENT, **row.fixed, **chosen) == truth
            yield chosen, [float(np.mean(right[:count])) for count in load.after]
        else:
            asked = min(JUDGED_BY, len(truth))
            answers = [row.answers(task, load, asked, DEVELOPMENT, planned=count, **chosen) for count in load.after]
            yield chosen, [float(np.mean(given == truth[:asked])) for given in answers]


# --- what is run ----------------------------------------------------------------------------------------

FILTERS: dict[ac.FilterConversion, str] = {"gdp": "GDP", "renyi": "Rényi"}

CHOSEN: dict[str, dict[str, Any]] = {
    "Ind-KNN": {"selectivity": 0.02},
    "Private-kNN": {
        "sampling_rate": {100: 0.5, 300: 0.15, 1000: 0.15, 3000: 0.15, 10_000: 0.5},
        "share": {100: 0.03, 300: 0.06, 1000: 0.06, 3000: 0.1, 10_000: 0.2},
    },
    "student": {},
    "Linear NoisySGD": {"sampling_rate": 0.02},
}
"""A dict is by number of queries; parameters that are not named have their defaults."""

WORKLOADS = {
    "digits": Workload(digits_task, 2.0, 1e-4, (50, 100, 200, 300, 497)),
    "made": Workload(made_task, 1.0, 1e-6, (100, 300, 1000, 3000, 10_000), CHOSEN),
}


def choose(load: Workload) -> None:
    """Print the accuracy at every point of the grids."""
    for name in GRIDS:
        for chosen, accuracies in choices(load, name):
            print(name, chosen, *(f"{100 * each:.1f}" for each in accuracies), flush=True)


def cell(values: list[float]) -> str:
    deviation = f" ± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{deviation}"


def show(title: str, rows: dict[str, dict[str, list[float]]]) -> None:
    from rich.table import Table

    table = Table(title=title)
    table.add_column("queries")
    for count in next(iter(rows.values())):
        table.add_column(count, justify="right")
    for name, row in rows.items():
        table.add_row(name, *map(cell, row.values()))
    ac.terminal.console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--seeds", type=int, help="default: 10 on digits, 5 on the made set")
    parser.add_argument("--sizes", type=int, nargs=3, metavar=("PRIVATE", "QUERIES", "PUBLIC"), help="of the made set")
    parser.add_argument("--choose", action="store_true", help="try all parameters on the made set's development draw")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    loads = dict(WORKLOADS)
    if options.sizes:
        loads["made"] = shrunk(loads["made"], tuple(options.sizes))
    if options.choose:
        return choose(loads["made"])
    found = {}
    for name in options.data:
        load, seeds = loads[name], options.seeds or {"digits": 10, "made": 5}[name]
        tasks = {seed: load.draw(seed) for seed in range(seeds)}
        accuracy = {}
        for title, row in ROWS.items():
            accuracy[title] = measured(row, load, tasks)
            print(name, title, *map(cell, accuracy[title].values()), sep="  ", file=sys.stderr, flush=True)
        accuracy |= references(load, tasks)
        found[name] = {"accuracy": accuracy, "retired": retired(load, tasks)}
        told = f"{name}, epsilon {load.epsilon:g}, delta {load.delta:g}, {seeds} seeds"
        show(f"Accuracy, {told}", found[name]["accuracy"])
        show(f"Records retired, planned for {load.after[-1] // 2}, {told}", found[name]["retired"])
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return None


def shrunk(load: Workload, sizes: tuple[int, ...]) -> Workload:
    """The same data with fewer records and queries."""
    after = tuple(sorted({min(count, sizes[1]) for count in load.after}))
    return replace(load, draw=partial(made_task, sizes=sizes), after=after)


if __name__ == "__main__":
    main()
