"""Several of t steps, drawn at random: a pair below, by the sum of rounded losses of all steps.

Any function of the observed steps tells no more than they do; its distribution with the record and without it is known
exactly (notebooks/mathematics.md, Random allocation).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accountant.adjacency import DIRECTIONS, Direction
from accountant.events.discrete_pair import DiscretePair
from accountant.events.event import Event
from accountant.numerics.kernel import FloatArray
from accountant.numerics.lattice_powers import norm, transform_error
from accountant.patience import remember, spend
from accountant.samplers.allocation_pairs import LARGEST_STEP, bracket_step, pair_below
from accountant.samplers.likelihoods import Ratios
from accountant.tight.fourier import integer_power
from accountant.tight.polygon import ULP

__all__ = ["Drawn", "convolve", "subset_pair"]

LONGEST = 2.0**20
"""Points of the transform that convolves rounded losses, at most."""

WHAT, POINT = "scores of the steps of an epoch", 500.0
"""What is counted, and operations for each point of the transforms."""


class Drawn(NamedTuple):
    """So many of the steps, told by the losses that samples at a rate have."""

    steps: int
    selected: int
    rate: float


@remember(WHAT, 64)
def subset_pair(event: Event, drawn: Drawn, direction: Direction, step: float, log_lost: float) -> DiscretePair:
    """A pair below that of `selected` of `steps` steps: what the sum of rounded losses tells of who took part.

    With T_i = round(log(1 + rate (X_i - 1)) / step), or any other function of the observed steps, the sum of
    all T_i has the distribution p^{*selected} * q^{*(steps - selected)} with the record and q^{*steps} without it,
    modulo the length of a Fourier transform too.
    """
    steps, selected, rate = drawn
    one = bracket_step(event, direction, LARGEST_STEP / 4, log_lost)[1]
    losses = np.append(np.log1p(rate * (one.places - 1)), math.log1p(-rate) if rate < 1.0 else 0.0)
    with_zero = np.append(one.masses, one.zero), np.append(one.masses * one.places, 0.0)
    spread = math.sqrt(max(steps * float(np.sum(with_zero[0] * losses**2)), step**2))
    reach = 14 * spread + 2 * float(np.max(np.abs(losses)))
    # rounding adds up over the steps to a variance of steps * step^2/12; losses are about as the rate
    step = max(step * min(rate * steps / selected, 1.0) / (4 * math.sqrt(steps)), reach / LONGEST)
    scores = np.round(losses / step).astype(np.int64)
    points = 2 ** math.ceil(math.log2(max(reach / step, 64.0)))
    spend(POINT * points, WHAT)
    q, p = (np.bincount(scores % points, weights, points).astype(float) for weights in with_zero)
    with_q, error_q = convolve(q, steps, q, 0)
    with_p, error_p = convolve(q, steps - selected, p, selected)
    mirrored = direction == DIRECTIONS[1]
    if mirrored:  # below are what is certain of Q, and all that may be of P
        with_q, with_p = np.maximum(with_q - error_q, 0.0), with_p + error_p
    else:
        with_q, with_p = with_q + error_q, np.maximum(with_p - error_p, 0.0)
    whole = float((with_p if mirrored else with_q).sum())
    surplus = max(whole, 1.0)
    good = (with_q > 1e-280) & (with_p > 1e-280)
    zero = 0.0 if mirrored else max(1 - float(with_q[good].sum()), 0.0)
    error = surplus - 1 + steps * (one.error + one.moved)
    return pair_below(Ratios(with_q[good], with_p[good] / with_q[good], zero, 0.0, error, 16 * ULP), direction)


def convolve(q: FloatArray, many: int, p: FloatArray, few: int) -> tuple[FloatArray, float]:
    """q^{*many} * p^{*few} modulo their length n, and a bound on the error of every mass (sums of q and p at most 1).

    A transform errs by eta = `transform_error(n)` of its 2-norm, hence by at most eta sqrt(n) |q| in one place. A
    product of factors of at most m_k in place k then errs by (factors) m_k^(factors - 1) times that, and what comes
    back, a mean over all places, by the mean of it: at most eta |q| |m^(factors - 1)| / sqrt(n) for each factor
    (Cauchy-Schwarz inequality).
    """
    from scipy.fft import irfft, rfft

    size, total = q.size, many + few
    eta, length = transform_error(size), max(norm(q), norm(p))
    spectra = rfft(q), rfft(p)
    product = integer_power(spectra[0], many) * integer_power(spectra[1], few)
    off = eta * math.sqrt(size) * length
    largest = np.minimum(np.maximum(np.abs(spectra[0]), np.abs(spectra[1])) * (1 + 4 * ULP) + off, 1 + off)
    with np.errstate(under="ignore"):
        powers = math.sqrt(2) * largest ** (total - 1)
    found = irfft(product, size)
    share = eta * length * norm(powers) / math.sqrt(size) + 4 * ULP * float(np.sum(powers)) * math.sqrt(2) / size
    return np.maximum(found, 0.0), 1.01 * total * share + 2 * eta * norm(found) + 1e-300
