"""Randomized releases and their compositions: one event, one file.

Importing this package registers all built-in events, in the order in which lists show them.
"""

# isort: off
from accountant.events.gaussian import Gaussian, GaussianDP
from accountant.events.zero_concentrated import ZeroConcentratedDP
from accountant.events.laplace import Laplace
from accountant.events.discrete_gaussian import DiscreteGaussian
from accountant.events.discrete_laplace import DiscreteLaplace
from accountant.events.randomized_response import PureDP, RandomizedResponse
from accountant.events.approximate_dp import ApproximateDP
from accountant.events.profile_points import ProfilePoints
from accountant.events.screening import DataDependentScreening, NoisyScreening
from accountant.events.collision import Collision
from accountant.events.noisy_max import DataDependentGNMax, DataDependentLNMax, GNMax, LNMax
from accountant.events.exponential_mechanism import ExponentialMechanism, PermuteAndFlip
from accountant.events.mixture_of_gaussians import MixtureOfGaussians
from accountant.events.kary_response import KaryRandomizedResponse
from accountant.events.noisy_selection import ReportNoisyMax, SparseVector
from accountant.events.tree_aggregation import TreeAggregation
from accountant.events.clipped_sum import ClippedSum
from accountant.events.matrix_mechanism import BandedCycle, MatrixMechanism
from accountant.events.heterogeneous_poisson import HeterogeneousPoisson
from accountant.events.truncated_poisson import TruncatedPoissonGaussian
from accountant.events.shuffled import Shuffled
from accountant.events.shuffled_counts import ShuffledCounts
# isort: on

__all__ = [
    "ApproximateDP",
    "BandedCycle",
    "ClippedSum",
    "Collision",
    "DataDependentGNMax",
    "DataDependentLNMax",
    "DataDependentScreening",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "GNMax",
    "Gaussian",
    "GaussianDP",
    "HeterogeneousPoisson",
    "KaryRandomizedResponse",
    "LNMax",
    "Laplace",
    "MatrixMechanism",
    "MixtureOfGaussians",
    "NoisyScreening",
    "PermuteAndFlip",
    "ProfilePoints",
    "PureDP",
    "RandomizedResponse",
    "ReportNoisyMax",
    "Shuffled",
    "ShuffledCounts",
    "SparseVector",
    "TreeAggregation",
    "TruncatedPoissonGaussian",
    "ZeroConcentratedDP",
]
