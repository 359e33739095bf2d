"""One table of all events, many laws: edges and typical values of every kind, sampled and not."""

import accountant as ac
from accountant.testing import example_events

REPLACE = ac.Adjacency.REPLACE

CENTRAL = [
    ac.Gaussian(0.3),
    ac.Gaussian(1e4, 2**0.5),
    ac.Laplace(0.05),
    ac.Laplace(1e4),
    ac.Laplace(0.5, coordinates=7),
    ac.RandomizedResponse(1e-6),
    ac.RandomizedResponse(8.0, bits=5),
    ac.NoisyScreening(1e4, 180, 300),
    ac.NoisyScreening(0.5, 30, 50, min_votes=25),
    ac.NoisyScreening(2.0, -40, 30),  # tails beyond 20 standard deviations
    ac.NoisyScreening(1.0, 0.5, 1),  # a single pair of counts
    ac.GNMax(1.5),
    ac.LNMax(1.0),
    ac.PureDP(0.0),
    ac.PureDP(1e-9),
    ac.PureDP(30.0),
    ac.ZeroConcentratedDP(3.0),
    ac.GaussianDP(0.0),
    ac.GaussianDP(5.0),
    ac.DiscreteLaplace(0.05),
    ac.DiscreteLaplace(1e4, 7),
    ac.DiscreteLaplace(1.5, coordinates=9),
    ac.ApproximateDP(2.0, 0.1),
    ac.ApproximateDP(0.5, 0.0),
    ac.ExponentialMechanism(0.01),
    ac.ExponentialMechanism(9.0),
    ac.PermuteAndFlip(0.3),
    ac.MixtureOfGaussians(0.5, (0.0, 1.0, 2.0), (0.9, 0.09, 0.01)),
    ac.MixtureOfGaussians(4.0, (1.0, 3.0), (0.5, 0.5)),
]

EVENTS = [
    *example_events(),
    *CENTRAL,
    *(ac.PoissonSubsampled(event, rate) for event, rate in zip(CENTRAL, [1e-6, 0.9, 1e-3, 0.5] * 8, strict=False)),
    ac.PoissonSubsampled(ac.Gaussian(1.0), 0.01),
    ac.PoissonSubsampled(ac.Gaussian(0.6), 0.256),
    ac.PoissonSubsampled(ac.NoisyScreening(85, 210, 300), 0.25),
    ac.Collision(0.0, 1, 2),
    ac.Collision(4.0, 1, 30),
    ac.Collision(0.01, 5, 6),
    ac.Laplace(20.0, coordinates=2, adjacency=REPLACE),
    ac.RandomizedResponse(0.4, 2, REPLACE),
    ac.DiscreteLaplace(1.5, 2, 9, REPLACE),
    ac.DiscreteGaussian(0.5, 1, 40, REPLACE),
    ac.DiscreteGaussian(0.2),
    ac.DiscreteGaussian(3.0, 2, 5),
    ac.DiscreteGaussian(1e4, 3, adjacency=REPLACE),
    ac.ShuffledCounts(4.0, 30.0, 0.9),
    ac.ShuffledCounts(0.05, 0.5, 0.2),
    ac.ShuffledCounts(2.0, 0.0, 0.5),
    ac.ShuffledCounts(100.0, 8.0, 0.99, 20),
    ac.DataDependentScreening(85, 210, 0),
    ac.DataDependentGNMax(100.0, [990, 5, 5]),
    ac.DataDependentGNMax(40.0, [1, 1]),
    ac.DataDependentLNMax(20.0, [30, 29]),
]
