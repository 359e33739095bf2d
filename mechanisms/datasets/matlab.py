"""Reader of the numeric arrays in MATLAB 5 files; scipy's reader can crash Python on damaged files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["matlab_arrays"]

_MATRIX, _COMPRESSED = 14, 15
_NUMERIC_CLASSES = range(6, 16)
_TYPES = {1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}


def matlab_arrays(raw: memoryview) -> dict[str, NDArray[Any]]:
    """Real numeric arrays of a MATLAB 5 file by name; other elements are skipped."""
    if bytes(raw[124:128]) != b"\x00\x01IM":
        raise ValueError("no header of a little-endian MATLAB 5 file")
    arrays = {}
    for kind, body in _elements(raw[128:]):
        if kind == _COMPRESSED:
            ((kind, body),) = _elements(memoryview(zlib.decompress(body)))
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} where an array should begin")
        (_, flags), (_, shape), (_, name), *values = _elements(body)
        if flags[0] in _NUMERIC_CLASSES and len(values) == 1 and values[0][0] in _TYPES:
            array = np.frombuffer(values[0][1], _TYPES[values[0][0]])
            arrays[bytes(name).decode("ascii")] = array.reshape(np.frombuffer(shape, "<u4").tolist(), order="F")
    return arrays


def _elements(raw: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of each element; a short element has its size in the upper half of its type."""
    start = 0
    while start < len(raw):
        kind, size = struct.unpack_from("<II", raw, start)
        begin = start + 8
        if kind >> 16:
            kind, size, begin = kind & 0xFFFF, kind >> 16, start + 4
        if begin + size > len(raw):
            raise ValueError(f"an element of {size} bytes where {len(raw) - begin} are left")
        yield kind, raw[begin : begin + size]
        start = begin + size + (0 if kind == _COMPRESSED else -(begin + size) % 8)
