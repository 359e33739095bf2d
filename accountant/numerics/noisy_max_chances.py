"""The probability that one of several noisy counts is the largest, to full relative accuracy however small it is.

Label i wins with probability P = integral f(x) prod_j F(x + g_j) dx, f and F the density and the distribution function
of the noise at scale 1 and g_j = (n_i - n_j)/scale. The integrand is log-concave. Proofs: notebooks/mathematics.md,
Chances of a noisy vote.

*Gaussian noise.* The trapezoidal rule of step h = pi sqrt(2/(40 c)) with c counts errs by at most 2 e^-40 P: in the
strip of half-width a the integrand is at most e^{c a^2/2} times its size on the line. From its top it falls at least
as e^{-x^2/2} and at most as e^{-c x^2/2}, so that what lies more than 10 beyond it is below 1e-20 sqrt(c) P.

*Laplace noise.* Gauss-Legendre rules with 16 nodes between the corners of the integrand, on panels no longer than 1 and
8/c. Where a single other count is ahead and all others are far behind the integrand is level.
"""

from __future__ import annotations

import math

import numpy as np

from accountant.numerics.kernel import FloatArray, Kernel
from accountant.numerics.special import log_phi

__all__ = ["fill_gaussian_moves", "gaussian_log_chance", "laplace_log_chance"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)

REACH = 10.5
"""Standard deviations on both sides of the top, which is known to half of one, that are summed."""

FAR = 46.0
"""Scales beyond which Laplace noise is left out: e^-46 = 1e-20."""


@Kernel
def log_hazard_sum(x: float, gaps: FloatArray, numbers: FloatArray) -> float:
    """Derivative of the log of the Gaussian integrand at x; phi/Phi is -y, but for less than 1/|y|, far below 0."""
    total = -x
    for j in range(gaps.size):
        y = x + gaps[j]
        hazard = -y if y < -1e3 else math.exp(-0.5 * y * y - 0.9189385332046727 - log_phi(y))
        total += numbers[j] * hazard
    return total


@Kernel
def gaussian_top(gaps: FloatArray, numbers: FloatArray) -> float:
    """Where the Gaussian integrand is largest, to a half; far away to as much as floats tell."""
    low, high = 0.0, float(1.0 + numbers.sum() + max(0.0, -gaps.min()))
    while high - low > 0.5 + 1e-15 * high:
        middle = 0.5 * (low + high)
        if log_hazard_sum(middle, gaps, numbers) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@Kernel
def gaussian_log_chance(gaps: FloatArray, numbers: FloatArray) -> float:
    """log P for Gaussian noise; `numbers` says how many other counts have a gap."""
    counts = 1.0 + numbers.sum()
    top = gaussian_top(gaps, numbers)
    step = math.pi * math.sqrt(2.0 / (40.0 * counts))
    last = math.ceil(REACH / step)
    logs = np.empty(2 * int(last) + 1)
    for k in range(logs.size):
        x = top + (k - last) * step
        logs[k] = -0.5 * x * x
        for j in range(gaps.size):
            logs[k] += numbers[j] * log_phi(x + gaps[j])
    highest = logs.max()
    return float(min(0.0, highest + math.log(np.exp(logs - highest).sum() * step) - 0.9189385332046727))


@Kernel
def laplace_log_density(x: float, gaps: FloatArray, numbers: FloatArray) -> float:
    """Log of the Laplace integrand."""
    total = -abs(x) - 0.6931471805599453
    for j in range(gaps.size):
        y = x + gaps[j]
        total += numbers[j] * (y - 0.6931471805599453 if y < 0.0 else math.log1p(-0.5 * math.exp(-y)))
    return total


@Kernel
def laplace_log_sum(
    start: float, end: float, longest: float, corners: FloatArray, gaps: FloatArray, numbers: FloatArray
) -> float:
    """Log of the integral from start to end, by panels between the corners."""
    total, scale = 0.0, -math.inf
    left = start
    while left < end:
        right = min(left + longest, end)
        for k in range(corners.size):
            if left < corners[k] < right:
                right = corners[k]
        if not right > left:  # a corner that rounding put there
            break
        half = 0.5 * (right - left)
        for n in range(NODES.size):
            log_value = laplace_log_density(left + half * (1.0 + NODES[n]), gaps, numbers)
            if log_value > scale:
                total, scale = total * math.exp(scale - log_value), log_value
            total += WEIGHTS[n] * half * math.exp(log_value - scale)
        left = right
    return scale + math.log(total) if total > 0.0 else -math.inf


@Kernel
def laplace_log_chance(gaps: FloatArray, numbers: FloatArray) -> float:
    """log P for Laplace noise; `numbers` says how many other counts have a gap."""
    counts = 1.0 + numbers.sum()
    corners = np.append(-gaps, 0.0)
    top = corners.max()
    second, ahead = 0.0, 0.0
    for j in range(gaps.size):
        ahead += numbers[j] if -gaps[j] == top else 0.0
    if top > 0.0 and ahead == 1.0:
        for j in range(gaps.size):
            second = max(second, -gaps[j] if -gaps[j] < top else 0.0)
    else:
        second = top
    longest, beyond = min(1.0, 8.0 / counts), FAR + 2.0 * math.log(counts)
    if top - second <= 2.0 * beyond:
        return min(0.0, laplace_log_sum(second - FAR, top + beyond, longest, corners, gaps, numbers))
    # one count is ahead, all others are behind: between the two parts the integrand is level
    low, high = second + beyond, top - beyond
    first = laplace_log_sum(second - FAR, low, longest, corners, gaps, numbers)
    level = laplace_log_density(0.5 * (low + high), gaps, numbers) + math.log(high - low)
    last = laplace_log_sum(high, top + beyond, longest, corners, gaps, numbers)
    most = max(first, level, last)
    return min(0.0, most + math.log(math.exp(first - most) + math.exp(level - most) + math.exp(last - most)))


@Kernel
def gain_of_move(fewer: FloatArray, more: FloatArray, own: int, a: int, b: int) -> float:
    """What the integrand's log gains where count a has lost a vote and b has gained one, but for the label's own."""
    change = 0.0
    if own != 1 and a >= 0:
        change += fewer[a]
    if own != 2 and b >= 0:
        change += more[b]
    return change


@Kernel
def fill_gaussian_moves(
    values: FloatArray, numbers: FloatArray, scale: float, moves: FloatArray, logs: FloatArray
) -> None:
    """Fill log P of a label of each value after each move: which count loses a vote, and which gains one; -1 is none.

    A row has the labels that stay in the columns of their values, and then one that lost and one that gained a vote.
    For scales of 1 or more: moves share nodes, as tops move by no more than counts do, and all factors but one or two.
    """
    size, unit, counts = values.size, 1.0 / scale, numbers.sum()
    step = math.pi * math.sqrt(2.0 / (40.0 * counts))
    last = math.ceil((REACH + 2.0 * unit) / step)
    sums, at_top = np.empty(len(moves)), np.empty(len(moves))
    same, fewer, more = np.empty(size), np.empty(size), np.empty(size)
    logs[:, :] = -math.inf
    for label in range(size):
        for own in range(3):  # the label keeps its count, has lost a vote, has gained one
            gaps = (values[label] - values + (0.0 if own == 0 else 2.0 * own - 3.0)) * unit
            left = numbers.copy()
            left[label] -= 1.0
            top = gaussian_top(gaps, left)
            highest = 0.0
            sums[:] = 0.0
            for k in range(2 * int(last) + 1):
                # the top first
                x = top + (0.0 if k == 0 else (k - last if k > last else k - 1 - last) * step)
                log_all = -0.5 * x * x
                for j in range(size):
                    same[j] = log_phi(x + gaps[j])
                    fewer[j] = log_phi(x + gaps[j] + unit) - same[j]
                    more[j] = log_phi(x + gaps[j] - unit) - same[j]
                    log_all += left[j] * same[j]
                if k == 0:
                    highest = log_all
                for m in range(len(moves)):
                    a, b = int(moves[m, 0]), int(moves[m, 1])
                    if (own == 1 and a != label) or (own == 2 and b != label):
                        continue
                    change = gain_of_move(fewer, more, own, a, b)
                    if k == 0:
                        at_top[m] = change
                    sums[m] += math.exp(log_all - highest + change - at_top[m])
            column = label if own == 0 else size + own - 1
            for m in range(len(moves)):
                if sums[m] > 0.0:
                    log_sum = highest + at_top[m] + math.log(sums[m] * step) - 0.9189385332046727
                    logs[m, column] = min(0.0, log_sum)
