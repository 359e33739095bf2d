"""NoisySGD: a classifier of one or two layers by noisy gradients of Poisson batches.

One layer is the baseline of Zhu et al. 2023, one and two are those of Wang et al. 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.budgets.journal import Journal, Part
from mechanisms.clipped_sums import GRADIENT_GRAIN, add_clipped
from mechanisms.estimator import Parameters
from mechanisms.exclusive import Exclusive, exclusive
from mechanisms.frames import read_labels, read_records
from mechanisms.labelling_plan import PlanExceeded
from mechanisms.neighbours.kernels import products
from mechanisms.noise.sampling import poisson_sample
from mechanisms.noise.source import Randomness, as_randomness, check_noise, noise_of
from mechanisms.phases import phase
from mechanisms.validation import check_count, check_fitted, check_positive, check_rate, name_as

__all__ = ["LinearNoisySGD", "TwoLayerNoisySGD"]

LARGEST_UNIT = 1e100
"""Of hidden units, and of what flows back to them: products of their squares with those of features are finite."""


@dataclass(frozen=True)
class TrainingPlan:
    """All that a training draws and pays for; fixed before its first step, later parameters do not change it."""

    event: ac.Event
    steps: int
    clip: float
    learning_rate: float

    def __post_init__(self) -> None:
        check_count("steps", self.steps, 1)
        check_positive("clip", self.clip)
        check_positive("learning_rate", self.learning_rate)

    @property
    def composition(self) -> ac.Composition:
        """What the whole training will spend."""
        return self.steps * self.event

    def open(
        self, journal: Journal | None, private: tuple[Singles, Integers], start: Floats, source: Randomness
    ) -> Part:
        """The part of the journal that holds this training; without a journal, an empty part."""
        if journal is None:
            return Part()
        return journal.part(
            {
                "mechanism": "noisy-sgd",
                "training": repr(self),
                "start": [*start.shape, sha256(start.tobytes()).hexdigest()],
                "private": journal.keyed_digest(*private),
                "seed": source.state(),
            }
        )


class LinearNoisySGD(Parameters, Exclusive):
    """Softmax regression trained by differentially private gradient descent (Abadi et al. 2016).

    Each step draws a Poisson batch, clips every record's gradient to an L2 norm of `clip`, adds Gaussian noise to
    their sum, and moves against it. Under add-remove adjacency a step is a Poisson-subsampled Gaussian mechanism.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over `clip`.
    sampling_rate : float
        Probability with which a record joins a batch; (0, 1].
    steps : int
    clip : float
        Largest L2 norm of a record's gradient.
    learning_rate : float
        Step size for the noisy sum of gradients in units of `clip`; not for their mean, as the size of a batch is
        private.
    n_classes : int or None
        Number of classes; None takes it from the labels, which reveals the largest label that occurs.
    rng : Generator, int or None
        None draws from the operating system's cryptographic source.
    n_trainings : int or None
        Most calls of `fit`; more are refused (`PlanExceeded`). None sets no limit: every training adds its own price.
    classes : sequence of str or None
        Public names of the classes; labels are then given, and given back, by name. None takes labels as numbers.

    Attributes
    ----------
    weights_ : array of shape (d + 1, c)
        The last row is the intercept.
    spent_ : accountant.Composition
        All steps that this object has ever taken, each recorded beforehand; another `fit` does not reset it.
    """

    def __init__(
        self,
        noise_multiplier: float = 1.0,
        sampling_rate: float = 0.05,
        steps: int = 500,
        clip: float = 0.1,
        learning_rate: float = 0.02,
        n_classes: int | None = None,
        rng: Any = None,
        n_trainings: int | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.sampling_rate = sampling_rate
        self.steps = steps
        self.clip = clip
        self.learning_rate = learning_rate
        self.n_classes = n_classes
        self.rng = rng
        self.n_trainings = n_trainings
        self.classes = classes

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        sampling_rate: float = 0.05,
        steps: int = 500,
        conversion: ac.Conversion | None = None,
        **parameters: Any,
    ) -> Self:
        """The estimator with the least noise that keeps one training within (epsilon, delta), and refuses a second.

        With ``n_trainings=m`` among the parameters, m trainings together. The price is the certified one, or, with a
        `conversion`, that of the Rényi route; both as in `guarantee`.

        Raises
        ------
        accountant.CalibrationError
            No noise is enough.
        """

        planned = {"sampling_rate": sampling_rate, "steps": steps, "n_trainings": 1, **parameters}
        count = check_count("n_trainings", planned["n_trainings"], 1)

        def plan(noise: float) -> ac.Composition:
            return count * cls(noise_multiplier=noise, **planned).planned

        noise = ac.calibrate(plan, epsilon, delta, bounds=(1e-2, 1e9), conversion=conversion)
        return cls(noise_multiplier=noise, **planned)

    @property
    def event(self) -> ac.Event:
        """One step, in units of `clip`."""
        with name_as("sigma", "noise_multiplier"):
            gradient = ac.Gaussian(self.noise_multiplier)
        return ac.PoissonSubsampled(gradient, check_rate(self.sampling_rate))

    @property
    def planned(self) -> ac.Composition:
        """What a training under the present parameters will spend."""
        return self._plan().composition

    def _plan(self) -> TrainingPlan:
        return TrainingPlan(self.event, self.steps, self.clip, self.learning_rate)

    @exclusive
    def fit(self, X: object, y: object, journal: Journal | None = None) -> Self:
        """Train on private records from weights that do not depend on them; what earlier trainings spent stays spent.

        Parameters
        ----------
        X : array of shape (n, d), or a data frame of pandas, polars or pyarrow
            Features that do not depend on the private records (standardise by public data).
        y : array of shape (n,), labels 0..c-1, or names among `classes`
        journal : Journal, optional
            Holds the charge before the first step, and the weights before this returns: a training that was made is
            given again, one that was killed on the way has released nothing and begins anew, both at no further cost.

        Raises
        ------
        accountant.ParameterError
            An array or a parameter is not as described, or all `n_trainings` were made (`PlanExceeded`); nothing has
            been spent.
        JournalError
            The journal holds another training; nothing has been spent.
        """
        begun = getattr(self, "_begun", 0)
        if self.n_trainings is not None and begun >= check_count("n_trainings", self.n_trainings, 1):
            raise PlanExceeded(
                f"training {begun + 1}; accepted: at most n_trainings = {self.n_trainings}, for which the guarantee "
                "was fixed"
            )
        records, names = read_records(X, self.classes)
        if len(records) > 2**23:
            raise ac.ParameterError(f"X has {len(records)} records; accepted: at most {2**23}")
        labels, classes = read_labels(y, len(records), self.n_classes, names.classes)
        check_rate(self.sampling_rate)
        plan, source = self._plan(), as_randomness(self.rng)
        check_noise(plan.event, source, GRADIENT_GRAIN)
        if not hasattr(self, "spent_"):
            self.spent_, self._promised = ac.Composition(), ac.Composition()
        start = self._start(records, classes)
        part = plan.open(journal, (records, labels), start, source)
        part.charge(0, "training")
        self.__dict__.pop("weights_", None)  # those of an earlier training, should this one be interrupted
        self._promised, self._begun = self._promised + plan.composition, begun + 1
        if 0 in part.answers:
            kept, state = part.answers[0]
            weights, self.spent_ = np.array(kept, float), self.spent_ + plan.composition
            source.restore(state)
        else:
            weights = self._train((records, labels), start, classes, plan, source)
            part.answer(0, weights, source.state())
        self._vocabulary, self._shape, self.weights_ = names, (records.shape[1], classes), weights
        return self

    def _train(
        self, private: tuple[Singles, Integers], weights: Floats, classes: int, plan: TrainingPlan, source: Randomness
    ) -> Floats:
        """The weights after all steps, each recorded beforehand; nobody has them until the journal holds them."""
        records, labels = private
        with phase("training by noisy gradients", plan.steps) as tick:
            for step in range(plan.steps):
                batch = poisson_sample(len(records), plan.event.sampling_rate, source)
                layers = self._split(weights, records.shape[1], classes)
                gradient = self._gradient(records[batch], labels[batch], layers, plan.clip)
                self.spent_ = self.spent_ + plan.event
                noise = noise_of(plan.event, source, gradient.size, GRADIENT_GRAIN).reshape(gradient.shape)
                weights = weights - plan.learning_rate * (gradient + noise)
                tick(step + 1)
        return weights

    def predict(self, queries: object) -> Any:
        """Labels of public queries, at no further cost; by name if the classes have names.

        Raises
        ------
        accountant.ParameterError
            `fit` was not called, or `queries` is not as described.
        """
        check_fitted(hasattr(self, "weights_"), "predict(queries)")
        points = self._vocabulary.read_queries(queries, self._shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            return self._vocabulary.spell(np.argmax(self._score(points), axis=1))

    def _start(self, records: Singles, classes: int) -> Floats:
        """The weights that a training begins with; of the records only their width counts."""
        return np.zeros((records.shape[1] + 1, classes))

    def _split(self, weights: Floats, width: int, classes: int) -> tuple[Floats, ...]:
        """The matrix of each layer, for so many features and classes."""
        return (weights,)

    def _gradient(self, records: Singles, labels: Integers, layers: tuple[Floats, ...], clip: float) -> Floats:
        """Sum of the clipped gradients of a batch, in units of `clip`."""
        return _clipped_gradient(records, labels, layers[0], clip)

    def _score(self, points: Singles) -> Floats:
        """Scores of the classes, (n, c)."""
        return _scores(points, self.weights_)

    def guarantee(self, delta: float, conversion: ac.Conversion | None = None) -> ac.Guarantee:
        """The guarantee for all trainings so far, each fixed before it began; before the first, for the planned one.

        Parameters and errors as for `accountant.epsilon`.
        """
        promised = self._promised if hasattr(self, "_promised") else self.planned
        return ac.epsilon(promised, delta, conversion=conversion)


class TwoLayerNoisySGD(LinearNoisySGD):
    """As `LinearNoisySGD`, with a hidden layer of rectified units before the softmax ("Layer-2" of Wang et al. 2022).

    A record's gradient is that of both layers together, and is clipped as one vector. Parameters, attributes and errors
    as for `LinearNoisySGD`, with those below.

    Parameters
    ----------
    hidden : int
        Number of hidden units.
    start : int
        Seed of the weights that a training begins with, which are public.

    Attributes
    ----------
    weights_ : array of shape ((d + 1) hidden + (hidden + 1) c,)
        Of both layers, each with its intercepts in the last row.
    """

    def __init__(
        self,
        noise_multiplier: float = 1.0,
        sampling_rate: float = 0.05,
        steps: int = 500,
        clip: float = 0.1,
        learning_rate: float = 0.02,
        n_classes: int | None = None,
        rng: Any = None,
        n_trainings: int | None = None,
        classes: Sequence[str] | None = None,
        hidden: int = 64,
        start: int = 0,
    ) -> None:
        super().__init__(
            noise_multiplier, sampling_rate, steps, clip, learning_rate, n_classes, rng, n_trainings, classes
        )
        self.hidden = hidden
        self.start = start

    def _start(self, records: Singles, classes: int) -> Floats:
        """Random weights of variance 2 over the inputs of a unit (He et al. 2015), and no intercepts."""
        width, hidden = records.shape[1], check_count("hidden", self.hidden, 1, 10**6)
        public = np.random.default_rng(check_count("start", self.start, 0, 2**63 - 1))
        layers = (
            np.vstack([public.normal(0, math.sqrt(2 / inputs), (inputs, outputs)), np.zeros((1, outputs))])
            for inputs, outputs in ((width, hidden), (hidden, classes))
        )
        return np.concatenate([layer.ravel() for layer in layers])

    def _gradient(self, records: Singles, labels: Integers, layers: tuple[Floats, ...], clip: float) -> Floats:
        return _clipped_gradient_of_two(records, labels, layers, clip)

    def _score(self, points: Singles) -> Floats:
        first, second = self._layers()
        return _scores(_activate(points, first), second)

    def _layers(self) -> tuple[Floats, ...]:
        return self._split(self.weights_, *self._shape)

    def _split(self, weights: Floats, width: int, classes: int) -> tuple[Floats, ...]:
        hidden = (len(weights) - classes) // (width + 1 + classes)
        first, second = np.split(weights, [(width + 1) * hidden])
        return first.reshape(width + 1, hidden), second.reshape(hidden + 1, classes)


def _scores(points: Singles | Floats, weights: Floats) -> Floats:
    """Each record's by itself: in a common product another one could change the last bits of its gradient."""
    scores: Floats = products(points.astype(float), weights[:-1]) + weights[-1]
    return scores


def _activate(points: Singles, weights: Floats) -> Floats:
    """Hidden units, kept within numbers whose squares are finite."""
    units: Floats = np.clip(np.nan_to_num(_scores(points, weights)), 0.0, LARGEST_UNIT)
    return units


def _clipped_gradient(points: Singles, labels: Integers, weights: Floats, clip: float) -> Floats:
    """Sum of the records' cross-entropy gradients in units of `clip`, each at most 1 in L2 norm.

    The result is an exact multiple of GRADIENT_GRAIN. A record's gradient is the outer product of (x, 1) and (softmax -
    one-hot), so its norm is the product of their norms. Both factors are rounded towards zero to multiples of
    sqrt(GRADIENT_GRAIN), which increases no norm. Their products then add up without rounding, in any order: sums of
    2^23 records fit into 53 bits.
    """
    # large weights may overflow the scores: a warning would reveal something of the records
    with np.errstate(over="ignore", invalid="ignore"):
        residuals = _residuals(_scores(points, weights), labels)
    (gradient,) = add_clipped([(_append_one(points), residuals)], clip)
    return gradient


def _clipped_gradient_of_two(points: Singles, labels: Integers, layers: tuple[Floats, ...], clip: float) -> Floats:
    """As `_clipped_gradient`, for two layers: a record's gradient is one outer product for each.

    The square of its norm is the sum of theirs. Units and what flows back to them are cut where their squares would
    overflow, for every record by itself.
    """
    first, second = layers
    with np.errstate(over="ignore", invalid="ignore"):
        units = _activate(points, first)
        residuals = _residuals(_scores(units, second), labels)
        back = np.clip(np.nan_to_num(products(residuals, second[:-1].T)), -LARGEST_UNIT, LARGEST_UNIT) * (units > 0)
    parts = add_clipped([(_append_one(points), back), (_append_one(units), residuals)], clip)
    return np.concatenate([part.ravel() for part in parts])


def _residuals(scores: Floats, labels: Integers) -> Floats:
    """Softmax of the scores, less 1 at the label: the gradient of the cross-entropy by the scores."""
    scores = np.nan_to_num(scores, nan=0.0, posinf=1e300, neginf=-1e300)
    scores -= scores.max(axis=1, keepdims=True, initial=-math.inf)
    residuals: Floats = np.exp(scores)
    residuals /= residuals.sum(axis=1, keepdims=True)
    residuals[np.arange(len(labels)), labels] -= 1
    return residuals


def _append_one(points: Singles | Floats) -> Floats:
    return np.concatenate([points.astype(float), np.ones((len(points), 1))], axis=1)
