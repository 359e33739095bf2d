"""How far the counts of reverse k-NN can be off, before it runs (Wang et al. 2022, Prop. 1, Remark 1, Thms 1 and 2).

Counts are (eta, beta)-accurate at a query if all its classes are within eta of the truth with probability 1 - beta.
k queries get the vote of a record, and r labels belong to it. The paper's Theorems 1 and 2 are computed as printed,
next to a bound that is proven for all parameters: both theorems leave out the factor 2 of a two-sided tail and the
larger rate of entries that many records have (notebooks/mathematics.md, Errors of noisy counts).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import accountant as ac
from mechanisms.local_reports import CollisionReports, RandomizedBits
from mechanisms.local_reports.randomizer import Responses
from mechanisms.validation import check_count, check_positive, check_real

__all__ = [
    "ErrorBound",
    "collision_error",
    "discrete_laplace_error",
    "laplace_error",
    "least_gap",
    "randomized_response_error",
]


ROUNDING = 1e-15
"""More than the error of a logarithm and of a product of it, by which discrete bounds are on the safe side."""


class ErrorBound(NamedTuple):
    """An error eta that counts exceed with probability at most beta.

    Attributes
    ----------
    printed : float
        The paper's formula.
    proven : float
        A bound for all parameters.
    """

    printed: float
    proven: float


def laplace_error(
    classes: int, beta: float, epsilon: float, neighbors: int = 1, labels: int = 1, *, shares: bool = False
) -> float:
    """``2 k r log(c / beta) / epsilon``, in the central model (Wang et al. 2022, Prop. 1).

    A count has Laplace noise of scale 2kr/epsilon, which exceeds t with probability exp(-t epsilon/(2kr)); the c
    classes of a query share beta.

    Parameters
    ----------
    classes : int
        c.
    beta : float
        (0, 1).
    epsilon : float
        Under replace adjacency, for one round.
    neighbors, labels : int
        k and r.
    shares : bool
        The paper's multi-message shuffle protocol: its noise is discrete, see `discrete_laplace_error`.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """
    if shares:
        return discrete_laplace_error(classes, beta, epsilon, neighbors, labels, shares=True)
    nats, nonzeros = _read(classes, beta, neighbors, labels)
    return 2 * nonzeros * nats / check_positive("epsilon", epsilon)


def discrete_laplace_error(
    classes: int, beta: float, epsilon: float, neighbors: int = 1, labels: int = 1, *, shares: bool = False
) -> float:
    """The least whole number t with ``2 x^(t+1)/(1+x) <= beta/c``, x = exp(-1/b), for discrete noise of scale b.

    That is the probability with which discrete Laplace noise exceeds t. The paper's formula ``b log(c/beta)`` is that
    of continuous noise and can be less, by less than 1.

    Parameters
    ----------
    classes, beta, epsilon, neighbors, labels
        As for `laplace_error`.
    shares : bool
        The paper's multi-message shuffle protocol, of scale ``b = 4kr/epsilon``; else the central model with the noise
        "discrete-laplace", of scale ``b = 2kr/epsilon``.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """
    nats, nonzeros = _read(classes, beta, neighbors, labels)
    scale = (4 if shares else 2) * nonzeros / check_positive("epsilon", epsilon)
    nats += ROUNDING * (1 + nats) - math.log1p(math.expm1(-1 / scale) / 2)
    steps = scale * nats
    return steps if steps >= 2.0**53 else float(math.ceil(steps) - 1)


def randomized_response_error(
    records: int, classes: int, beta: float, epsilon: float, neighbors: int = 1, labels: int = 1
) -> ErrorBound:
    """The error of counts from randomized response in the local model (Wang et al. 2022, Thm 1).

    With ``e = exp(epsilon/(2kr))`` the paper prints ``(e + 1)/(e - 1) sqrt(3 n log(c/beta)/(e + 1))``. Hoeffding's
    inequality proves it where ``e + 1 <= 6 L/(L + log 2)``, L = log(c/beta); at e = 55 and one record it is wrong.

    Parameters
    ----------
    records : int
        n, each of which sends a report.
    classes, beta, epsilon, neighbors, labels
        As for `laplace_error`.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """
    nats, nonzeros = _read(classes, beta, neighbors, labels)
    n = check_count("records", records, 1)
    responses = RandomizedBits(max(classes, nonzeros), nonzeros, epsilon).responses
    rate = math.exp(epsilon / (2 * nonzeros)) + 1
    printed = rate / (rate - 2) * math.sqrt(3 * n * nats / rate)
    return ErrorBound(printed, _deviation(responses, n, nats) / responses.gap)


def collision_error(
    records: int, classes: int, beta: float, epsilon: float, neighbors: int = 1, labels: int = 1
) -> ErrorBound:
    """The error of counts from Collision in the local model (Wang et al. 2022, Thm 2).

    With c' = kr entries of a record, ``l = 2c' - 1 + c' exp(epsilon)`` buckets, here rounded to a whole number, and
    ``Omega = c' exp(epsilon) + l - c'`` the paper prints ``sqrt(2 n log(c/beta)/l) / (exp(epsilon)/Omega - 1/l)``,
    with l as it is. `ReverseKNN` takes the number of buckets of least variance, which is close. An entry that all
    records have exceeds it more often than beta/c allows: for c' = 10, epsilon = 1 and beta/c = 0.005 over three times
    as often.

    Parameters
    ----------
    records, classes, beta, epsilon, neighbors, labels
        As for `randomized_response_error`.

    Raises
    ------
    accountant.ParameterError
        A value is out of range.
    """
    nats, nonzeros = _read(classes, beta, neighbors, labels)
    n = check_count("records", records, 1)
    weight = math.exp(check_real("epsilon", epsilon, "[1e-9, 15]", lambda number: 1e-9 <= number <= 15))
    buckets = 2 * nonzeros - 1 + nonzeros * weight
    omega = nonzeros * weight + buckets - nonzeros
    printed = math.sqrt(2 * n * nats / buckets) / (weight / omega - 1 / buckets)
    whole = max(round(buckets), nonzeros + 1)
    responses = CollisionReports(max(classes, nonzeros), nonzeros, epsilon, whole).responses
    return ErrorBound(printed, _deviation(responses, n, nats) / responses.gap)


def least_gap(error: float) -> float:
    """The gap of true votes, 2 eta, at which counts within eta keep the largest one (Wang et al. 2022, Remark 1).

    Raises
    ------
    accountant.ParameterError
        The error is not above 0.
    """
    return 2 * check_positive("error", error)


def _read(classes: int, beta: float, neighbors: int, labels: int) -> tuple[float, int]:
    """log(c/beta), and kr."""
    c = check_count("classes", classes, 1)
    share = check_real("beta", beta, "(0, 1)", lambda number: 0 < number < 1)
    nonzeros = check_count("neighbors", neighbors, 1) * check_count("labels", labels, 1, c)
    if nonzeros > 256:
        raise ac.ParameterError(f"neighbors * labels = {nonzeros}; accepted: at most 256")
    return math.log(c / share), nonzeros


def _deviation(responses: Responses, n: int, nats: float) -> float:
    """x that a sum of n independent bits misses its mean by with probability at most exp(-nats).

    The smaller of ``sqrt(n L/2)`` (Hoeffding 1963, Thm 2) and the solution of ``x^2 = 2 L (V + x/3)`` (Bernstein's
    inequality; Boucheron, Lugosi & Massart 2013, Thm 2.10), with L = nats + log 2 for two sides, and V the largest
    variance of n bits of the two rates.
    """
    both = nats + math.log(2)
    variance = n * max(responses.p * (1 - responses.p), responses.q * (1 - responses.q))
    bernstein = both / 3 + math.sqrt(both**2 / 9 + 2 * both * variance)
    return min(math.sqrt(n * both / 2), bernstein)
