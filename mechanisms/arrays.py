"""Types of arrays, one name for each element type."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Booleans", "Bytes", "Floats", "Integers", "Singles", "Words"]

Booleans: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]
Singles: TypeAlias = NDArray[np.float32]
Floats: TypeAlias = NDArray[np.float64]
