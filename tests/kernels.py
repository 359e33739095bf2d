"""Compiles what numba compiles, so that test processes find it on disk: ``python -m tests.kernels``."""

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


if __name__ == "__main__":
    compile_prices()
    compile_mechanisms()
