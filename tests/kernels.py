"""Compiles what numba compiles, so that test processes find it on disk: ``python -m tests.kernels [runs | rounds]``.

The two halves take about as long and may be compiled side by side.
"""

import sys

import numpy as np

import accountant as ac
import mechanisms as mx
from accountant.testing import example_events


def compile_prices() -> None:
    screening, votes = ac.NoisyScreening(85, 210, 300), ac.GNMax(20)
    for rate in (0.2, 1.0):
        run = 1000 * ac.PoissonSubsampled(screening, rate) + 100 * ac.PoissonSubsampled(votes, rate)
        for conversion in ("improved", "classic", "optimal"):
            ac.delta(run, ac.epsilon(run, 1e-5, conversion=conversion).epsilon, conversion=conversion)
        ac.epsilon(run, 1e-5, method="tight", tolerance=0.1)
    for event in [*example_events(), ac.ShuffledCounts(4.0, 30.0, 0.9), ac.Shuffled(ac.RandomizedResponse(1.0), 1000)]:
        event.renyi([2.0, 2.5])
    for spending in (ac.Filter(1.0, 1e-5), ac.Odometer()):
        spending.spend(ac.Laplace(10.0))
        spending.spend(ac.Gaussian(100.0), 10)
        spending.guarantee(1e-5)
    ac.calibrate(lambda sigma: 1000 * ac.PoissonSubsampled(ac.Gaussian(sigma), 0.01), epsilon=1.0, delta=1e-5)


def compile_mechanisms() -> None:
    records = np.random.default_rng(0).random((60, 8), np.float32)
    labels, queries = np.arange(60) % 2, records[:4]
    for kernel in ("cosine", "rbf"):
        ind = mx.IndividualKNN(budget=0.5, threshold=0.3, count_sigma=5.0, vote_sigma=0.5, kernel=kernel, rng=0)
        ind.fit(records, labels).predict(queries)
    for model in ("central", "local"):
        mx.ReverseKNN(n_queries=4, epsilon=1.0, model=model, rng=0).label(records, labels, queries)


def compile_games() -> None:
    """Screenings of several kinds, votes, and runs by Fourier inversion."""
    narrow, wide = ac.NoisyScreening(11.6, 0.64, 4, 1), ac.NoisyScreening(0.5, 1.53, 2)
    ac.epsilon(2 * ac.PoissonSubsampled(narrow, 0.058) + 2 * wide + 5 * ac.Gaussian(27), 1e-2, method="tight")
    ac.epsilon(20 * narrow + 20 * ac.NoisyScreening(5.0, 1.53, 2), 1e-2, method="tight")
    kinds = [900 * ac.NoisyScreening(4.0 + k, 1.53, 2) for k in range(5)]
    ac.epsilon(sum(kinds[1:], start=kinds[0]), 1e-2, tolerance=0.03)
    ac.epsilon(100 * ac.GNMax(20) + 100 * ac.PoissonSubsampled(ac.GNMax(20), 0.1), 1e-5, method="tight")
    gaussians = [ac.PoissonSubsampled(ac.Gaussian(1.0 + k / 100), 0.01) for k in range(40)]
    ac.epsilon(sum(gaussians[1:], start=gaussians[0]), 1e-5, method="tight")
    ac.epsilon(10 * ac.DiscreteGaussian(2.0, 1), 1e-5, method="tight")


def compile_rounds() -> None:
    """The shuffle model: races for two and three bits, enumeration, counts."""
    for local, users in (
        (ac.RandomizedResponse(1.0, 2), 12),
        (ac.RandomizedResponse(1.0, 2, length=2), 4),
        (ac.RandomizedResponse(1.0, 3), 20),
    ):
        ac.epsilon(ac.Shuffled(local, users), 1e-2)
    ac.shuffled_delta(ac.RandomizedResponse(1.0, 2), 12, 1.6)
    ac.shuffled_delta(ac.RandomizedResponse(1.0, 2, ones=1), 12, 1.6)
    ac.epsilon(2 * ac.Shuffled(ac.RandomizedResponse(1.0, 2), 12), 1e-2)
    ac.epsilon(ac.ShuffledCounts(4.0, 30.0, 0.9), 1e-5, method="tight")
    ac.epsilon(10 * ac.Shuffled(ac.RandomizedResponse(1.0), 1000), 1e-5, method="tight")


HALVES = {"runs": (compile_prices,), "rounds": (compile_rounds, compile_games, compile_mechanisms)}

if __name__ == "__main__":
    for half in sys.argv[1:] or HALVES:
        for compile_some in HALVES[half]:
            compile_some()
