"""The Rényi route: the best real order for a conversion, and the guarantee at it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from accountant.errors import NOT_RENYI, NoGuarantee, OutOfPatience, count_of
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.numerics.exact import CURVE_ROUNDING, SPARE
from accountant.numerics.kernel import FloatArray
from accountant.numerics.roots import GOLDEN, LEAST, minimise
from accountant.patience import OPERATIONS_PER_SECOND, remember, spend
from accountant.renyi.conversion import Conversion, epsilon_from_renyi, log_delta_from_renyi
from accountant.renyi.order_search import CLASSIC_DELTA, CLASSIC_EPSILON, best_orders, search_work

__all__ = [
    "CALLS",
    "LONG",
    "ORDERS",
    "POOL",
    "Prices",
    "best_orders_at",
    "nonzero_delta",
    "pool_of",
    "renyi_delta",
    "renyi_deltas",
    "renyi_deltas_at",
    "renyi_epsilon",
    "renyi_epsilons",
]

ORDERS = (1 + 1e-9, 1e12)
"""Range of orders that is searched."""

SEARCHED = 60
"""Orders of which a search asks."""

LONG = 2.5e8
"""Operations of a search up to which they are not counted: whatever the patience, there is a price to fall back on."""

POOL = 12 * LONG
"""Operations that all such searches of a calibration may take whatever the patience."""

BESIDE = 0.5
"""What those of a curve may take beside a patience, as a share of it, after LONG."""

FEW = 2
"""Epsilons that are each searched for by itself."""

FINE = 1e-7
"""How near the logarithm of a - 1 is to the best one."""

TOGETHER, CALL, VALUE = 256, 1e5, 1e3
"""Epsilons whose orders are searched for at once; operations of a call of a curve, and of a value of it at least."""

CALLS = SEARCHED * CALL
"""Operations of a search by itself that is not compiled, beside the curve's."""

MANY, AT_ONCE = 64, 8
"""Different events of which each takes longer to be asked than to answer, and orders that are then asked at once."""

_LOW, _HIGH = math.log(1e-9), math.log(1e12)
_AT_EDGE = 1 + math.exp(_LOW + 1e-6), 1 + math.exp(_HIGH - 1e-6)
_STEP = math.log(10) / 4


def pool_of(seconds: float) -> float:
    """Operations that the searches of a curve may take beside so many seconds of patience."""
    return min(LONG + BESIDE * seconds * OPERATIONS_PER_SECOND, POOL)


def renyi_epsilon(run: Composition, delta: float, conversion: Conversion) -> Guarantee:
    """Smallest epsilon over real orders, capped by the pure-DP limit.

    Both are rounded up (notebooks/mathematics.md, Rounding).

    Raises
    ------
    NoGuarantee
        delta = 0 and the pure-DP limit is infinite.
    """
    quick = _price_alone(run, delta, conversion, CLASSIC_EPSILON) if delta > 0.0 else None
    if quick is not None and quick.orders[0] < math.inf:
        return _guarantee(run, float(quick.values[0]), delta, conversion, float(quick.orders[0]))
    pure = float(quick.values[0]) if quick else run._largest_loss()
    if quick or delta == 0.0 or pure == 0.0:
        if pure == math.inf:
            raise NoGuarantee(
                "delta = 0 and this run is not pure DP: its epsilon is infinite; accepted: delta in (0, 1)"
            )
        return _guarantee(run, pure, delta, conversion, math.inf)
    order, best = _best_of_rules(run, conversion, epsilon_from_renyi, math.log(delta))
    if pure <= best and pure < math.inf:
        return _guarantee(run, pure, delta, conversion, math.inf)
    if best == math.inf:
        raise NoGuarantee(f"the Rényi curve is infinite at every order{NOT_RENYI}")
    return _guarantee(run, best, delta, conversion, order)


def renyi_delta(run: Composition, epsilon: float, conversion: Conversion) -> Guarantee:
    """Smallest delta over real orders; 0 where epsilon reaches the pure-DP limit, else at least 5e-324."""
    quick = _price_alone(run, epsilon, conversion, CLASSIC_DELTA)
    if quick is not None:
        return _guarantee(run, epsilon, float(quick.values[0]), conversion, float(quick.orders[0]))
    if run._largest_loss() <= epsilon:
        return _guarantee(run, epsilon, 0.0, conversion, math.inf)
    order, best = _best_of_rules(run, conversion, log_delta_from_renyi, epsilon)
    return _guarantee(run, epsilon, float(nonzero_delta(best)), conversion, order)


def renyi_deltas_at(run: Composition, epsilons: FloatArray, conversion: Conversion) -> Iterator[FloatArray]:
    """As `renyi_delta`, deltas alone: for some epsilons after the others, whose searches ask the curve together.

    Raises
    ------
    OutOfPatience
        What follows takes too long; what it gave before stands.
    """
    work = run._curve_work()
    took = None if conversion == "optimal" else search_work(run)
    if took is not None:
        many = max(min(TOGETHER, int(LONG / took)), 1)
        for start in range(0, epsilons.size, many):
            some = epsilons[start : start + many]
            rest = took * (epsilons.size - start - some.size)
            _spend_on_part(took * some.size, rest, f"orders of {count_of(len(run.entries), 'release')}")
            found = renyi_deltas([run] * some.size, some, conversion)
            assert found is not None
            yield found.values
        return
    if conversion == "optimal" or 2 * SEARCHED * work > LONG:
        for i, epsilon in enumerate(epsilons.tolist()):
            try:
                found_one = renyi_delta(run, epsilon, conversion)
            except OutOfPatience:
                spend(SEARCHED * work * (epsilons.size - i), _curves(work))
                raise
            yield np.array([found_one.delta])
        return
    many = min(TOGETHER, max(int(LONG / (SEARCHED * work)), 2)) if work > 0.0 else TOGETHER
    pure = run._largest_loss()
    for start in range(0, epsilons.size, many):
        some = epsilons[start : start + many]
        each = SEARCHED * max(work, VALUE * len(run.entries))
        left = epsilons.size - start - some.size
        rest = CALLS * math.ceil(left / many) + each * left
        _spend_on_part(CALLS + each * some.size, rest, _curves(work))
        try:
            logs = _best_together(run, some, conversion)
        except OutOfPatience as error:  # what a curve is read from was refused: all parts follow it
            spend(OPERATIONS_PER_SECOND * error.seconds + rest, _curves(work))
            raise
        yield np.where(some >= pure, 0.0, nonzero_delta(logs))


def _price_alone(run: Composition, given: float, conversion: Conversion, task: int) -> Prices | None:
    """The price of one run by the compiled search: where that takes time it is counted, and done, once in a price."""
    if len(run.entries) < MANY:
        return _price_one(run, given, conversion, task)
    if (took := search_work(run)) is not None:
        what = f"orders of {count_of(len(run.entries), 'release')}"
        spend(took, what, free=LONG, once=(_price_alone, run, given, conversion, task))
    return _long_price(run, given, conversion, task)


def _price_one(run: Composition, given: float, conversion: Conversion, task: int) -> Prices | None:
    price = renyi_epsilons if task == CLASSIC_EPSILON else renyi_deltas
    return price([run], np.array([given]), conversion)


_long_price = lru_cache(maxsize=16)(_price_one)


def _spend_on_part(operations: float, rest: float, what: str) -> None:
    """Count one search of many; where it is refused, the refusal says how long the others would take as well."""
    try:
        spend(operations, what, free=LONG)
    except OutOfPatience:
        spend(operations + rest, what)
        raise


def _curves(work: float) -> str:
    return f"a Rényi curve of {work:.2g} operations an order"


def best_orders_at(run: Composition, epsilons: Sequence[float]) -> Prices:
    """Deltas by the improved rule, and the orders that they were read off at, for whoever asks for the same again.

    Of more than a few epsilons they are counted, once in a price.
    """
    points = tuple(epsilons)
    if len(points) > FEW and (took := search_work(run)) is not None:
        what = f"orders of {count_of(len(run.entries), 'release')}"
        spend(took * len(points), what, once=(best_orders_at, points))
    quick = _compiled_prices(run, points)
    if quick is not None:
        return quick
    found = [renyi_delta(run, epsilon, "improved") for epsilon in points]
    return Prices(np.array([each.delta for each in found]), np.array([each.order for each in found], dtype=float))


@lru_cache(maxsize=256)
def _compiled_prices(run: Composition, epsilons: tuple[float, ...]) -> Prices | None:
    """What is asked at one tolerance is asked at others, too."""
    return renyi_deltas([run] * len(epsilons), np.array(epsilons), "improved")


def _best_together(run: Composition, epsilons: FloatArray, conversion: Conversion) -> FloatArray:
    """The least log delta over orders at each epsilon, as `_best_order` finds it: on a log grid, then by sections."""

    def at(x: FloatArray) -> FloatArray:
        b = (1 + np.exp(x)) - 1
        return log_delta_from_renyi(conversion, b, run.renyi(1 + b) * (1 + CURVE_ROUNDING), epsilons)

    grid = np.clip(np.arange(math.ceil(_LOW / _STEP), math.floor(_HIGH / _STEP) + 1) * _STEP, _LOW, _HIGH)
    grid = np.unique(np.concatenate([[_LOW], grid, [_HIGH]]))
    b = (1 + np.exp(grid)) - 1
    curve = run.renyi(1 + b) * (1 + CURVE_ROUNDING)
    logs = np.array([log_delta_from_renyi(conversion, b, curve, epsilon) for epsilon in epsilons.tolist()])
    logs = np.where(np.isnan(logs), math.inf, logs)
    best = np.min(logs, axis=1)
    middle = grid[np.argmin(logs, axis=1)]
    low, high = np.maximum(middle - _STEP, _LOW), np.minimum(middle + _STEP, _HIGH)
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    left, right = (at(x) for x in inner)
    best = np.fmin(best, np.fmin(left, right))
    while float(np.max(high - low)) > FINE:
        lower = left < right
        low, high = np.where(lower, low, inner[0]), np.where(lower, inner[1], high)
        new = np.where(lower, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        found = at(new)
        best = np.fmin(best, found)
        inner = [np.where(lower, new, inner[1]), np.where(lower, inner[0], new)]
        left, right = np.where(lower, found, right), np.where(lower, left, found)
    return np.asarray(best)


def nonzero_delta(log_delta: FloatArray | float) -> FloatArray:
    """delta = exp(log_delta) in [5e-324, 1], rounded up: one that underflows to 0 would claim pure DP."""
    delta: FloatArray = np.minimum(np.exp(np.minimum(log_delta, 0.0)) * SPARE + LEAST, 1.0)
    return delta


class Prices(NamedTuple):
    """One entry per run: epsilon or delta, the order it was read off at (inf: pure DP)."""

    values: FloatArray
    orders: FloatArray


def renyi_epsilons(runs: Sequence[Composition], deltas: FloatArray, conversion: Conversion) -> Prices | None:
    """As `renyi_epsilon` for many runs at once, deltas > 0; None if some event is not compiled."""
    return _price_compiled(runs, np.log(deltas), conversion, CLASSIC_EPSILON)


def renyi_deltas(runs: Sequence[Composition], epsilons: FloatArray, conversion: Conversion) -> Prices | None:
    """As `renyi_delta` for many runs at once; None if some event is not compiled."""
    found = _price_compiled(runs, epsilons, conversion, CLASSIC_DELTA)
    if found is None:
        return None
    pure = np.isinf(found.orders)
    return found._replace(values=np.where(pure, 0.0, nonzero_delta(np.where(pure, 0.0, found.values))))


def _price_compiled(runs: Sequence[Composition], given: FloatArray, conversion: Conversion, task: int) -> Prices | None:
    """Prices by the compiled search; where the pure-DP limit is no worse, order inf and that limit."""
    if conversion == "optimal":
        return None
    rule = task if conversion == "classic" else task + 1
    best = best_orders(runs, given, rule, _LOW, _HIGH)
    if best is None:
        return None
    values, orders = best.value, 1 + best.b
    if not best.limited:
        return Prices(values, orders)
    asked = values if task == CLASSIC_EPSILON else given
    # where it matters the limit is rounded no more than it must be
    for i in (best.limit <= asked * (1 + 4 * CURVE_ROUNDING)).nonzero()[0].tolist():
        limit = runs[i]._largest_loss()
        if limit <= asked[i]:
            values[i], orders[i] = limit, math.inf
    return Prices(values, orders)


@remember("a Rényi curve", 256)
def _best_of_rules(
    run: Composition,
    conversion: Conversion,
    convert: Callable[[Conversion, FloatArray, FloatArray, float], FloatArray],
    given: float,
) -> tuple[float, float]:
    """Best order and its value; "optimal" is at most "improved" at its own best order."""
    work = run._curve_work()
    if work > 0.0:
        spend(SEARCHED * work, _curves(work), free=LONG)
    many = len(run.entries) >= MANY and work == 0.0
    found = [_best_order(partial(_convert, run, convert, conversion, given), AT_ONCE if many else 1)]
    if conversion == "optimal":
        task = CLASSIC_EPSILON if convert is epsilon_from_renyi else CLASSIC_DELTA
        quick = _price_compiled([run], np.array([given]), "improved", task)
        if quick is None:
            found.append(_best_order(partial(_convert, run, convert, "improved", given)))
        elif quick.orders[0] < math.inf:
            found.append((float(quick.orders[0]), float(quick.values[0])))
    return min(found, key=lambda each: each[1])


def _convert(
    run: Composition,
    convert: Callable[[Conversion, FloatArray, FloatArray, float], FloatArray],
    rule: Conversion,
    given: float,
    b: FloatArray,
) -> FloatArray:
    return convert(rule, b, run.renyi(1 + b) * (1 + CURVE_ROUNDING), given)


def _guarantee(run: Composition, epsilon: float, delta: float, conversion: Conversion, order: float) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        adjacency=run.adjacency,
        method="renyi",
        conversion=conversion,
        order=order,
        order_at_edge=order <= _AT_EDGE[0] or _AT_EDGE[1] <= order < math.inf,
        data_dependent=run.data_dependent,
    )


def _best_order(objective: Callable[[FloatArray], FloatArray], at_once: int = 1) -> tuple[float, float]:
    """Order and value of the least `objective(a - 1)`, in the end at so many orders at once.

    (a-1) times a Rényi curve is convex, which makes both closed-form conversions quasi-convex in the order. The
    search goes out from order 2 on a log grid until the objective rises, then minimises inside the bracket. Every
    value seen is a valid bound, so a search that stops early is only less sharp.
    """
    seen: dict[float, float] = {}

    def at(x: FloatArray) -> FloatArray:
        # round as the order 1 + b rounds, so that b is exactly its distance from 1
        b = (1 + np.exp(x)) - 1
        values = objective(b)
        seen.update(zip(x.tolist(), values.tolist(), strict=True))
        return values

    steps = np.arange(8)
    for sign, edge in ((1, _HIGH), (-1, _LOW)):
        start = 0.0
        previous = math.inf
        while abs(start) < abs(edge):
            xs = start + sign * _STEP * steps
            xs = np.clip(xs, _LOW, _HIGH)
            values = at(np.unique(xs))
            least = float(values.min())
            if least >= previous and math.isfinite(previous):
                break
            previous = min(previous, least)
            start += sign * _STEP * len(steps)
    best = min(seen, key=lambda x: (seen[x], abs(x)))
    low, high = max(best - _STEP, _LOW), min(best + _STEP, _HIGH)
    if math.isfinite(seen[best]):
        while at_once > 1 and high - low > FINE:
            xs = np.linspace(low, high, at_once + 2)
            least = int(np.argmin(at(xs[1:-1]))) + 1
            low, high = float(xs[least - 1]), float(xs[least + 1])
        minimise(lambda x: float(at(np.array([x]))[0]), low, high, FINE)
        best = min(seen, key=lambda x: (seen[x], abs(x)))
    return 1 + math.exp(best), seen[best]
