"""Deliberately wrong events, one for every law."""

from dataclasses import dataclass

import numpy as np

import accountant as ac


@dataclass(frozen=True)
class Wrong(ac.Event):
    """A Gaussian-like event, right in all that a subclass does not spoil."""

    adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE

    def _curve(self, orders):
        return ac.Gaussian(2.0)._curve(orders)

    def _log_profile(self, epsilons):
        return ac.Gaussian(2.0)._log_profile(epsilons)


class NotANumber(Wrong):
    def _curve(self, orders):
        return np.where(orders > 3, np.log(-np.ones_like(orders)), super()._curve(orders))  # with a warning


class OneArray(Wrong):
    def _log_profile(self, epsilons):
        return ac.Gaussian(2.0)._log_profile(epsilons)[0]


class Negative(Wrong):
    def _curve(self, orders):
        return super()._curve(orders) - 0.2 / orders


class Decreasing(Wrong):
    def _curve(self, orders):
        return super()._curve(orders) * np.where((orders > 10) & (orders < 20), 3.0, 1.0)


class Concave(Wrong):
    def _curve(self, orders):
        return np.minimum(super()._curve(orders), 0.5)  # what "cap at the pure limit" does to a Gaussian's curve


class JumpAtOne(Wrong):
    def _curve(self, orders):
        return super()._curve(orders) + np.where(orders > 1, 0.1, 0.0)


class AboveItsLimit(Wrong):
    def _curve(self, orders):
        return np.where(np.isinf(orders), 1.0, super()._curve(orders))


class BadAmplification(Wrong):
    def _subsampled_curve(self, rate, orders):
        return 3 * self._curve(orders)


class FreeWhole(ac.NoisyScreening):
    """Screening whose sampled version forgets that rate 1 is the event (rate 1 goes through the event itself)."""

    def _curve(self, orders):
        FreeWhole.calls = getattr(FreeWhole, "calls", 0) + 1
        return super()._curve(orders) * (1 + FreeWhole.calls % 2)


class CostlyScreening(ac.NoisyScreening):
    def _curve(self, orders):
        return 2 * super()._curve(orders)


class Superadditive(Wrong):
    def __mul__(self, count):
        return ac.Composition([(ac.Gaussian(2.0), count), (ac.Gaussian(1e3), 1)])

    __rmul__ = __mul__


class Mixes(Wrong):
    def __add__(self, other):
        return ac.Composition([(self, 1)])


class RisingProfile(Wrong):
    def _log_profile(self, epsilons):
        both = np.log(0.05 + 0.01 * np.sin(20 * epsilons))
        return both, both


class OneSidedProfile(ac.GaussianDP):
    """Negative epsilons answered as if the profile were symmetric in epsilon."""

    def profile(self, epsilons):
        return super().profile(np.abs(epsilons))


class OtherProfile(Wrong):
    def _log_profile(self, epsilons):
        return ac.Gaussian(2.5)._log_profile(epsilons)


class CheapCurve(ac.Laplace):
    """Only one of the two outcomes' terms, as when the last candidate is taken for the maximum."""

    @classmethod
    def _curves(cls, gathered, orders):
        return 0.9 * super()._curves(gathered, orders)


class Warns(Wrong):
    """Right, but its code warns."""

    def _curve(self, orders):
        np.log(np.zeros(1))
        return super()._curve(orders)


WRONG = {
    "one number for every order": NotANumber(),
    "two arrays for a profile": OneArray(),
    "non-negative": Negative(),
    "non-decreasing in order": Decreasing(),
    "(a-1) times the curve is convex": Concave(),
    "limit at order 1": JumpAtOne(),
    "limit at order inf": AboveItsLimit(),
    "subsampled <= unsubsampled": BadAmplification(),
    "rate 0 and rate 1": FreeWhole(85.0, 210.0, 300),
    "screening <= Gaussian": CostlyScreening(85.0, 210.0, 300),
    "additivity": Superadditive(),
    "adjacency never mixed": Mixes(),
    "profile convex and decreasing": RisingProfile(),
    "profile duality": OneSidedProfile(1.0),
    "curve recovered from the profile": OtherProfile(),
}
"""A wrong event for every law, by the law's name."""
