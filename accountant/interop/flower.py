"""Flower: an accountant for its strategies, with certified prices.

from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, SamplingMethod
from accountant.interop.flower import Accountant
config = PrivacyConfig(1e-5, 1000, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.POISSON)
accountant = Accountant(config)
accountant.compose(GaussianPrivacyEvent(1.0, 10, 1000), 100)
"""

from __future__ import annotations

from typing import Any

from accountant.errors import ParameterError, integer, real, shorten
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.interop.flower_states import event_of_flower
from accountant.interop.peers import import_peer, narrow_epsilon, price_delta, price_epsilon

privacy_accounting = import_peer("flwr.supercore.privacy_accounting", "flower")

__all__ = ["BACKEND", "Accountant"]

BACKEND = "certified"
"""The name of the backend in the states of its accountants, and of the method in what they report."""


class Accountant:
    """A `flwr.serverapp.PrivacyAccountant`: the same methods, events and states as Flower's own, with certified prices.

    Clients that are sampled without replacement are priced as if all took part.

    Parameters
    ----------
    config : flwr.serverapp.PrivacyConfig
    tolerance : float, optional
        Relative width of the certified interval of epsilon, [1e-6, 1]; without it one that suits the number of rounds.
    """

    def __init__(self, config: Any, tolerance: float | None = None) -> None:
        if not isinstance(config, privacy_accounting.PrivacyConfig):
            raise ParameterError(f"config = {shorten(config)}; accepted: a flwr.serverapp.PrivacyConfig")
        self._config = config
        self.tolerance = None if tolerance is None else real("tolerance", tolerance, 1e-6, 1.0)
        self._compositions: list[tuple[Any, int]] = []
        self._run = Composition()

    @property
    def config(self) -> Any:
        """The privacy configuration."""
        return self._config

    @property
    def num_releases(self) -> int:
        """Number of composed releases."""
        return sum(count for _, count in self._compositions)

    @property
    def run(self) -> Composition:
        """What has been composed."""
        return self._run

    def compose(self, event: Any, count: int = 1) -> None:
        """Compose one or more identical releases.

        Raises
        ------
        ParameterError
            The event is for another population, or the count is not a positive integer; it is a `ValueError`.
        """
        self._run = self._with(event, count)
        self._compositions.append((event, int(count)))

    def get_epsilon(self, delta: float) -> float:
        """An upper bound on epsilon at a delta in (0, 1)."""
        return price_epsilon(self._run, _delta(delta), self.tolerance)

    def get_delta(self, epsilon: float) -> float:
        """An upper bound on delta at an epsilon >= 0."""
        return price_delta(self._run, real("epsilon", epsilon, 0.0, 1e300), self.tolerance)

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        """Epsilon at a delta, by default the configured one, as a `flwr.serverapp.PrivacySpent`."""
        point = self._config.target_delta if delta is None else _delta(delta)
        return privacy_accounting.PrivacySpent(
            epsilon=self.get_epsilon(point),
            delta=point,
            num_releases=self.num_releases,
            accounting_method=BACKEND,
        )

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """Epsilon with its certified lower end."""
        point = self._config.target_delta if delta is None else _delta(delta)
        return narrow_epsilon(self._run, point, self.tolerance)

    def would_exceed(self, event: Any, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether epsilon would be above a limit, by default the configured one, after these releases.

        Nothing is composed.
        """
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise ParameterError("max_epsilon is stated nowhere; accepted: a number, here or in PrivacyConfig")
        limit = real("max_epsilon", limit, 0.0, 1e300, open_low=True)
        return price_epsilon(self._with(event, count), self._config.target_delta, self.tolerance) > limit

    def state_dict(self) -> dict[str, object]:
        """The state, as values that JSON can hold; of the same form as that of Flower's own accountant."""
        config = self._config
        return {
            "schema_version": 1,
            "backend": BACKEND,
            "config": {
                "target_delta": config.target_delta,
                "population_size": config.population_size,
                "neighboring_relation": config.neighboring_relation.value,
                "sampling_method": config.sampling_method.value,
                "max_epsilon": config.max_epsilon,
            },
            "compositions": [
                {
                    "event": {
                        "noise_multiplier": event.noise_multiplier,
                        "sample_size": event.sample_size,
                        "population_size": event.population_size,
                    },
                    "count": count,
                }
                for event, count in self._compositions
            ],
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take over a state: of this accountant, or of Flower's own, whose compositions are the same.

        Raises
        ------
        ParameterError
            The state is of another form or has another configuration; it is a `ValueError`. Then nothing changes.
        """
        restored = Accountant(self._config, self.tolerance)
        try:
            version, stated, parts = (state[key] for key in ("schema_version", "config", "compositions"))
            if not isinstance(parts, list | tuple):
                raise TypeError(f"compositions = {shorten(parts)}")
            pairs = [(privacy_accounting.GaussianPrivacyEvent(**part["event"]), part["count"]) for part in parts]
        except (KeyError, TypeError, ValueError) as error:
            raise ParameterError(f"state is not that of an accountant ({error}); accepted: state_dict()") from None
        if version != 1:
            raise ParameterError(f"schema_version = {shorten(version)}; accepted: 1")
        if stated != self.state_dict()["config"]:
            raise ParameterError(f"config of the state is {shorten(stated)}; accepted: that of this accountant")
        for event, count in pairs:
            restored.compose(event, count)
        self._run, self._compositions = restored._run, restored._compositions

    def _with(self, event: Any, count: int) -> Composition:
        if not isinstance(event, privacy_accounting.GaussianPrivacyEvent):
            raise ParameterError(f"event = {shorten(event)}; accepted: a flwr.serverapp.GaussianPrivacyEvent")
        if event.population_size != self._config.population_size:
            raise ParameterError(
                f"population_size = {event.population_size} of the event; accepted: {self._config.population_size}, "
                "as in PrivacyConfig"
            )
        release = event_of_flower(
            self._config.sampling_method.value,
            self._config.neighboring_relation.value,
            event.noise_multiplier,
            event.sample_size,
            event.population_size,
        )
        return self._run + integer("count", count, 1, 10**30) * release


def _delta(value: float) -> float:
    return real("delta", value, 0.0, 1.0, open_low=True, open_high=True)
