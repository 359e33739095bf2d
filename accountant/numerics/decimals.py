"""Numbers as decimals of a few digits that are bounds as the numbers are."""

from __future__ import annotations

import math

__all__ = ["format_down", "format_exact", "format_up", "format_up_short"]


def format_up(value: float, digits: int = 6) -> str:
    """`value` to so many significant digits, rounded away from zero so that it stays an upper bound."""
    from decimal import ROUND_CEILING

    return _round(value, digits, ROUND_CEILING)


def format_down(value: float, digits: int = 6) -> str:
    """`value` to so many significant digits, rounded towards zero so that it stays a lower bound."""
    from decimal import ROUND_FLOOR

    return _round(value, digits, ROUND_FLOOR)


def format_exact(value: float) -> str:
    """`value` as it is: to six significant digits, or to as many as tell it from every other float."""
    short = f"{value:.6g}"
    return short if float(short) == value else repr(float(value))


def format_up_short(value: float) -> str:
    """With two digits, rounded up."""
    if not 0.0 < value < math.inf:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    rounded = f"{math.ceil(value / unit * (1 - 1e-9)) * unit:.2g}"
    return f"{float(rounded):g}" if value < 1e5 else rounded


def _round(value: float, digits: int, direction: str) -> str:
    from decimal import Decimal

    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(value)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    # a value that differs from a short decimal only by floating-point noise is that decimal
    short = Decimal(repr(value))
    chosen = (short if len(short.as_tuple().digits) <= digits else exact).quantize(unit, direction)
    return f"{float(chosen):.{digits}g}"
