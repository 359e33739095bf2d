"""Privacy quantities evaluated from their definitions in mpmath: finite sums, published bounds, conversions.

Nothing here is shared with the library: divergences are sums over outcomes, maxima run over all pairs of
neighbours. Integrals over continuous noise stand in `integrals.py`. Conventions of every function: real
arguments are mpf, `order` may be 1 (Kullback-Leibler) or inf; `with_` is the distribution when the individual takes
part, `without` when not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from mpmath import mp, mpf

mp.dps = 100  # a curve of 1e-25 at order 1 + 1e-6 is a logarithm of 1 + 1e-31, wanted to 30 digits

ONE = mpf(1)
Law = Sequence[mpf]  # probabilities of finitely many outcomes
Pair = tuple[Law, Law]


# Finite distributions ---------------------------------------------------------------------------------------------


def renyi(first: Law, second: Law, order: mpf) -> mpf:
    """D_order(first || second), Rényi 1961 / Mironov 2017 Def. 3, with the limits of van Erven & Harremoës 2014."""
    outcomes = list(zip(first, second, strict=True))
    if order == 1:
        return mp.fsum(p * mp.log(p / q) for p, q in outcomes)
    if mp.isinf(order):
        return max(mp.log(p / q) for p, q in outcomes)
    return mp.log(mp.fsum(p * (p / q) ** (order - 1) for p, q in outcomes)) / (order - 1)


def worst_renyi(pairs: Iterable[Pair], order: mpf) -> mpf:
    """Maximum over pairs and both directions."""
    return max(max(renyi(p, q, order), renyi(q, p, order)) for p, q in pairs)


def hockey_stick(first: Law, second: Law, epsilon: mpf) -> mpf:
    """sup_S first(S) - e^epsilon second(S), attained by S = {first > e^epsilon second}; 0 when S is empty."""
    return mp.fsum(max(p - mp.exp(epsilon) * q, mpf(0)) for p, q in zip(first, second, strict=True))


def worst_profile(pairs: Iterable[Pair], epsilon: mpf) -> tuple[mpf, mpf]:
    """(remove, add) of pairs (with_, without): the maximum of each direction."""
    both = [(hockey_stick(w, wo, epsilon), hockey_stick(wo, w, epsilon)) for w, wo in pairs]
    return max(r for r, _ in both), max(a for _, a in both)


def mixture(with_: Law, without: Law, rate: mpf) -> Law:
    """Law of a Poisson sample: the individual takes part with probability `rate`."""
    return [(1 - rate) * q + rate * p for p, q in zip(with_, without, strict=True)]


def randomized_response(epsilon: mpf, bits: int) -> Pair:
    """Laws of the number of unflipped bits (Warner 1965), sufficient for `bits` differing bits."""
    keep, flip = 1 / (1 + mp.exp(-epsilon)), 1 / (1 + mp.exp(epsilon))
    distribution = [mp.binomial(bits, j) * keep**j * flip ** (bits - j) for j in range(bits + 1)]
    return distribution, distribution[::-1]


def kary_response(epsilon: mpf, categories: int) -> Pair:
    """The truth with e^epsilon times the probability of any other answer, for two different truths."""
    other = 1 / (mp.exp(epsilon) + categories - 1)
    first, second = mp.exp(epsilon) * other, other
    rest = [other] * (categories - 2)
    return [first, second, *rest], [second, first, *rest]


def approximate_dp(epsilon: mpf, told: mpf, rate: mpf = ONE) -> Pair:
    """With probability `told` the input itself, else randomized response; Poisson-sampled."""
    kept, flipped = randomized_response(epsilon, 1)
    without = [mpf(0), *((1 - told) * each for each in flipped), told]
    return mixture([told, *((1 - told) * each for each in kept), mpf(0)], without, rate), without


def bounded_range(epsilon: mpf, rate: mpf, value: Callable[[Law, Law], mpf]) -> mpf:
    """The largest of a quantity over pairs with losses t and t - epsilon, which has one peak in 0 < t < epsilon."""
    golden, low, high = (mp.sqrt(5) - 1) / 2, mpf(0), epsilon

    def at(t: mpf) -> mpf:
        share = (mp.exp(-t) - mp.exp(-epsilon)) / (1 - mp.exp(-epsilon))
        without = [share, 1 - share]
        return value(mixture([share * mp.exp(t), (1 - share) * mp.exp(t - epsilon)], without, rate), without)

    for _ in range(160):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if at(left) > at(right) else (left, high)
    return at(low)


def screening_distribution(sigma: mpf, threshold: mpf, count: int) -> Law:
    """[P(pass), P(fail)] of count + N(0, sigma^2) >= threshold (Zhu et al. 2020, section 3)."""
    distance = (threshold - count) / (sigma * mp.sqrt(2))
    return [mp.erfc(distance) / 2, mp.erfc(-distance) / 2]


def screening_pairs(sigma: mpf, threshold: mpf, lowest: int, highest: int, rate: mpf = ONE) -> Iterator[Pair]:
    """(with_, without) for every count and a count one higher or lower, all within [lowest, highest]."""
    distributions = [screening_distribution(sigma, threshold, t) for t in range(lowest, highest + 1)]
    for low, high in pairwise(distributions):
        yield mixture(high, low, rate), low
        yield mixture(low, high, rate), high


def screening_data_dependent_pairs(sigma: mpf, threshold: mpf, count: int) -> Iterator[Pair]:
    """The actual plurality count against its two neighbours."""
    actual = screening_distribution(sigma, threshold, count)
    for neighbour in (count - 1, count + 1):
        yield screening_distribution(sigma, threshold, neighbour), actual


def collision_law(epsilon: mpf, nonzeros: int, buckets: int, hit: set[int]) -> Law:
    """Output distribution of Collision when the hash sends the input to `hit` (Wang et al. 2022, Def. 5)."""
    power = mp.exp(epsilon)
    omega = nonzeros * power + buckets - nonzeros
    other = (omega - power * len(hit)) / ((buckets - len(hit)) * omega)
    return [power / omega if z in hit else other for z in range(buckets)]


def collision_pairs(epsilon: mpf, nonzeros: int, buckets: int) -> Iterator[Pair]:
    """Distributions of two inputs that hit m1 and m2 buckets, `common` of them the same, for all feasible triples."""
    for m1 in range(1, nonzeros + 1):
        for m2 in range(1, nonzeros + 1):
            for common in range(min(m1, m2) + 1):
                if m1 + m2 - common <= buckets:
                    first, second = set(range(m1)), set(range(m1 - common, m1 + m2 - common))
                    yield (
                        collision_law(epsilon, nonzeros, buckets, first),
                        collision_law(epsilon, nonzeros, buckets, second),
                    )


# Published bounds ----------------------------------------------------------------------------------------


def poisson_zcdp_generic(rho: mpf, rate: mpf, order: int) -> mpf:
    """Poisson sampling of any event with curve rho * order, integer orders (Steinke 2022, Thm 29)."""
    moment = mp.fsum(
        mp.binomial(order, j) * rate**j * (1 - rate) ** (order - j) * mp.exp((j - 1) * rho * j)
        for j in range(order + 1)
    )
    return mp.log(moment) / (order - 1)


def poisson_laplace_generic(scale: mpf, rate: mpf, order: int) -> mpf:
    """The same theorem for Laplace noise of sensitivity 1, whose curve is Mironov 2017, Prop. 6."""

    def moment(j: int) -> mpf:  # exp((j - 1) D_j)
        return (j * mp.exp((j - 1) / scale) + (j - 1) * mp.exp(-j / scale)) / (2 * j - 1) if j else mpf(1)

    total = mp.fsum(mp.binomial(order, j) * rate**j * (1 - rate) ** (order - j) * moment(j) for j in range(order + 1))
    return mp.log(total) / (order - 1)


def _blend(low: mpf, log_first: mpf, log_second: mpf, order: mpf) -> mpf:
    """1/(order-1) log((1-q) A^(order-1) + q B^(order-1)) from q, log A, log B, and its limit at order 1."""
    if order == 1:
        return (1 - low) * log_first + low * log_second
    top = max(log_first, log_second)
    rest = (1 - low) * mp.exp((order - 1) * (log_first - top)) + low * mp.exp((order - 1) * (log_second - top))
    return top + mp.log(rest) / (order - 1)


def gnmax_data_dependent(sigma: mpf, votes: Sequence[int], order: mpf) -> mpf:
    """Papernot et al. 2018, Thm 6 with q of Prop. 7 and mu1, mu2 of Prop. 10; at most order/sigma^2 (Prop. 8)."""
    independent = order / sigma**2
    winner, *others = sorted(votes, reverse=True)
    q = mp.fsum(mp.erfc((winner - n) / (2 * sigma)) / 2 for n in others)
    if q >= 1:
        return independent
    mu2 = sigma * mp.sqrt(-mp.log(q))
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / sigma**2, mu2 / sigma**2
    if not (
        order < mu1
        and mu2 > 1
        and -mp.log(q) > eps2
        and mp.log(q) <= (mu2 - 1) * eps2 - mu2 * mp.log(mu1 / (mu1 - 1) * mu2 / (mu2 - 1))
    ):
        return independent
    log_a = mp.log((1 - q) / (1 - (q * mp.exp(eps2)) ** ((mu2 - 1) / mu2)))
    log_b = eps1 - mp.log(q) / (mu1 - 1)
    return min(independent, _blend(q, log_a, log_b, order))


def lnmax_data_dependent(scale: mpf, votes: Sequence[int], order: mpf, independent: mpf) -> mpf:
    """Papernot et al. 2017, Thm 3 with q of Lemma 4 and gamma = 1/scale; at most `independent`.

    One changed teacher moves two counts, so the aggregation is 2 gamma-DP and `independent` is the curve of
    two Laplace coordinates.
    """
    winner, *others = sorted(votes, reverse=True)
    epsilon = 2 / scale
    q = mp.fsum((2 + (winner - n) / scale) / (4 * mp.exp((winner - n) / scale)) for n in others)
    if q >= 1 / (mp.exp(epsilon) + 1):
        return independent
    return min(independent, _blend(q, mp.log((1 - q) / (1 - mp.exp(epsilon) * q)), epsilon, order))


# Conversions ---------------------------------------------------------------------------------------------


def _zero(f: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """Zero of f between low and high, where f has different signs: the Illinois method."""
    f_low, f_high = f(low), f(high)
    while abs(high - low) > mpf(10) ** -85 * (abs(low) + abs(high)):
        middle = high - f_high * (high - low) / (f_high - f_low)
        value = f(middle)
        if value == 0 or middle in (low, high):
            return middle
        if (value > 0) != (f_high > 0):
            low, f_low = high, f_high
        else:
            f_low /= 2
        high, f_high = middle, value
    return high


def classic_epsilon(order: mpf, curve: mpf, delta: mpf) -> mpf:
    """Mironov 2017, Prop. 3."""
    return max(curve + mp.log(1 / delta) / (order - 1), mpf(0))


def improved_epsilon(order: mpf, curve: mpf, delta: mpf) -> mpf:
    """Canonne, Kamath & Steinke 2020, Prop. 12."""
    return max(curve + mp.log((order - 1) / order) - (mp.log(delta) + mp.log(order)) / (order - 1), mpf(0))


def least_renyi(order: mpf, epsilon: mpf, delta: mpf) -> mpf:
    """Least D_order(P || Q) when H_epsilon(P || Q) >= delta, attained by Bernoulli distributions (Asoodeh et al. 2021).

    With p = delta + x and q = x e^-epsilon the moment p^a q^(1-a) + (1-p)^a (1-q)^(1-a) is convex in x on
    (0, 1 - delta). Its derivative is negative up to x = (a-1) delta and has one zero beyond, unless that
    exceeds 1 - delta.
    """
    scale, room = mp.exp(-epsilon), 1 - order * delta
    if room <= 0:  # decreasing all the way to p = 1, q = (1 - delta) e^-epsilon
        return epsilon - mp.log(1 - delta)

    def distributions(s: mpf) -> tuple[mpf, mpf, mpf]:  # x, 1 - p, 1 - q without cancellation at either end
        x = (order - 1) * delta + room / (1 + mp.exp(-s))
        fail = room / (1 + mp.exp(s))
        return x, fail, scale * (delta + fail) - mp.expm1(-epsilon)

    def slope(s: mpf) -> mpf:  # log of the rising part of the derivative over the falling part
        x, fail, fail_other = distributions(s)
        ratio = fail / fail_other
        rising = (order - 1) * mp.log((delta + x) / (x * scale)) + mp.log(room / (1 + mp.exp(-s)) / x)
        return rising - (order - 1) * mp.log(ratio) - mp.log(order - (order - 1) * scale * ratio)

    reach = mpf(1)
    while not slope(-reach) < 0 < slope(reach):
        reach *= 2
    x, fail, fail_other = distributions(_zero(slope, -reach, reach))
    return renyi([delta + x, fail], [x * scale, fail_other], order)


def optimal_epsilon(order: mpf, curve: mpf, delta: mpf) -> mpf:
    """Smallest epsilon >= 0 at which H_epsilon > delta forces D_order > `curve` (Asoodeh et al. 2021)."""
    if least_renyi(order, mpf(0), delta) >= curve:
        return mpf(0)
    return _zero(lambda e: least_renyi(order, e, delta) - curve, mpf(0), improved_epsilon(order, curve, delta) + 1)


def gaussian_dp_epsilon(mu: mpf, delta: mpf) -> mpf:
    """epsilon at which Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu) = delta (Balle & Wang 2018, Thm 8)."""

    def excess(e: mpf) -> mpf:
        return mp.log(mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)) - mp.log(delta)

    high = mpf(1)
    while excess(high) > 0:
        high *= 2
    return _zero(excess, mpf(0), high)
