"""Runs that peers bound from both sides: the intervals must meet."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import accountant as ac

ROUNDING = 1e-6
"""Relative error left to the peers, whose bounds do not count their own rounding."""


def peer_bounds(parts: list[tuple[str, float, float, int]], delta: float) -> tuple[float, float]:
    """Epsilon from below and from above by dp_accounting's loss distributions, of (noise, scale, rate, count)."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    ends = []
    for pessimistic in (False, True):
        whole = None
        for noise, scale, rate, count in parts:
            make = pld.from_gaussian_mechanism if noise == "gaussian" else pld.from_laplace_mechanism
            each = make(
                scale,
                sampling_prob=rate,
                value_discretization_interval=1e-3,
                pessimistic_estimate=pessimistic,
                use_connect_dots=False,
            ).self_compose(count)
            whole = each if whole is None else whole.compose(each)
        assert whole is not None
        ends.append(float(whole.get_epsilon_for_delta(delta)))
    return ends[0], ends[1]


def prv_bounds(scale: float, rate: float, count: int, delta: float) -> tuple[float, float]:
    """The same by prv_accountant, of sampled Gaussians."""
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    mechanism = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=scale)
    peer = PRVAccountant(prvs=[mechanism], max_self_compositions=[count], eps_error=0.05, delta_error=delta / 1000)
    lower, _, upper = peer.compute_epsilon(delta, [count])
    return float(lower), float(upper)


def check_peers(dice: random.Random) -> Iterator[str]:
    """Sampled noise, of one kind or two, by both peers."""
    delta = 10 ** dice.uniform(-8, -3)
    parts = []
    for noise in dice.choice((("gaussian",), ("laplace",), ("gaussian", "laplace"))):
        rate = dice.choice((1.0, 10 ** dice.uniform(-2, 0)))
        count = dice.randint(1, 100)
        parts.append((noise, dice.uniform(1.0, 4.0) * max(1.0, rate * math.sqrt(count)), rate, count))
    kinds = {"gaussian": ac.Gaussian, "laplace": ac.Laplace}
    run = ac.Composition((ac.PoissonSubsampled(kinds[noise](s), rate), count) for noise, s, rate, count in parts)
    ours = ac.epsilon(run, delta, method="tight", tolerance=0.001)
    assert ours.lower is not None
    bounds = {"dp_accounting": peer_bounds(parts, delta)}
    if len(parts) == 1 and parts[0][0] == "gaussian" and parts[0][2] < 1.0:
        bounds["prv_accountant"] = prv_bounds(*parts[0][1:], delta)
    for peer, (low, high) in bounds.items():
        if ours.epsilon < low * (1 - ROUNDING) or ours.lower > high * (1 + ROUNDING):
            yield f"{run!r} at delta = {delta!r}: [{ours.lower!r}, {ours.epsilon!r}], {peer} [{low!r}, {high!r}]"
