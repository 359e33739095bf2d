"""Functions of scipy.special, which is imported when one of them is first called: it takes longer than this library."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = [
    "betainc",
    "betaincc",
    "erfcx",
    "exp1",
    "expit",
    "gammaln",
    "log_ndtr",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "ndtri_exp",
]


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = None

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module("scipy.special"), name)
        return found(*arguments, **options)

    return call


betainc = _function("betainc")
betaincc = _function("betaincc")
erfcx = _function("erfcx")
exp1 = _function("exp1")
expit = _function("expit")
gammaln = _function("gammaln")
log_ndtr = _function("log_ndtr")
logit = _function("logit")
logsumexp = _function("logsumexp")
ndtr = _function("ndtr")
ndtri = _function("ndtri")
ndtri_exp = _function("ndtri_exp")
