"""What a run lets an attacker do: true-positive rates, advantage, Bayes risk, precision, and Gaussian DP.

The attacker knows everything but whether one record took part, and sees all that is released. Of two neighbouring
data sets one is the truth: Q without the record and P with it (direction "remove"), or the other way round ("add").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from accountant.attack import Attack, ask
from accountant.errors import ParameterError, real
from accountant.events.composition import Composition
from accountant.events.curve import as_reals
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import Interval
from accountant.patience import PATIENCE
from accountant.tight.trade_off import Rates

__all__ = [
    "Risk",
    "RiskInterval",
    "advantage",
    "assess",
    "bayes_risk",
    "gaussian_dp",
    "posterior",
    "precision",
    "true_positive_rate",
]

Ends = TypeVar("Ends", float, FloatArray)


@dataclass(frozen=True, eq=False)
class RiskInterval(Generic[Ends]):
    """The truth is certified to lie between both ends; ``lower, upper = interval`` takes it apart.

    Attributes
    ----------
    lower, upper : float or array
    method : str
        "tight", or "renyi": then the lower end is that of a run that releases nothing.
    source : str
        What it was computed by, and what it holds for.
    """

    lower: Ends
    upper: Ends
    method: str
    source: str

    def __iter__(self) -> Iterator[Ends]:
        return iter((self.lower, self.upper))


# --- what users call --------------------------------------------------------------------------------------


def true_positive_rate(
    run: Event | Composition,
    fpr: ArrayLike,
    *,
    direction: str = "worst",
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> RiskInterval[FloatArray]:
    """Largest true-positive rate of any attack, by its false-positive rate.

    ``TPR(a) = inf_u H(u) + u a`` over u >= 0, with H(e^x) the privacy profile at x, negative x too (Dong, Roth & Su
    2022, Prop. 6). The lower end bounds the infimum over all u, not over some of them (notebooks/mathematics.md, Attack
    risk). For runs that contain families of pairs (noisy screenings) it is the best of adversaries who may draw, and
    publish, which data sets they meet.

    Parameters
    ----------
    run : Event or Composition
    fpr : array_like
        False-positive rates in [0, 1].
    direction : {"worst", "remove", "add"}
        "remove": the attack says "took part"; a false positive is an outsider that it takes for a member. "add": it
        says "did not take part". "worst": the larger of both, at each rate. Under REPLACE all three are the same.
    method : {"auto", "tight", "renyi"}
        "tight": from both sides. "renyi": an upper end from the Rényi curve; the lower end is `fpr` itself, which
        guessing reaches. "auto": tight where it is to be had.
    tolerance : float
        Width of the interval that is aimed at, relative to its upper end, [1e-6, 1]; closed forms are within 1e-6
        anyway. Where grids of a few million points, or the patience that is left, do not reach it, or families of pairs
        come in, it is wider.
    patience : float
        Seconds that the work may take, counted before it is done as for `accountant.epsilon`; (0, inf]. By "auto" the
        Rényi bound is given where the tight route would take longer.

    Returns
    -------
    RiskInterval
        Of arrays shaped like `fpr`.

    Raises
    ------
    ParameterError
        A value is out of range.
    DataDependentError
        The run's cost is itself a function of private data.
    ProfileUnavailable, ToleranceUnreachable
        ``method="tight"`` and it cannot be had.
    OutOfPatience
        The same, where it would take longer than `patience`; by any method, where the Rényi bound does.
    """
    points = _as_rates(fpr)
    places, at = np.unique(points, return_inverse=True)
    (lower, upper), how = ask(run, lambda attack: attack.rates(places), direction, method, tolerance, patience)
    at = at.reshape(points.shape)
    return RiskInterval(np.asarray(lower[at]), np.asarray(upper[at]), *how)


def advantage(
    run: Event | Composition, *, method: str = "auto", tolerance: float = 0.01, patience: float = PATIENCE
) -> RiskInterval[float]:
    """Largest difference of true- and false-positive rate of any attack: the total variation, delta at epsilon 0.

    Both directions have the same, and no attacker has more.
    Parameters, errors and result as for `true_positive_rate`, of floats.
    """
    ends, how = ask(run, lambda attack: attack.advantage(), "worst", method, tolerance, patience)
    return RiskInterval(*ends, *how)


def bayes_risk(
    run: Event | Composition,
    prior: float = 0.5,
    *,
    direction: str = "worst",
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> RiskInterval[float]:
    """Smallest probability of error of any attacker who believed with probability `prior` that the record took part.

    ``min over S of prior (1 - P(S)) + (1 - prior) Q(S) = prior (1 - H((1 - prior) / prior))``, with P the release's
    distribution with the record and H the profile of direction "remove". "worst" is the lower of both directions, as
    if `prior` were that of the record's absence. Without any release it is min(prior, 1 - prior).

    Parameters
    ----------
    run : Event or Composition
    prior : float
        In (0, 1).
    direction, method, tolerance, patience
        As for `true_positive_rate`; the width is relative to the success probability.
    """
    belief = real("prior", prior, 0.0, 1.0, open_low=True, open_high=True)
    ends, how = ask(run, lambda attack: attack.error(belief), direction, method, tolerance, patience)
    return RiskInterval(*ends, *how)


def precision(
    run: Event | Composition,
    fpr: ArrayLike,
    base_rate: float,
    *,
    direction: str = "worst",
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> RiskInterval[FloatArray]:
    """Largest share of members among those that an attack takes for members, where members have a base rate.

    ``base_rate TPR / (base_rate TPR + (1 - base_rate) fpr)``; at fpr = 0 it is 1 if TPR is above 0, else `base_rate`.

    Parameters
    ----------
    run : Event or Composition
    fpr : array_like
        False-positive rates in [0, 1].
    base_rate : float
        Share of members among those who are asked about, (0, 1).
    direction, method, tolerance, patience
        As for `true_positive_rate`.
    """
    share = real("base_rate", base_rate, 0.0, 1.0, open_low=True, open_high=True)
    rates = true_positive_rate(run, fpr, direction=direction, method=method, tolerance=tolerance, patience=patience)
    return _precision(rates, as_reals("fpr", fpr, "[0, 1]"), share)


def _precision(rates: RiskInterval[FloatArray], fprs: FloatArray, share: float) -> RiskInterval[FloatArray]:
    """Bayes' rule, which rises with the true-positive rate."""

    def of(tprs: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            odds = share / (1 - share) * (tprs / fprs)
            return np.where(tprs > 0, 1 / (1 + 1 / odds), share)

    lower, upper = of(rates.lower) * (1 - 1e-15), np.minimum(of(rates.upper) * (1 + 1e-15), 1.0)
    return RiskInterval(lower, upper, rates.method, rates.source)


def posterior(
    run: Event | Composition,
    fpr: ArrayLike,
    prior: float = 0.5,
    *,
    direction: str = "worst",
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> RiskInterval[FloatArray]:
    """What an attacker who believed `prior` may believe of a record that the best attack at `fpr` takes for a member.

    By Bayes' rule ``prior TPR / (prior TPR + (1 - prior) fpr)``: the `precision` at a base rate that is the prior.
    """
    belief = real("prior", prior, 0.0, 1.0, open_low=True, open_high=True)
    return precision(run, fpr, belief, direction=direction, method=method, tolerance=tolerance, patience=patience)


def gaussian_dp(
    run: Event | Composition,
    fpr_floor: float = 1e-9,
    *,
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> RiskInterval[float]:
    """Smallest mu of which the run is mu-Gaussian-DP wherever both error rates are at least a floor.

    ``mu = sup z(a) + z(b)`` over the least errors (a, b) of attacks in both directions, a >= `fpr_floor` false
    positives and b >= a false negatives, with z = -Phi^-1 (Dong, Roth & Su 2022, Def. 4 and Eq. 6). b >= a loses
    nothing: with b the smaller one they are (b, a) of the other direction. Without a floor most runs have no mu but
    that of the run without sampling: a mu is to be stated with its floor. At `fpr_floor` itself every b counts.

    Parameters
    ----------
    run : Event or Composition
    fpr_floor : float
        In [1e-30, 0.5).
    method, tolerance, patience
        As for `true_positive_rate`; the tolerance is the width of the true-positive rates that mu is read from.

    Returns
    -------
    RiskInterval
        Of floats; its source names the floor.
    """
    floor = real("fpr_floor", fpr_floor, 1e-30, 0.5, open_high=True)
    ends, (route, source) = ask(run, lambda attack: attack.gaussian(floor), "worst", method, tolerance, patience)
    return RiskInterval(*ends, route, f"{source}; wherever both error rates are at least {floor:g}")


@dataclass(frozen=True, eq=False)
class Risk:
    """All figures of one run, from one computation.

    Attributes
    ----------
    fprs : array of shape (n,)
    true_positive_rates, precisions : RiskInterval of arrays of shape (n,)
    advantage, bayes_risk, mu : RiskInterval of floats
    direction : str
    base_rate, prior, fpr_floor : float
    """

    fprs: FloatArray
    true_positive_rates: RiskInterval[FloatArray]
    precisions: RiskInterval[FloatArray]
    advantage: RiskInterval[float]
    bayes_risk: RiskInterval[float]
    mu: RiskInterval[float]
    direction: str
    base_rate: float
    prior: float
    fpr_floor: float


def assess(
    run: Event | Composition,
    fprs: ArrayLike,
    *,
    base_rate: float = 0.01,
    prior: float = 0.5,
    fpr_floor: float = 1e-9,
    direction: str = "worst",
    method: str = "auto",
    tolerance: float = 0.01,
    patience: float = PATIENCE,
) -> Risk:
    """All figures of a run at once; parameters, errors and meaning as of the functions of their names.

    Parameters
    ----------
    fprs : array_like of shape (n,)
        In [0, 1]; sorted, each once, in the result.
    """
    points = np.unique(_as_rates(fprs))
    share = real("base_rate", base_rate, 0.0, 1.0, open_low=True, open_high=True)
    belief = real("prior", prior, 0.0, 1.0, open_low=True, open_high=True)
    floor = real("fpr_floor", fpr_floor, 1e-30, 0.5, open_high=True)

    def question(attack: Attack) -> tuple[Rates, Interval, Interval, Interval]:
        return attack.rates(points), attack.advantage(), attack.error(belief), attack.gaussian(floor)

    (found, variation, error, mu), how = ask(run, question, direction, method, tolerance, patience)
    rates = RiskInterval(*found, *how)
    return Risk(
        fprs=points,
        true_positive_rates=rates,
        precisions=_precision(rates, points, share),
        advantage=RiskInterval(*variation, *how),
        bayes_risk=RiskInterval(*error, *how),
        mu=RiskInterval(*mu, *how),
        direction=direction,
        base_rate=share,
        prior=belief,
        fpr_floor=floor,
    )


def _as_rates(fpr: ArrayLike) -> FloatArray:
    points = as_reals("fpr", fpr, "[0, 1]")
    bad = points[~((points >= 0) & (points <= 1))]
    if bad.size:
        raise ParameterError(f"fpr = {bad.flat[0]:g} is out of range; accepted: [0, 1]")
    return points
