"""Opacus: an accountant for its engine, with certified prices, and its histories as runs.

    from accountant.interop.opacus import register
    register()
    engine = PrivacyEngine(accountant="certified")

Without Opacus (or PyTorch, which Opacus imports) the accountant still prices histories; it then cannot be registered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from accountant.errors import ParameterError, real, shorten
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.interop.histories import Steps, exposes, read_history, run_of_history
from accountant.interop.peers import import_peer, narrow_epsilon, price_epsilon

try:
    from opacus.accountants import IAccountant as Base
except ImportError:
    Base = object

__all__ = ["MECHANISM", "Accountant", "register"]

MECHANISM = "certified"
"""The name under which it is registered, and which its states bear."""


class Accountant(Base):  # type: ignore[misc]  # is Any
    """An accountant of Opacus: Poisson-sampled Gaussian steps, priced tight and in both directions.

    Attributes
    ----------
    history : list of (float, float, int)
        Noise multiplier, sample rate, and number of steps that had both in a row.

    Examples
    --------
    >>> from accountant.interop.opacus import Accountant
    >>> accountant = Accountant()
    >>> accountant.history = [(1.0, 0.01, 10_000)]
    >>> round(accountant.get_epsilon(delta=1e-5), 2)
    6.19
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one optimization step."""
        ((sigma, rate, _),) = entry = read_history([(noise_multiplier, sample_rate, 1)])
        run_of_history(entry)  # refuses what has no price before it is counted
        if self.history and tuple(self.history[-1][:2]) == (sigma, rate):
            self.history[-1] = (sigma, rate, self.history[-1][2] + 1)
        else:
            self.history.append((sigma, rate, 1))

    @property
    def run(self) -> Composition:
        """What the history spends, as far as it is private."""
        return run_of_history(self._entries())

    def _entries(self) -> list[Steps]:
        """The history, which every question reads anew."""
        if isinstance(self.history, Iterator):
            raise ParameterError(
                f"history = {shorten(self.history)}: an iterator is read only once; accepted: a list of (noise "
                "multiplier, sample rate, steps)"
            )
        return read_history(self.history)

    def get_epsilon(self, delta: float, *, tolerance: float | None = None, **unused: Any) -> float:
        """An upper bound on epsilon at a delta in [0, 1]; inf where no epsilon is enough.

        Parameters
        ----------
        delta : float
        tolerance : float, optional
            Relative width of the certified interval, [1e-6, 1]; without it one that suits the number of steps.
        **unused
            Options of other accountants, such as `alphas`.
        """
        point = real("delta", delta, 0.0, 1.0)
        entries = self._entries()
        return float("inf") if exposes(entries) else price_epsilon(run_of_history(entries), point, tolerance)

    def guarantee(self, delta: float, *, tolerance: float | None = None) -> Guarantee:
        """Epsilon with its certified lower end."""
        entries = self._entries()
        if exposes(entries):
            raise ParameterError("a step without noise has no guarantee; accepted: noise multipliers above 0")
        return narrow_epsilon(run_of_history(entries), delta, tolerance)

    def __len__(self) -> int:
        """Number of optimization steps taken so far."""
        return sum(each.steps for each in self._entries())

    @classmethod
    def mechanism(cls) -> str:
        """Its name in Opacus."""
        return MECHANISM

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """A function to call after each step of a `DPOptimizer`, which counts it.

        Steps of an `AdaClipDPOptimizer` are refused: Opacus 1.6 chooses its noise as if the count of unclipped
        gradients had sensitivity 1/2 (Andrew et al. 2021, Thm 1), but counts with sensitivity 1, and divides by the
        number of records in the batch, which is not noised.
        """

        def count_step(optimizer: Any) -> None:
            if hasattr(optimizer, "unclipped_num_std"):
                raise ParameterError(
                    f"optimizer = {type(optimizer).__name__}: a clipping norm that adapts has no known price; "
                    "accepted: a constant one"
                )
            self.step(
                noise_multiplier=optimizer.noise_multiplier,
                sample_rate=sample_rate * optimizer.accumulated_iterations,
            )

        return count_step

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """History, in plain numbers, and mechanism, written into `destination` if given."""
        state: MutableMapping[str, Any] = OrderedDict() if destination is None else destination
        state["history"] = _plain(self._entries())
        state["mechanism"] = self.mechanism()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the state of an accountant of the same mechanism.

        Raises
        ------
        ParameterError
            A key is missing, the mechanism is another, or the history has no price; it is a `ValueError`.
        """
        for key in ("history", "mechanism"):
            if not isinstance(state_dict, Mapping) or key not in state_dict:
                raise ParameterError(f"state_dict has no key {key!r}; accepted: what state_dict() returns")
        if state_dict["mechanism"] != self.mechanism():
            raise ParameterError(
                f"state_dict of mechanism {shorten(state_dict['mechanism'])}; accepted: {self.mechanism()!r} "
                "(of others, set the history)"
            )
        history = read_history(state_dict["history"])
        run_of_history(history)
        self.history = _plain(history)


def _plain(history: list[Steps]) -> list[tuple[float, float, int]]:
    return [(each.sigma, each.rate, each.steps) for each in history]


def register(force: bool = False) -> None:
    """Make the accountant known to Opacus as "certified"; once is enough.

    Parameters
    ----------
    force : bool
        Whether to take the place of another accountant of that name.

    Raises
    ------
    MissingExtra
        Opacus, or PyTorch, is not installed.
    ValueError
        Another accountant has that name.
    """
    accountants = import_peer("opacus.accountants", "opacus")
    if accountants.registry._ACCOUNTANTS.get(MECHANISM) is not Accountant:
        accountants.register_accountant(MECHANISM, Accountant, force=force)
