"""What every event answers: a Rényi curve, a privacy profile, and what Poisson subsampling makes of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from accountant.adjacency import Adjacency, Direction, as_adjacency
from accountant.errors import EventError, ParameterError, ProfileUnavailable, shorten
from accountant.events.curve import Profile, StandardForm, as_reals, evaluate_curve, refusal_of_profile
from accountant.events.generic_subsampling import generic_subsampled_curve
from accountant.events.parameters import check_parameters, importable_name, parameters_of, refuse_table_keys
from accountant.events.subsampling import SAMPLED_ORDER, renyi_from_profile
from accountant.numerics.exact import CURVE_ROUNDING
from accountant.numerics.kernel import FloatArray
from accountant.numerics.special import log_mixture_ratio

if TYPE_CHECKING:
    from accountant.events import answers
    from accountant.events.answers import AdditiveNoise, Choices, GivenFinite, GroupLine, Lattice, Row, Summand, Triple
    from accountant.events.composition import Composition
    from accountant.events.few_losses import BothOutcomes
    from accountant.events.screening_pairs import Screening

    Entries = list[tuple["Event", int]]

__all__ = ["BatchedEvent", "Event"]

SHORTCUTS = {
    *("_row", "_summand", "_coordinate_field", "_coordinates", "_with_coordinates", "_screening", "_sketch", "_triple"),
    *("_largest_loss", "_choices", "_lattice", "_outcomes", "_few_losses", "_sharpened", "_log_profile_from_below"),
    *("_given_finite", "_subsampled_given_finite", "_standard_form", "_group", "_line", "_surrogates", "_certain"),
}
"""Answers that hold for one curve: a subclass of an event, which may have another, starts without them."""

SAMPLED = {"_curve": "_subsampled_curve", "_curves": "_subsampled_curve", "_log_profile": "_subsampled_log_profile"}
"""What is not inherited either where a subclass of an event answers something anew."""


class Event(ABC):
    """One randomized release, described by exactly what accounting needs.

    A subclass is a frozen dataclass that answers `_curve`, and `_log_profile` if it has a privacy profile: all else
    follows. Annotations of fields state their ranges; `accountant.register_event` makes it known to plans and commands.

    All that other code wants to know is a method, with an answer that suits any event; who knows better overrides it:

    * in plans: `to_table`, `caveats` beside prices, `examples` for ``verify``; for mechanisms: `additive_noise`;
    * for prices that are quicker or tighter: `_subsampled_curve`, `_row`, `_summand`, `_screening`, `_given_finite`,
      `_coordinate_field`, `_block`, `_outcomes`, `_few_losses`, `_profile_work`, `_call_work`; for groups: `_group`,
      `_line`; for samples of many coordinates: `_lattice`, `_summed`; in reports: `_standard_form`; laws: `_ceiling`.

    What repeats the curve, `SHORTCUTS`, is inherited from abstract classes alone: a subclass may have another curve.

    Attributes
    ----------
    adjacency : Adjacency
        The neighbouring relation for which the curve holds, also as "add-remove" or "replace". Every event needs this
        field; one that suits most is ``adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE``.
    data_dependent : bool
        Whether the curve is itself a function of private data.
    family : bool
        Whether the profile is a supremum over several pairs, so that a curve integrated from it may exceed its own.
    between_bounds : bool
        Whether curve and profile are bounds from above, and the tight route knows others from below (`_surrogates`).
    plan_name : str or None
        Its name in plans, set by `register`.
    """

    adjacency: Adjacency
    data_dependent: ClassVar[bool] = False
    family: ClassVar[bool] = False
    between_bounds: ClassVar[bool] = False
    plan_name: ClassVar[str | None] = None
    _never_sampled: ClassVar[str | None] = None  # why a sample of it is not what people take it for
    _records: int | None = None  # how many there are, where the price holds for that number of records alone
    _coordinate_field: ClassVar[str | None] = None
    _profile_error: float = 2e-13  # relative error allowed to the profile
    _summed: bool = False  # whether no profile of all coordinates is computed, but `_lattice` is known
    _chords: bool = False  # whether its sampled curve is exact at whole orders, and a chord between them
    _has_surrogates: bool = True  # whether it has `_surrogates` if it is between bounds
    _largest_finite_loss: float = math.inf  # in either direction; beyond it the profile does not fall

    def __post_init__(self) -> None:
        if not hasattr(self, "adjacency"):
            wanted = "a field such as `adjacency: ac.Adjacency = ac.Adjacency.ADD_REMOVE`"
            raise ParameterError(f"{type(self).__name__} has no adjacency; accepted: {wanted}")
        given: object = self.adjacency
        if not isinstance(given, Adjacency):
            object.__setattr__(self, "adjacency", as_adjacency(given))
        check_parameters(self)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if any(issubclass(base, Event) and not base.__abstractmethods__ for base in cls.__bases__):
            anew = {SAMPLED[name] for name in SAMPLED.keys() & vars(cls).keys()}
            for name in (SHORTCUTS | anew) - vars(cls).keys():
                setattr(cls, name, vars(Event)[name])
        cls.plan_name = None

    # --- what a subclass answers -------------------------------------------------------------------
    @abstractmethod
    def _curve(self, orders: FloatArray) -> FloatArray:
        """Rényi curve at a 1-D array of orders in [1, inf]; order 1 is KL, order inf is pure DP."""

    def _log_profile(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of (remove, add) at a 1-D array of epsilons >= 0."""
        raise refusal_of_profile(type(self).__name__)

    _log_profile_from_below: Callable[[FloatArray], FloatArray] | None = None  # where errors are no share of each value

    def _profile_knots(self) -> Sequence[float]:
        return ()  # epsilons > 0 at which the profile is not smooth, other than where it ends

    def _outcomes(self) -> answers.Outcomes | None:
        return None  # the pair of direction "remove", if it has finitely many outcomes, and is no bound and no family

    def _few_losses(self, times: int, rate: float = 1.0) -> BothOutcomes | None:
        return None  # all losses of `times` releases, Poisson-sampled at a rate in (0, 1], where they are few

    def _profile_work(self) -> float:
        return 250.0  # operations of a value of the profile, both directions (see `accountant.patience`)

    def _call_work(self) -> float:
        return 0.0  # operations of a call of the profile beside its values, if they are many

    def _curve_work(self, rate: float = 1.0) -> float:  # of an order of the curve, sampled at a rate, if it takes long
        return SAMPLED_ORDER * (0.0 < rate < 1.0 and type(self)._subsampled_curve is Event._subsampled_curve)

    # --- what may be answered better than by the general rule --------------------------------------
    @classmethod
    def _gathered(cls, events: Sequence[Self]) -> Any:
        return events  # what `_curves` needs of many events, gathered once for all orders

    @classmethod
    def _curves(cls, gathered: Any, orders: FloatArray) -> FloatArray:
        """Curves of many events of this class, one row each."""
        return np.stack([event._curve(orders) for event in gathered])

    def _subsampled_curve(self, rate: float, orders: FloatArray) -> FloatArray:
        """Rényi curve under Poisson subsampling with 0 < rate < 1, at orders in [1, inf).

        The sharper of the generic bound (Steinke 2022, Thm 29) and the integral over the profile, which counts only
        where losses are bounded: how far an unbounded profile matters cannot be told from looking at it.
        """
        own, exact = self._curve(orders), np.full_like(orders, math.inf)
        if float(self._curve(np.array([math.inf]))[0]) < math.inf:
            with suppress(ProfileUnavailable):
                exact = renyi_from_profile(self, orders, rate)
        if np.isinf(exact).any():
            exact = np.minimum(exact, generic_subsampled_curve(self, rate, orders))
        return np.minimum(exact, own)

    def _subsampled_log_profile(self, rate: float, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of the profile under Poisson subsampling, for epsilons >= 0.

        With P' = (1-g) Q + g P:  H_{e'}(P'||Q) = g H_e(P||Q) where e^e' = 1 + g (e^e - 1), and
        H_{e'}(Q||P') = (1 - (1-g) e^e') H_f(Q||P) where e^-e' = 1 + g (e^-f - 1) (Balle, Barthe & Gaboardi 2018;
        proof: notebooks/mathematics.md, Poisson subsampling of a profile).
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inner = log_mixture_ratio(1 / rate, epsilons)
            remove = math.log(rate) + self._log_profile(inner)[0]
            # 1 - (1-g) e^e' = g (1 - (1-g)/g (e^e' - 1)), positive as long as a mixture can lose that much
            lost = (1 - rate) / rate * np.expm1(epsilons)
            reachable, add = lost < 1, np.full_like(epsilons, -math.inf)
            log_kept = np.log1p(-np.where(reachable, lost, 0.0))
            if reachable.any():
                outer = (epsilons - log_kept)[reachable]
                add[reachable] = math.log(rate) + log_kept[reachable] + self._log_profile(outer)[1]
        return remove, add

    @property
    def _amplified(self) -> bool:
        """Whether `_subsampled_curve` and `_subsampled_log_profile` hold for its adjacency."""
        return self.adjacency is Adjacency.ADD_REMOVE

    # --- what plans, commands and mechanisms ask ----------------------------------------------------
    @property
    def sampling_rate(self) -> float:
        """Probability with which a record takes part: 1 unless the event is Poisson-subsampled."""
        return 1.0

    @property
    def group_size(self) -> int:
        """Records of one individual that the price covers: 1 unless the event is a group."""
        return 1

    @property
    def unsampled(self) -> Event:
        """The event that a Poisson-subsampled one runs on its sample; any other event itself."""
        return self

    @property
    def additive_noise(self) -> AdditiveNoise | None:
        """The noise that is added to every released value; None where the release is made in another way."""
        return None

    @classmethod
    def examples(cls) -> tuple[Event, ...]:
        """Typical events of this class, which the laws are held against."""
        return ()

    def caveats(self) -> tuple[str, ...]:
        """What has to be true of the data for the price to hold, beside its adjacency: short clauses."""
        return ()

    def to_table(self, *, own: bool = False) -> dict[str, Any]:
        """The keys that a plan's ``[[release]]`` has for this event: its name and its parameters.
        If `own`, a class that is not registered, but can be imported, has the name MODULE:NAME.
        Raises ParameterError if its class has no name, or a parameter with the name of another key."""
        name = self.plan_name or (importable_name(type(self)) if own else None)
        if name is None:
            raise ParameterError(f"{shorten(self)} has no name in plans; accepted: events of registered classes")
        refuse_table_keys(type(self))
        values = {each.key: getattr(self, each.name) for each in parameters_of(type(self))}
        for key, value in values.items():
            if isinstance(value, Event):
                values[key] = {**value.to_table(own=own), "adjacency": value.adjacency.value}
        return {"event": name, **values}

    # --- what the routes to a price ask -------------------------------------------------------------
    def _row(self, rate: float = 1.0) -> Row | None:
        return None  # the curve, or that of a Poisson sample with 0 < rate < 1, as numbers, where a kernel computes it

    def _summand(self) -> Summand | None:
        return None  # how the losses of many such releases add up, if their sum has a known distribution

    @property
    def _coordinates(self) -> int:
        """Of how many coordinates with independent noise it consists: m of them are m composed releases of one."""
        return getattr(self, self._coordinate_field) if self._coordinate_field else 1

    def _with_coordinates(self, count: int) -> Event:
        """The same release with another number of coordinates; only where `_coordinate_field` names their field."""
        assert self._coordinate_field
        return replace(self, **{self._coordinate_field: count})  # type: ignore[type-var]  # a dataclass

    @property
    def _block(self) -> int:
        return 1  # coordinates up to which the profile is computed quickly

    def _lattice(self, added: float, sign: int) -> Lattice | None:
        """One coordinate's losses on a lattice, above (sign 1) or below (-1) by so much variance; or not needed."""
        return None

    def _screening(self) -> Screening | None:
        return None  # noise, threshold and counts of a noisy screening; None of any other event

    def _choices(self, rate: float = 1.0) -> Choices | None:
        """The pairs of a family, if they have two outcomes each, under Poisson subsampling at a rate in (0, 1]."""
        return None

    def _given_finite(self) -> GivenFinite | None:
        return None  # the release given that its loss is finite, if that has probability below 1

    def _subsampled_given_finite(self, rate: float) -> GivenFinite | None:
        return None  # the same of a Poisson sample

    def _surrogates(self, direction: Direction, step: float, log_lost: float, sign: int) -> Entries | None:
        """Events above (sign 1) or below (-1) it in one direction, where no profile is known; their composition counts.
        They are about as near as a grid at `step` is to a profile; where P has less than exp(log_lost) all may be lost.
        """
        return None

    def _certain(self, times: int = 1) -> Event:
        """An event that costs no more, if the price is a bound; of `times` releases, 0 if it is all of the run."""
        return self

    def _sketch(self) -> Event:
        return self  # or an event with about this curve, in less time: grids are chosen by it

    def _sharpened(self) -> Event | None:
        return None  # the event with a smaller curve, if it has one and an exact profile, though it is between bounds

    def _price_alone(self) -> answers.Alone | None:
        return None  # what says less than its profile at one epsilon, or delta, if it is all of a run

    def _group(self, size: int) -> Event | None:
        """An event whose price is that of `size` > 1 records of one individual; None where nothing is proven."""
        return None

    def _line(self) -> GroupLine | None:
        """Along which line several records move the release, if along one; then samples of it have a price too."""
        return None

    def _largest_loss(self) -> Fraction | float:
        """At least the curve's limit at order inf: exactly where it is rational, else rounded up."""
        return float(self.renyi(math.inf)) * (1 + CURVE_ROUNDING)

    def _ceiling(self) -> Event | None:
        return None  # an event whose curve is nowhere below, sampled at the same rate or not: a law compares the two

    def _triple(self) -> Triple | None:
        return None  # how far Gaussians are apart of which samples of a fixed size are made, and the share of records

    def _standard_form(self) -> StandardForm | None:
        """The curve in terms of a standard family, if it is one; a report's page then computes it for other noise."""
        return None

    # --- what users call ----------------------------------------------------------------------------
    def renyi(self, orders: ArrayLike) -> FloatArray:
        """Rényi curve: an upper bound on D_a between neighbouring inputs, in both directions, in nats.

        Parameters
        ----------
        orders : array_like
            Rényi orders a in [1, inf]; 1 is the KL divergence, inf the pure-DP epsilon.

        Returns
        -------
        array of the same shape as `orders`

        Raises
        ------
        ParameterError
            An order is nan or below 1.
        """
        return evaluate_curve(self, orders)

    def profile(self, epsilons: ArrayLike) -> Profile:
        """Privacy profile delta(epsilon) for every real epsilon, one array per direction.

        Parameters
        ----------
        epsilons : array_like
            Any reals, negative ones too.

        Returns
        -------
        Profile
            `.remove` and `.add`, arrays of the shape of `epsilons`.

        Raises
        ------
        ProfileUnavailable
            The event is known by a Rényi bound only.
        ParameterError
            An epsilon is nan or infinite.
        """
        points = as_reals("epsilon", epsilons, "(-inf, inf)")
        flat = points.ravel()
        if not np.isfinite(flat).all():
            raise ParameterError(f"epsilon = {flat[~np.isfinite(flat)][0]} is out of range; accepted: finite reals")
        with np.errstate(under="ignore", divide="ignore", over="ignore"):
            logs = self._log_profile(np.abs(flat))
            if not isinstance(logs, tuple | list) or len(logs) != 2:
                raise EventError(f"the profile of {self!r} is no pair; accepted: two arrays, (remove, add)")
            remove, add = np.exp(logs[0]), np.exp(logs[1])
            # H_{-e}(P||Q) = 1 - e^-e + e^-e H_e(Q||P): a sum of non-negative terms
            floor, scale = -np.expm1(-np.abs(flat)), np.exp(-np.abs(flat))
        negative = flat < 0
        first, second = (
            np.minimum(np.where(negative, floor + scale * reverse, forward), 1.0).reshape(points.shape)
            for forward, reverse in ((remove, add), (add, remove))
        )
        if self.adjacency is Adjacency.REPLACE:
            first = second = np.maximum(first, second)
        return Profile(remove=first, add=second)

    def __mul__(self, count: object) -> Composition:
        from accountant.events.composition import Composition

        return Composition._of(self, count)

    __rmul__ = __mul__

    def __add__(self, other: object) -> Composition:
        from accountant.events.composition import Composition

        return Composition._of(self, 1) + other if isinstance(other, Event | Composition) else NotImplemented

    def __radd__(self, other: object) -> Composition:
        return 1 * self if isinstance(other, int) and other == 0 else NotImplemented  # sum() starts from 0

    __array_ufunc__ = None  # numpy scalars on the left defer to __rmul__


class BatchedEvent(Event):
    """Events whose class evaluates the curves of many at once."""

    def _curve(self, orders: FloatArray) -> FloatArray:
        row: FloatArray = self._curves(self._gathered([self]), orders)[0]
        return row

    @classmethod
    @abstractmethod
    def _gathered(cls, events: Sequence[Self]) -> Any: ...

    @classmethod
    @abstractmethod
    def _curves(cls, gathered: Any, orders: FloatArray) -> FloatArray: ...
