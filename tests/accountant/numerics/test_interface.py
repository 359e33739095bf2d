"""Kernels that others call by their address."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
import pytest

from accountant.numerics.kernel import Interface, Kernel


class Point(NamedTuple):
    x: float
    y: float


change = Interface(Point(0.0, 0.0), Point(0.0, 0.0), 0.0, False)


def turned(point: Point, angle: float, back: bool) -> Point:
    sine, cosine = math.sin(-angle if back else angle), math.cos(angle)
    return Point(cosine * point.x - sine * point.y, sine * point.x + cosine * point.y)


def moved(point: Point, way: float, back: bool) -> Point:
    return Point(point.x + (-way if back else way), point.y)


def one_number(point: Point, way: float, back: bool) -> float:
    return way


@Kernel
def after_all(addresses, amounts, back):
    point = Point(1.0, 2.0)
    for i in range(addresses.size):
        point = change(addresses[i], (point, amounts[i], back))
    return point


@pytest.mark.parametrize("back", [False, True])
def test_calls_by_address_are_those_by_name(back):
    functions, amounts = (turned, moved, turned), np.array([0.3, 2.0, -1.2])
    found = after_all(np.array([change.address_of(each) for each in functions]), amounts, back)
    point = Point(1.0, 2.0)
    for function, amount in zip(functions, amounts.tolist(), strict=True):
        point = function(point, amount, back)
    assert found == point


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="numba is told not to compile")
def test_a_function_of_another_signature_is_refused():
    with pytest.raises(numba.TypingError, match="No conversion from float64 to Point"):
        change.address_of(one_number)


def test_without_compilation(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    plain = Interface(0.0, 0.0)
    numbers = [plain.address_of(function) for function in (math.sin, math.cos)]
    assert [plain(number, (0.5,)) for number in numbers] == [math.sin(0.5), math.cos(0.5)]
