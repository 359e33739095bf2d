"""Privacy quantities of Gaussian and Laplace noise by integrating over outcomes, in mpmath."""

from collections.abc import Callable
from itertools import pairwise

from mpmath import mp, mpf

from tests.reference import definitions  # noqa: F401  (sets the working precision)

MARGIN = 300  # integrands below exp(-MARGIN) of their maximum are left out: 130 digits


# Gaussian noise ------------------------------------------------------------------------------------------


def _root(f: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """Where f turns from positive to negative, to about 1e-15 of the interval."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return low


def _windows(h: Callable[[mpf], mpf], slope: Callable[[mpf], mpf], steps: list[mpf]) -> list[tuple[mpf, mpf]]:
    """Intervals that cover h > max h - MARGIN; `steps` separates the stationary points of h: one or two peaks."""
    turns = [_root(slope, a, b) for a, b in pairwise(steps) if slope(a) > 0 >= slope(b)]
    level = max(h(y) for y in turns) - MARGIN
    kept = [y for y in turns if h(y) > level]
    reach = mp.sqrt(2 * MARGIN) + 1

    def edge(peak: mpf, towards: int) -> mpf:
        distance = reach
        while h(peak + towards * distance) > level:
            distance += reach
        return peak + towards * distance

    return [(edge(y, -1), edge(y, 1)) for y in kept]


def sampled_gaussian(sigma: mpf, sensitivity: mpf, rate: mpf, order: mpf) -> mpf:
    """D_order((1-rate) Q + rate P || Q), Q = N(0, sigma^2), P = N(sensitivity, sigma^2); rate 1: the Gaussian itself.

    The integral E_{y ~ N(0,1)}[w(y)^order] (Mironov, Talwar & Zhang 2019, Thm 4, 5) by the trapezoidal rule. On the
    line Im y = eta < pi sigma/sensitivity the integrand is at most e^(eta^2/2) times its real value, so step h
    errs by at most a factor about 2 exp(eta^2/2 - 2 pi eta/h) (Trefethen & Weideman 2014, Thm 5.1).
    """
    c = sensitivity / sigma

    def w(y: mpf) -> mpf:
        return 1 - rate + rate * mp.exp(c * y - c * c / 2)

    def h(y: mpf) -> mpf:
        return order * mp.log(w(y)) - y * y / 2

    def slope(y: mpf) -> mpf:
        return order * c * (1 - (1 - rate) / w(y)) - y

    with mp.workdps(15):
        turn = (c * c / 2 + mp.log((1 - rate) / rate)) / c if rate < 1 else mpf(0)  # both parts of w are equal
        windows = _windows(
            h,
            slope,
            sorted(
                mp.linspace(-1, order * c + 1, 500)
                + mp.linspace(-1, turn + 20 / c, 500)
                + mp.linspace(turn - 20 / c, turn + 20 / c, 500)
            ),
        )
    eta = min(3 / c, mpf(20))
    step = 2 * mp.pi * eta / (MARGIN + eta * eta / 2)
    indices = sorted({k for a, b in windows for k in range(int(a / step), int(b / step) + 1)})
    values = [w(k * step) for k in indices]
    heights = [order * mp.log(x) - (k * step) ** 2 / 2 for x, k in zip(values, indices, strict=True)]
    weight = step / mp.sqrt(2 * mp.pi)
    if order == 1:
        return weight * mp.fsum(mp.exp(u) * mp.log(x) for u, x in zip(heights, values, strict=True))
    top = max(heights)
    return (top + mp.log(weight * mp.fsum(mp.exp(u - top) for u in heights))) / (order - 1)


def sampled_gaussian_profile(sigma: mpf, sensitivity: mpf, rate: mpf, epsilon: mpf) -> tuple[mpf, mpf]:
    """(remove, add) of the same pair. The likelihood ratio increases, so the optimal sets are half-lines."""
    c = sensitivity / sigma

    def advantage(e: mpf, sign: int) -> mpf:
        """sup over S of sign * (mixture(S) - e^e Q(S)), S = {sign * ratio > sign * e^e} = {sign * y > sign * cut}."""
        shifted = (mp.exp(e) - (1 - rate)) / rate
        if shifted <= 0:  # the ratio exceeds e^e everywhere
            return 1 - mp.exp(e) if sign > 0 else mpf(0)
        cut = mp.log(shifted) / c + c / 2
        tail_q, tail_p = (mp.erfc(sign * x / mp.sqrt(2)) / 2 for x in (cut, cut - c))
        return sign * ((1 - rate - mp.exp(e)) * tail_q + rate * tail_p)

    with mp.workdps(mp.dps + 40):
        return advantage(epsilon, 1), mp.exp(epsilon) * advantage(-epsilon, -1)


# Laplace noise -------------------------------------------------------------------------------------------


def sampled_laplace(scale: mpf, sensitivity: mpf, rate: mpf, order: mpf) -> mpf:
    """Larger of D_order(M || Q) and D_order(Q || M), M = (1-rate) Q + rate P, P and Q Laplace; by quadrature.

    In units of the scale Q = Laplace(0), P = Laplace(t): the ratio is constant below 0 and above t.
    """
    t = sensitivity / scale

    def w(x: mpf) -> mpf:
        return 1 - rate + rate * mp.exp(2 * min(max(x, mpf(0)), t) - t)

    if mp.isinf(order):
        return max(mp.log(w(t)), -mp.log(w(mpf(0))))

    def expectation(power: mpf, factor: Callable[[mpf], mpf]) -> tuple[mpf, mpf]:
        """(log scale, E_Q[w^power factor(w)] / scale): exact outside [0, t], Gauss-Legendre inside."""

        def h(x: mpf) -> mpf:  # convex where power > 0, decreasing elsewhere: a piece that is low at both ends is low
            return power * mp.log(w(x)) - x

        pieces = min(int(t) + 1, 60)
        finest = max(int(mp.log(t * (1 + abs(power)), 2)), 0) + 3  # h is steepest near an end: slope below 2 |power|
        knots = {x for k in range(1, finest) for x in (t / 2**k, t - t / 2**k)}
        points = sorted(knots | {t * k / pieces for k in range(pieces + 1)})
        top = max(h(x) for x in points)
        inside = mpf(0)
        for a, b in pairwise(points):
            if max(h(a), h(b)) > top - MARGIN:
                piece, error = mp.quad(
                    lambda x: mp.exp(h(x) - top) * factor(w(x)),
                    [a, b],
                    method="gauss-legendre",
                    error=True,
                    maxdegree=9,
                )
                assert error < mp.eps ** mpf("0.8"), (a, b, error)
                inside += piece / 2
        outside = mp.exp(h(mpf(0)) - top) * factor(w(mpf(0))) / 2 + mp.exp(h(t) - top) * factor(w(t)) / 2
        return top, inside + outside

    if order == 1:
        forward, backward = expectation(mpf(1), mp.log), expectation(mpf(0), lambda x: -mp.log(x))
        return max(mp.exp(forward[0]) * forward[1], mp.exp(backward[0]) * backward[1])
    moments = [expectation(power, lambda _: mpf(1)) for power in (order, 1 - order)]
    return max(top + mp.log(value) for top, value in moments) / (order - 1)


def sampled_laplace_profile(scale: mpf, sensitivity: mpf, rate: mpf, epsilon: mpf) -> tuple[mpf, mpf]:
    """(remove, add) of M against Q. The ratio never decreases, so the optimal sets are half-lines, all or nothing."""
    t = sensitivity / scale

    def upper_tail(x: mpf) -> mpf:  # of Laplace(0, 1)
        return mp.exp(-x) / 2 if x > 0 else 1 - mp.exp(x) / 2

    def advantage(e: mpf, sign: int) -> mpf:
        """sup over half-lines S of sign * (M(S) - e^e Q(S)), where the ratio crosses e^e in [0, t], or S trivial."""
        shifted = (mp.exp(e) - (1 - rate)) / rate
        candidates = [mpf(0), sign * (1 - mp.exp(e))]
        if mp.exp(-t) < shifted < mp.exp(t):
            cut = (mp.log(shifted) + t) / 2
            tail_q, tail_p = upper_tail(sign * cut), upper_tail(sign * (cut - t))
            candidates.append(sign * ((1 - rate - mp.exp(e)) * tail_q + rate * tail_p))
        return max(candidates)

    return advantage(epsilon, 1), mp.exp(epsilon) * advantage(-epsilon, -1)


def laplace_profile(scale: mpf, sensitivity: mpf, coordinates: int, epsilon: mpf) -> mpf:
    """H_epsilon of `coordinates` Laplace coordinates that each move by `sensitivity`: E_P[(1 - e^(epsilon - L))_+].

    With t = sensitivity/scale one coordinate's loss has atoms 1/2 at t and e^-t/2 at -t, and density e^((l-t)/2)/4
    between. The r-fold convolution of the density is e^(l/2) times an Irwin-Hall polynomial; i coordinates sit at
    +t and j at -t. Integrals of polynomial times exponential are finite sums (with heavy, hence precise, cancellation).
    """
    with mp.workdps(120 + 30 * coordinates):
        t = sensitivity / scale
        total = mpf(0)
        for r in range(coordinates + 1):
            for i in range(coordinates - r + 1):
                j = coordinates - r - i
                ways = mp.factorial(coordinates) / (mp.factorial(i) * mp.factorial(j) * mp.factorial(r))
                weight = ways * mpf(2) ** (-i - j) * mp.exp(-t * j) * (mp.exp(-t / 2) / 4) ** r
                gap = epsilon - (i - j) * t  # the continuous part must exceed this
                total += weight * (_irwin_hall(r, t, gap) if r else max(1 - mp.exp(gap), mpf(0)))
        return +total


def _irwin_hall(r: int, t: mpf, gap: mpf) -> mpf:
    """Integral over l > gap of e^(l/2) (1 - e^(gap - l)) u(l), u the r-fold convolution of the indicator of (-t, t)."""

    def antiderivative(alpha: mpf, x: mpf) -> mpf:  # of x^(r-1) e^(alpha x)
        total = mpf(0)
        for k in range(r):
            total += mpf(-1) ** k * mp.ff(r - 1, k) * x ** (r - 1 - k) / alpha ** (k + 1)
        return total * mp.exp(alpha * x)

    total = mpf(0)
    for k in range(r + 1):
        knot = (2 * k - r) * t
        low, high = max(gap, knot) - knot, r * t - knot
        if low < high:
            half = mpf(1) / 2
            plain, tilted = (antiderivative(a, high) - antiderivative(a, low) for a in (half, -half))
            total += (-1) ** k * mp.binomial(r, k) * (mp.exp(knot / 2) * plain - mp.exp(gap - knot / 2) * tilted)
    return total / mp.factorial(r - 1)


# Several records of one individual in a Poisson sample ----------------------------------------------------------


def _group_ratio(sigma: mpf, rate: mpf, size: int) -> Callable[[mpf], mpf]:
    """The density with a binomial number of records over that without any, in standard deviations."""
    shares = [mp.binomial(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
    return lambda y: mp.fsum(p * mp.exp(j / sigma * (y - j / sigma / 2)) for j, p in enumerate(shares))


def sampled_group(sigma: mpf, rate: mpf, size: int, order: mpf) -> mpf:
    """The larger of both directions' Rényi divergences, integrated panel by panel."""
    ratio, far = _group_ratio(sigma, rate, size), 30 + order * size / sigma
    with mp.workdps(40):
        panels = mp.linspace(-far, far, int(2 * far) + 1)
        if order == 1:
            return max(
                mp.quad(lambda y: mp.npdf(y) * ratio(y) * mp.log(ratio(y)), panels),
                mp.quad(lambda y: -mp.npdf(y) * mp.log(ratio(y)), panels),
            )
        means = [mp.quad(lambda y, a=a: mp.npdf(y) * ratio(y) ** a, panels) for a in (order, 1 - order)]
        return mp.log(max(means)) / (order - 1)


def sampled_group_profile(sigma: mpf, rate: mpf, size: int, epsilon: mpf) -> tuple[mpf, mpf]:
    """(remove, add): tails of normal distributions beyond the place where the ratio is e^epsilon or e^-epsilon."""
    ratio = _group_ratio(sigma, rate, size)
    shares = [mp.binomial(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
    halves = []
    for target, sign in ((mp.exp(epsilon), 1), (mp.exp(-epsilon), -1)):
        if ratio(mpf(-2000)) > target:
            halves.append(mpf(0))
            continue
        low, high = mpf(-2000), mpf(2000)
        for _ in range(500):
            t = (low + high) / 2
            low, high = (t, high) if ratio(t) < target else (low, t)
        with_ = mp.fsum(p * mp.ncdf(sign * (j / sigma - t)) for j, p in enumerate(shares))
        without = mp.ncdf(-sign * t)
        halves.append(with_ - mp.exp(epsilon) * without if sign > 0 else without - mp.exp(epsilon) * with_)
    return halves[0], halves[1]
