"""Context variables that have other values while a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["set_while"]


@contextmanager
def set_while(*values: tuple[ContextVar[Any], object]) -> Iterator[None]:
    """While the block runs these variables have these values."""
    tokens = [(variable, variable.set(value)) for variable, value in values]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)
