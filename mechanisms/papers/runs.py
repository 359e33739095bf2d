"""Mechanisms on data, as rows of tables and points of figures: what is measured, by quantity."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.datasets import Dataset
from mechanisms.experiment import Experiment, PredictionSetting, ReverseExperiment, ReverseSetting, Setting
from mechanisms.experiment.outcome import compare_labels, score
from mechanisms.experiment.prediction import complete_setting, make_model
from mechanisms.experiment.student import StudentOptions, choose_student
from mechanisms.features import feature_map
from mechanisms.individual_knn import IndividualKNN
from mechanisms.noisy_sgd import LinearNoisySGD
from mechanisms.papers.item import SOURCES, ItemError
from mechanisms.papers.sources import Parts
from mechanisms.private_knn import PrivateKNN
from mechanisms.rounds import label_in_rounds

__all__ = ["RUNS", "measure"]

Numbers = dict[str, float]

KEPT = (*SOURCES, "mechanism", "split", "attributes", "copies", "unit", "centre")
"""Settings of a run that are about its data."""


def measure(run: Mapping[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """The numbers of one run, by quantity: accuracies in percent.

    Parameters
    ----------
    run : mapping
        ``mechanism``, one of `RUNS`, and its settings; ``unit`` scales features to unit length, ``centre`` subtracts
        the public mean before.
    parts : Parts
    seed : int
    wanted : collection of str
        Quantities that are shown; those that take long are computed only then.

    Raises
    ------
    ItemError
        There is no such mechanism.
    accountant.AccountantError
        Settings and data do not go together.
    """
    if run.get("mechanism") not in RUNS:
        raise ItemError(f"run.mechanism = {run.get('mechanism')!r}; accepted: {', '.join(RUNS)}")
    options = {key: value for key, value in run.items() if key not in KEPT}
    if run.get("unit") or run.get("centre"):
        parts, options = _scale(parts, options, bool(run.get("centre")))
    return RUNS[run["mechanism"]](run["mechanism"], options, parts, seed, wanted)


def _scale(parts: Parts, options: dict[str, Any], centre: bool) -> tuple[Parts, dict[str, Any]]:
    """Features of unit length, made before the mechanism sees them."""
    public = parts.public
    describe = feature_map(options.pop("features", "raw"), public.features, public.images)
    middle = describe(public.features).mean(axis=0) if centre else 0.0

    def make(dataset: Dataset) -> Dataset:
        rows = describe(dataset.features) - middle
        lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return replace(dataset, features=rows / lengths, images=None)

    return Parts(make(parts.private), make(public), None if parts.test is None else make(parts.test)), options


# --- labels for public points, and a student -----------------------------------------------------------


def _run_votes(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Private-kNN and PATE; the labels are those of the last round."""
    setting = Setting(mechanism=name, **{"epsilon": None, **options, "seed": seed})
    experiment = Experiment(setting, parts.private, parts.public, parts.test)
    labeller: Any = experiment.labeller
    out = label_in_rounds(
        labeller,
        parts.private.features,
        parts.private.labels,
        parts.public.features,
        queries=experiment.queries,
        choose=setting.choose,
        rounds=setting.rounds,
        features=setting.features,
        images=parts.public.images,
        make_student=experiment.make_student,
    )
    last = out.rounds[-1]
    found: Numbers = {
        "answers": float(sum(each.answered.sum() for each in out.rounds)),
        "last_answers": float(last.answered.sum()),
        "run_epsilon": experiment.guarantee.epsilon,
    }
    known = {
        "label_accuracy": compare_labels(out.labels, parts.public),
        "accuracy": score(parts.test, out.student.predict),
    }
    return found | _in_percent(known)


def _run_noisy_sgd(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Softmax regression by noisy gradients; accuracy on the test records, or else on the public ones."""
    setting = Setting(mechanism="noisy-sgd", **{"epsilon": None, **options, "seed": seed})
    queries, features = setting.queries, setting.features
    describe = feature_map(features, parts.public.features, parts.public.images)
    made = [
        None if each is None else replace(each, features=describe(each.features), images=None)
        for each in (parts.private, parts.public, parts.test)
    ]
    private, public, test = made
    assert private is not None
    assert public is not None
    experiment = Experiment(replace(setting, queries=None), private, public, test)
    model = experiment.labeller
    assert isinstance(model, LinearNoisySGD)
    begin = time.perf_counter()
    model.fit(private.features, private.labels)
    took = time.perf_counter() - begin
    judged = test if test is not None else public
    known = {"accuracy": score(judged, model.predict)}
    times = {} if queries is None else {"seconds": took / queries}
    return {"run_epsilon": experiment.guarantee.epsilon, **times} | _in_percent(known)


def _run_reverse(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Reverse k-NN in one of its trust models."""
    known_names = {each.name for each in fields(ReverseSetting)}
    setting = ReverseSetting(**{"delta": 0.0, **{k: v for k, v in options.items() if k in known_names}, "seed": seed})
    experiment = ReverseExperiment(setting, parts.private, parts.public, parts.test)
    describe = feature_map(setting.features, parts.public.features, parts.public.images)
    records, points = describe(parts.private.features), describe(parts.public.features)
    out = experiment.labeller.label(records, parts.private.labels, points, experiment.holders)
    found: Numbers = {"run_epsilon": out.guarantee(setting.delta).epsilon}
    known = {"label_accuracy": compare_labels(out.labels, parts.public)}
    if "accuracy" in wanted and not options.get("labels_only"):
        student = experiment.make_student().fit(parts.public.features, out.labels)
        known["accuracy"] = score(parts.test, student.predict)
    return found | _in_percent(known)


def _run_student(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """A student that learns the private records with their true labels, without any noise."""
    known = {each.name for each in fields(StudentOptions)}
    chosen = StudentOptions(**{key: value for key, value in options.items() if key in known})
    student = choose_student(chosen, parts.private, _count_classes(parts), seed)()
    student.fit(parts.private.features, parts.private.labels)
    return _in_percent({"nonprivate": score(parts.test, student.predict)})


def _run_linear(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Softmax regression without noise, as Linear NoisySGD at epsilon = inf."""
    from sklearn.linear_model import LogisticRegression

    describe = feature_map(options.get("features", "raw"), parts.public.features, parts.public.images)
    model = LogisticRegression(C=float(options.get("inverse_penalty", 1.0)), max_iter=1000)
    model.fit(describe(parts.private.features), parts.private.labels)
    judged = parts.test if parts.test is not None else parts.public
    return _in_percent({"accuracy": score(replace(judged, features=describe(judged.features)), model.predict)})


# --- answers to queries -----------------------------------------------------------------------------------


def _pick_queries(parts: Parts, count: int, seed: int) -> Dataset:
    """So many public points, drawn at random: another draw for each seed."""
    return parts.public.take(np.random.default_rng(seed).permutation(len(parts.public))[:count])


def _run_individual(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Ind-KNN on queries drawn at random; threshold and noise by the public points, unless they are given."""
    count = min(int(options["queries"]), len(parts.public))
    names = {each.name for each in fields(PredictionSetting)}
    chosen = {key: value for key, value in options.items() if key in names}
    if "hashing" in chosen:
        chosen["hashing"] = tuple(chosen["hashing"])
    setting = PredictionSetting(**{**chosen, "queries": count, "seed": seed})
    describe = feature_map(options.get("features", "raw"), parts.public.features, parts.public.images)
    queries = _pick_queries(parts, count, seed)
    public = replace(parts.public, features=describe(parts.public.features), images=None)
    records = describe(parts.private.features)
    whole = complete_setting(setting, count, len(records), public)
    model = make_model(setting, whole, None, _count_classes(parts), None)
    model.fit(records, parts.private.labels)
    _warm_up(model, records)
    points = describe(queries.features)
    begin = time.perf_counter()
    labels = model.predict(points)
    took = time.perf_counter() - begin
    spent = float(np.median(model.budget - model.budgets_))
    median = 0.0 if spent <= 0 else ac.IndividualFilter(spent).guarantee(setting.delta, setting.conversion).epsilon
    found = {"run_epsilon": model.guarantee(setting.delta, setting.conversion).epsilon, "median_epsilon": median}
    right = float(np.mean(labels == queries.labels))
    return {**found, "seconds": took / count, **_in_percent({"accuracy": right})}


def _warm_up(model: IndividualKNN, records: NDArray[Any]) -> None:
    """Let a twin answer one query, so that no time goes into compiling."""
    twin = IndividualKNN(**{**model.get_params(), "rng": 0})
    twin.fit(records[:50], np.zeros(min(len(records), 50), np.int64)).predict(records[:1])


def _run_prediction(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Private-kNN that answers queries drawn at random, without a student, as the baseline of Ind-KNN."""
    count = min(int(options["queries"]), len(parts.public))
    epsilon, delta = options.get("epsilon"), float(options["delta"])
    classes, rng = _count_classes(parts), seed
    sizes: dict[str, Any] = {"n_neighbors": int(options["neighbors"]), "sampling_rate": float(options["sampling_rate"])}
    if epsilon is None:
        sigma = float(options["vote_sigma"])
        model = PrivateKNN(
            **sizes, screening_sigma=None, vote_sigma=sigma, max_labels=count, n_classes=classes, rng=rng
        )
    else:
        sizes |= {"screening_ratio": None, "n_classes": classes, "rng": rng}
        model = PrivateKNN.for_budget(float(epsilon), delta, count, count, conversion="improved", **sizes)
    describe = feature_map(options.get("features", "raw"), parts.public.features, parts.public.images)
    queries = _pick_queries(parts, count, seed)
    model.fit(describe(parts.private.features), parts.private.labels)
    points = describe(queries.features)
    begin = time.perf_counter()
    out = model.label(points)
    took = time.perf_counter() - begin
    found = {"run_epsilon": out.guarantee(delta, "improved").epsilon, "seconds": took / count}
    return found | _in_percent({"accuracy": compare_labels(out.labels, queries)})


def _run_exact_votes(name: str, options: dict[str, Any], parts: Parts, seed: int, wanted: Collection[str]) -> Numbers:
    """Votes without noise: of the nearest records as in Private-kNN, or of all similar ones as in Ind-KNN.

    `neighbors` or a `selectivity`, the share of public points that are similar to one; a similar record's vote weighs
    its cosine. Where none is similar the most frequent label is the answer.
    """
    from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier

    describe = feature_map(options.get("features", "raw"), parts.public.features, parts.public.images)
    queries = _pick_queries(parts, min(int(options["queries"]), len(parts.public)), seed)
    if "neighbors" in options:
        model = KNeighborsClassifier(int(options["neighbors"]), algorithm="brute")
    else:
        public = replace(parts.public, features=describe(parts.public.features), images=None)
        share = options.get("selectivity")
        setting = PredictionSetting(epsilon=1.0, delta=float(options["delta"]), vote_sigma=1.0, selectivity=share)
        whole = complete_setting(setting, len(queries), len(parts.private), public)
        assert whole.threshold is not None
        model = RadiusNeighborsClassifier(
            1 - whole.threshold,
            metric="cosine",
            algorithm="brute",
            weights=lambda distances: np.array([1 - each for each in distances], dtype=object),
            outlier_label="most_frequent",
        )
    model.fit(describe(parts.private.features), parts.private.labels)
    pieces = np.array_split(describe(queries.features), 20)
    labels = np.concatenate([model.predict(piece) for piece in pieces if len(piece)])
    return _in_percent({"accuracy": compare_labels(labels, queries)})


def _count_classes(parts: Parts) -> int:
    if parts.private.classes is not None:
        return parts.private.classes
    assert parts.private.labels is not None
    return int(parts.private.labels.max()) + 1


def _in_percent(shares: Mapping[str, float | None]) -> Numbers:
    return {name: 100 * value for name, value in shares.items() if value is not None}


RUNS: dict[str, Callable[..., Numbers]] = {
    "private-knn": _run_votes,
    "gnmax": _run_votes,
    "lnmax": _run_votes,
    "noisy-sgd": _run_noisy_sgd,
    "reverse-knn": _run_reverse,
    "student": _run_student,
    "ind-knn": _run_individual,
    "private-knn-prediction": _run_prediction,
    "linear-without-noise": _run_linear,
    "votes-without-noise": _run_exact_votes,
}
"""What can run, by the name that files of items use."""
