"""Parameters as scikit-learn has them: stored as they were given, and read, changed and printed by name."""

from __future__ import annotations

import inspect
from typing import Any, Self

import accountant as ac

__all__ = ["Parameters"]


class Parameters:
    """Base of estimators whose parameters are their constructor's arguments, as `sklearn.base.clone` needs."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Store the constructor's arguments, given as its ``locals()``."""
        vars(self).update({name: arguments[name] for name in self._names()})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep`, which scikit-learn passes, has no effect, as no parameter has parameters."""
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
        """Parameters that differ from their defaults, other than `rng`."""
        defaults = inspect.signature(type(self).__init__).parameters
        given = {name: value for name, value in self.get_params().items() if name != "rng"}
        changed = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name].default]
        return f"{type(self).__name__}({', '.join(changed)})"
