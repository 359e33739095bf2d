"""scikit-learn's contract for parameters: stored as they were given, listed, changed and shown by name."""

from __future__ import annotations

import inspect
from typing import Any, Self

import accountant as ac

__all__ = ["Parameters"]


class Parameters:
    """Estimators whose parameters are those of their constructor; `sklearn.base.clone` works on them."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` is there for scikit-learn, none of them holds parameters of its own."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; they take effect with the next `fit`.

        Raises
        ------
        accountant.ParameterError
            There is no such parameter.
        """
        for name, value in parameters.items():
            if name not in self._names():
                raise ac.ParameterError(f"no parameter {name!r}; accepted: {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """What differs from the defaults; not the source of randomness."""
        defaults = inspect.signature(type(self).__init__).parameters
        given = {name: value for name, value in self.get_params().items() if name != "rng"}
        changed = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name].default]
        return f"{type(self).__name__}({', '.join(changed)})"
