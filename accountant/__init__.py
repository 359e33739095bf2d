"""Rényi-DP curves and privacy costs of randomized releases and of their composition.

Four nouns, left to right: Event -> Composition -> curve or profile -> Guarantee.
"""

from typing import TYPE_CHECKING, Any

from accountant.interruption import await_command

await_command()  # what follows takes half a second

# ruff: noqa: E402
from accountant.adjacency import Adjacency
from accountant.delta_curve import Curve, curve
from accountant.dp_sgd import PrivateTraining, dp_sgd
from accountant.errors import (
    AccountantError,
    AdjacencyMismatch,
    CalibrationError,
    DataDependentError,
    DeltaWarning,
    FilterError,
    MissingExtra,
    NoGuarantee,
    OutOfPatience,
    ParameterError,
    PlanError,
    ProfileUnavailable,
    SubsamplingError,
    ToleranceUnreachable,
    shorten,
)
from accountant.events import (
    ApproximateDP,
    BandedCycle,
    ClippedSum,
    Collision,
    DataDependentGNMax,
    DataDependentLNMax,
    DataDependentScreening,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    GNMax,
    HeterogeneousPoisson,
    KaryRandomizedResponse,
    Laplace,
    LNMax,
    MatrixMechanism,
    MixtureOfGaussians,
    NoisyScreening,
    PermuteAndFlip,
    ProfilePoints,
    PureDP,
    RandomizedResponse,
    ReportNoisyMax,
    Shuffled,
    ShuffledCounts,
    SparseVector,
    TreeAggregation,
    TruncatedPoissonGaussian,
    ZeroConcentratedDP,
)
from accountant.events.answers import AdditiveNoise
from accountant.events.composition import Composition
from accountant.events.curve import Profile
from accountant.events.event import Event
from accountant.events.fixed_size import FixedSizeSampled
from accountant.events.group import Group
from accountant.events.matrix_strategies import buffered_strategy, square_root_strategy, tree_strategy
from accountant.events.parameters import Range
from accountant.events.registry import register as register_event
from accountant.events.subsampled import PoissonSubsampled
from accountant.events.tries import Geometric, NegativeBinomial, Poisson
from accountant.events.with_replacement import SampledWithReplacement
from accountant.filters import BudgetExceeded, Filter, FilterConversion, IndividualFilter, Odometer
from accountant.guarantee import Guarantee, format_up
from accountant.numerics.exact import root_up
from accountant.price import delta, epsilon
from accountant.rates import epsilons_by_group
from accountant.renyi.conversion import Conversion
from accountant.risk import (
    Risk,
    RiskInterval,
    advantage,
    assess,
    bayes_risk,
    gaussian_dp,
    posterior,
    precision,
    true_positive_rate,
)
from accountant.samplers import SamplerCheck, SamplerTest, check_sampler
from accountant.samplers.random_allocation import RandomAllocation
from accountant.samplers.shuffled_epoch import ShuffledEpoch
from accountant.selection import Selection
from accountant.shuffling import local_epsilon_for, shuffled_delta, shuffled_epsilon
from accountant.sweep import sweep
from accountant.targets import calibrate

if TYPE_CHECKING:
    from accountant import database, files, plots, terminal, testing
    from accountant.numerics.cache import compile_function
    from accountant.plan import Plan, composition_from_tables, composition_to_tables, load_plan

__version__ = "0.1.0"

__all__ = [
    "AccountantError",
    "AdditiveNoise",
    "Adjacency",
    "AdjacencyMismatch",
    "ApproximateDP",
    "BandedCycle",
    "BudgetExceeded",
    "CalibrationError",
    "ClippedSum",
    "Collision",
    "Composition",
    "Conversion",
    "Curve",
    "DataDependentError",
    "DataDependentGNMax",
    "DataDependentLNMax",
    "DataDependentScreening",
    "DeltaWarning",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "ExponentialMechanism",
    "Filter",
    "FilterConversion",
    "FilterError",
    "FixedSizeSampled",
    "GNMax",
    "Gaussian",
    "GaussianDP",
    "Geometric",
    "Group",
    "Guarantee",
    "HeterogeneousPoisson",
    "IndividualFilter",
    "KaryRandomizedResponse",
    "LNMax",
    "Laplace",
    "MatrixMechanism",
    "MissingExtra",
    "MixtureOfGaussians",
    "NegativeBinomial",
    "NoGuarantee",
    "NoisyScreening",
    "Odometer",
    "OutOfPatience",
    "ParameterError",
    "PermuteAndFlip",
    "Plan",
    "PlanError",
    "Poisson",
    "PoissonSubsampled",
    "PrivateTraining",
    "Profile",
    "ProfilePoints",
    "ProfileUnavailable",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "Range",
    "ReportNoisyMax",
    "Risk",
    "RiskInterval",
    "SampledWithReplacement",
    "SamplerCheck",
    "SamplerTest",
    "Selection",
    "Shuffled",
    "ShuffledCounts",
    "ShuffledEpoch",
    "SparseVector",
    "SubsamplingError",
    "ToleranceUnreachable",
    "TreeAggregation",
    "TruncatedPoissonGaussian",
    "ZeroConcentratedDP",
    "advantage",
    "assess",
    "bayes_risk",
    "buffered_strategy",
    "calibrate",
    "check_sampler",
    "compile_function",
    "composition_from_tables",
    "composition_to_tables",
    "curve",
    "database",
    "delta",
    "dp_sgd",
    "epsilon",
    "epsilons_by_group",
    "files",
    "format_up",
    "gaussian_dp",
    "load_plan",
    "local_epsilon_for",
    "plots",
    "posterior",
    "precision",
    "register_event",
    "root_up",
    "shorten",
    "shuffled_delta",
    "shuffled_epsilon",
    "square_root_strategy",
    "sweep",
    "terminal",
    "testing",
    "tree_strategy",
    "true_positive_rate",
]


def __getattr__(name: str) -> Any:
    """Load what pricing does not need only when it is asked for."""
    from importlib import import_module

    if name in ("database", "files", "plots", "terminal", "testing"):
        return import_module(f"accountant.{name}")
    if name == "compile_function":
        return import_module("accountant.numerics.cache").compile_function
    if name in ("Plan", "composition_from_tables", "composition_to_tables", "load_plan"):
        return getattr(import_module("accountant.plan"), name)
    raise AttributeError(f"module 'accountant' has no attribute {name!r}")
