"""An Ind-KNN experiment: parameters chosen by the budget and public points, then one answer after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accountant as ac
from mechanisms.budgets.budget_store import BudgetStore
from mechanisms.datasets import Dataset
from mechanisms.individual_knn import IndividualKNN
from mechanisms.phases import Tick, phase
from mechanisms.shards.dataset import PartitionedDataset
from mechanisms.validation import check_count, check_real, nominal_count

__all__ = [
    "Prediction",
    "PredictionSetting",
    "Serving",
    "complete_setting",
    "make_model",
    "plan_prediction",
    "predict",
    "rehearse",
]

DEFAULTS: dict[str, Any] = {"selectivity": 0.05, "count_share": 3.0, "kernel": "cosine", "bandwidth": math.exp(0.75)}

STORE_DECIDES = ("threshold", "vote_sigma", "kernel", "bandwidth")
"""Values that a settled store decides if the user does not; it decides the noise of counts, too."""

THRESHOLD_POINTS = 1000
"""About how many public points the default threshold is computed from."""


@dataclass(frozen=True)
class PredictionSetting:
    """The options of an experiment; None takes what the store was settled with, or chooses by public data and budget.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee for the whole interaction.
    queries : int or None
        Public points to ask about, in order; None asks all. The noise is chosen for so many; the budget is the limit.
    selectivity : float or None
        In (0, 1). The default threshold is chosen so that a public point is similar to this share of the others. None:
        0.05.
    threshold : float or None
        Smallest kernel at which two points are similar.
    vote_sigma : float or None
        None: ``sqrt(T E[f^2]/(n B))``, at which a typical record pays for its votes with half its budget B. T is the
        number of queries, f the kernel of two similar public points, and n the public number of records.
    count_share : float or None
        As for `IndividualKNN.for_budget`. None: 3.
    kernel : {"cosine", "rbf"} or None
        None: "cosine".
    bandwidth : float or None
        nu of "rbf". None: e^0.75.
    conversion : {"gdp", "renyi"}
    hashing : (int, int) or None
    reuse : bool
    seed : int or None
        None draws exact noise from system entropy, as a real service must.
    """

    epsilon: float
    delta: float
    queries: int | None = None
    selectivity: float | None = None
    threshold: float | None = None
    vote_sigma: float | None = None
    count_share: float | None = None
    kernel: str | None = None
    bandwidth: float | None = None
    conversion: ac.FilterConversion = "gdp"
    hashing: tuple[int, int] | None = None
    reuse: bool = False
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Prediction:
    """The results of an experiment. `labels` was paid for; `accuracy` and `spent` are for the operator alone.

    Attributes
    ----------
    labels : int array of shape (m,)
        One for each query; every query is answered.
    kept : int
        Number of them that an interrupted run of the same name had answered before.
    accuracy : float or None
        None if the truth is not known. For the operator alone, unless the truth is public.
    spent : float array of shape (n,)
        Share of its budget that every private record has spent. For the operator alone: it depends on private data and
        was not paid for.
    guarantee : accountant.Guarantee
    setting : PredictionSetting
        With all values that were chosen.
    model : IndividualKNN
    """

    labels: NDArray[np.int64]
    kept: int
    accuracy: float | None
    spent: NDArray[np.float64]
    guarantee: ac.Guarantee
    setting: PredictionSetting
    model: IndividualKNN


@dataclass(frozen=True, eq=False)
class Serving:
    """Where budgets and answers are kept, and who hears of the progress.

    Parameters
    ----------
    store : BudgetStore or None
        As for `IndividualKNN`. A store that was settled before decides the values that the setting leaves open.
    ids : sequence of str, "digest" or None
        As for `IndividualKNN.fit`; needed with a store.
    run, progress
        As for `IndividualKNN.predict`.
    announce : callable, optional
        Called with the number of answers that an interrupted run of the same name left, if it left any; before anything
        is drawn, and after everything was checked.
    """

    store: BudgetStore | None = None
    ids: Sequence[str] | str | None = None
    run: str | None = None
    progress: Callable[[int], object] | None = None
    announce: Callable[[int], object] | None = None


def plan_prediction(
    setting: PredictionSetting,
    private: Dataset | PartitionedDataset,
    public: Dataset,
    *,
    n_classes: int | None = None,
    nominal: int | None = None,
    store: BudgetStore | None = None,
) -> Prediction:
    """What `predict` would do and what it would cost: its result before the first query.

    Parameters and errors as for `predict`; what is in a store is read, and not changed. `IndividualKNN.fit` checks the
    rest: `rehearse` does it without the store.
    """
    labels = private.labels
    if labels is None or (isinstance(labels, np.ndarray) and labels.ndim != 1):
        raise ac.ParameterError(f"{private.name}: accepted: one label for each record")
    count = len(public) if setting.queries is None else check_count("queries", setting.queries, 1, len(public))
    settled = None if store is None or not hasattr(store, "settings") else store.settings()
    records = nominal_count(len(private)) if nominal is None else check_count("nominal", nominal, 1)
    with phase("choosing threshold and noise by public points"):
        chosen = complete_setting(setting, count, records, public, settled)
    model = make_model(setting, chosen, settled, n_classes, store)
    guarantee = model.guarantee(setting.delta, setting.conversion)
    return Prediction(np.empty(0, np.int64), 0, None, np.empty(0), guarantee, chosen, model)


def predict(
    setting: PredictionSetting,
    private: Dataset | PartitionedDataset,
    public: Dataset,
    *,
    n_classes: int | None = None,
    nominal: int | None = None,
    serving: Serving | None = None,
) -> Prediction:
    """Label public points one by one.

    Parameters
    ----------
    setting : PredictionSetting
    private : Dataset or PartitionedDataset
    public : Dataset
    n_classes : int or None
        None takes it from the private labels, which reveals the largest label that occurs.
    nominal : int or None
        Public number of private records, for the default noise; None rounds their number to two digits.
    serving : Serving or None
        None keeps nothing after the call.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no budget meets the target; nothing has been spent.
    """
    serving = Serving() if serving is None else serving
    plan = plan_prediction(setting, private, public, n_classes=n_classes, nominal=nominal, store=serving.store)
    model, count = plan.model, plan.setting.queries
    with phase("reading what records have spent"):
        model.fit(private.features, private.labels, serving.ids)
    try:
        with phase("predicting", count) as tick:
            labels = model.predict(public.features[:count], _follow(model, serving, tick), serving.run)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_describe_interruption(model, serving)) from None
    accuracy = None if public.labels is None else float(np.mean(labels == public.labels[:count]))
    spent = 1 - model.budgets_ / model.budget
    return replace(plan, labels=labels, kept=model.kept_, accuracy=accuracy, spent=spent)


def rehearse(
    model: IndividualKNN, private: Dataset, store: BudgetStore | None = None, ids: Sequence[str] | str | None = None
) -> None:
    """Check what `predict` would check before it spends anything, and keep nothing; errors as for `predict`.

    `store` is one that may be changed, such as a `mechanisms.budgets.rehearsal.RehearsedStore`.
    """
    IndividualKNN(**{**model.get_params(), "store": store}).fit(private.features, private.labels, ids)


def _follow(model: IndividualKNN, serving: Serving, tick: Tick) -> Callable[[int], object]:
    """The progress of a run; kept answers come first, so that they are announced before the first draw."""
    announced = False

    def progress(done: int) -> None:
        nonlocal announced
        if not announced and model.kept_ and serving.announce is not None:
            serving.announce(model.kept_)
        announced = True
        tick(done)
        if serving.progress is not None:
            serving.progress(done)

    return progress


def _describe_interruption(model: IndividualKNN, serving: Serving) -> str:
    """What an interrupted prediction has kept, and how to go on; what was answered is committed by then."""
    answered = int(np.count_nonzero(model.labels_ >= 0))
    if serving.store is None:
        return f"{answered} queries were answered, and nothing keeps the answers"
    if serving.run is None:
        return f"{answered} queries were answered; the store keeps what they cost, and nothing keeps the answers"
    return f"{answered} answers are kept in the store; the same command goes on, and pays for none of them again"


def make_model(
    setting: PredictionSetting,
    chosen: PredictionSetting,
    settled: Mapping[str, Any] | None,
    n_classes: int | None,
    store: BudgetStore | None,
) -> IndividualKNN:
    """The mechanism for a setting; `chosen` is the same setting, completed by `complete_setting`."""
    names = ("threshold", "vote_sigma", "kernel", "bandwidth", "hashing", "reuse")
    return IndividualKNN(
        _budget(setting, settled),
        count_sigma=_count_sigma(chosen, settled, setting.count_share is None),
        **{name: getattr(chosen, name) for name in names},
        n_classes=n_classes,
        rng=setting.seed,
        store=store,
    )


def complete_setting(
    setting: PredictionSetting,
    queries: int,
    records: int,
    public: Dataset,
    settled: Mapping[str, Any] | None = None,
) -> PredictionSetting:
    """The setting with threshold and noise chosen by public points, for so many queries and private records.

    Parameters
    ----------
    setting : PredictionSetting
    queries, records : int
        Both public: if the number of records is private, a nominal one.
    public : Dataset
    settled : mapping, optional
        What a store was settled with; it decides what the setting leaves open.

    Raises
    ------
    accountant.AccountantError
        Data and setting do not go together, or no budget meets the target.
    """
    given = {name: value for name, value in asdict(setting).items() if value is not None}
    fixed = {} if settled is None else {name: settled[name] for name in STORE_DECIDES if name in settled}
    if setting.selectivity is not None:  # the user's choice; a store with another threshold refuses it
        fixed.pop("threshold", None)
    whole = PredictionSetting(**{**DEFAULTS, **fixed, **given, "queries": queries})
    share = check_real("selectivity", whole.selectivity, "(0, 1)", lambda value: 0 < value < 1)
    budget = _budget(setting, settled)
    threshold, vote_sigma = whole.threshold, whole.vote_sigma
    if threshold is None or vote_sigma is None:
        kernels = _compute_kernels(whole, public)
        if threshold is None:
            threshold = float(np.clip(np.quantile(kernels, 1 - share), 0, 1))
        if vote_sigma is None:
            similar = kernels[kernels >= threshold]
            square = float(np.mean(similar**2)) if len(similar) else 1.0
            # a record that is similar to a share p of T queries votes p T times with noise sigma sqrt(p n), which costs
            # p T E[f^2] / (2 sigma^2 p n): p cancels
            vote_sigma = math.sqrt(queries * max(square, 1e-12) / (records * budget))
    return replace(whole, threshold=threshold, vote_sigma=vote_sigma)


def _budget(setting: PredictionSetting, settled: Mapping[str, Any] | None) -> float:
    """B for the target, or the store's B if the two differ only by rounding and it meets the target."""
    budget = ac.IndividualFilter.budget_for(setting.epsilon, setting.delta, setting.conversion)
    held = budget if settled is None else float(settled.get("budget", budget))
    if held != budget and abs(held - budget) <= 1e-6 * budget:
        whole = ac.IndividualFilter(held).guarantee(setting.delta, setting.conversion)
        budget = held if whole.epsilon <= setting.epsilon else budget
    return budget


def _count_sigma(chosen: PredictionSetting, settled: Mapping[str, Any] | None, free: bool) -> float:
    """Noise of counts: the store's, if it has one and the user chose no share (`free`); else by `count_share`."""
    if free and settled is not None and "count_sigma" in settled:
        return float(settled["count_sigma"])
    assert chosen.queries is not None
    assert chosen.count_share is not None
    target = chosen.epsilon, chosen.delta, chosen.queries
    planned = IndividualKNN.for_budget(*target, 0.0, 1.0, chosen.conversion, chosen.count_share)
    return float(planned.count_sigma)


def _compute_kernels(setting: PredictionSetting, public: Dataset) -> NDArray[np.float64]:
    """The kernel of every pair among about 1000 public points; private records are not used."""
    points = public.features[:: max(len(public) // THRESHOLD_POINTS, 1)].astype(float)
    if len(points) < 2:
        raise ac.ParameterError(f"{public.name}: one public point; accepted: several, or threshold and vote_sigma")
    if setting.kernel == "cosine":
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-300)
        kernels = points @ points.T
    else:
        assert setting.bandwidth is not None
        squares = (points**2).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
        kernels = np.exp(-distances / setting.bandwidth**2)
    pairs: NDArray[np.float64] = kernels[np.triu_indices(len(points), 1)]
    return pairs
