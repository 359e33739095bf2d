"""Running sums by a binary tree of noisy partial sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, is_one_of, shorten
from accountant.events.answers import AdditiveNoise
from accountant.events.event import Event
from accountant.events.gaussian import Gaussian
from accountant.events.laplace import Laplace
from accountant.events.parameters import NoiseScale, Range, Scale
from accountant.events.priced import PricedAsAnother
from accountant.events.registry import register

__all__ = ["TreeAggregation"]


@register("tree-aggregation")
@dataclass(frozen=True)
class TreeAggregation(PricedAsAnother):
    """Tree aggregation (binary mechanism): all running sums of a stream, from noisy sums over dyadic intervals.

    A record arrives in one step. Of n steps, at most ``L = floor(log2 n) + 1`` complete dyadic intervals contain its
    own (Chan, Shi & Song 2011), each of which moves by `sensitivity`: an L-fold composition, of Gaussian noise with
    ``mu = sensitivity sqrt(L)/scale``, or of Laplace noise on L entries. Steps may depend on what was released before,
    as each interval is a release of its own. A stream that starts anew with a fresh tree, and in which nobody's record
    comes twice, costs what its longest tree does.

    Parameters
    ----------
    scale : float
        Standard deviation of Gaussian, or scale of Laplace, noise on every interval; [1e-50, 1e50].
    steps : int
        Steps of the longest tree; [1, 1e15].
    noise : {"gaussian", "laplace"}
    sensitivity : float
        How far the sum over one step moves between neighbouring inputs: L2 distance for Gaussian noise, one entry for
        Laplace noise; [1e-50, 1e50].
    adjacency : Adjacency

    Raises
    ------
    ParameterError
        A parameter is out of range.
    """

    scale: NoiseScale
    steps: Annotated[int, Range(1, 1e15, usual=(1, 1000))]
    noise: Literal["gaussian", "laplace"] = "gaussian"
    sensitivity: Scale = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_one_of(self.noise, ("gaussian", "laplace")):
            raise ParameterError(f"noise = {shorten(self.noise)}; accepted: 'gaussian', 'laplace'")
        self._refuse_out_of_range("sensitivity")

    @classmethod
    def examples(cls) -> tuple[TreeAggregation, ...]:
        return cls(10.0, 100), cls(20.0, 10, "laplace")

    @property
    def levels(self) -> int:
        """Most complete dyadic intervals that contain one step."""
        return self.steps.bit_length()

    @property
    def additive_noise(self) -> AdditiveNoise:
        return AdditiveNoise(self.noise, self.scale)

    def caveats(self) -> tuple[str, ...]:
        return ("nobody's record comes twice in the stream",)

    def _price(self) -> Event:
        if self.noise == "laplace":
            return Laplace(self.scale, self.sensitivity, self.levels, self.adjacency)
        return Gaussian(self.scale, self.sensitivity * self.levels**0.5, self.adjacency)
