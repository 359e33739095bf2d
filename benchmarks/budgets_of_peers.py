"""Claim: in place of a peer's own accountant no random run costs more, none less than the truth, in about its time.

Random runs in each peer's own objects, priced by the peer and by `accountant.interop`. The truth is computed in 30
digits where it has a closed form (sums of Gaussian noise, randomized response, one sampled release); elsewhere the
optimistic loss distribution of dp_accounting bounds it from below, where its rounding is far below delta. A run whose
price is below the truth at the peer is not compared with ours, nor is one that the peer has no finite answer to.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import mpmath
import numpy as np
from peers import NotThere, Run, autodp_renyi, composed, prv, quiet  # beside this file

import accountant as ac

SAME = 1e-5
"""Share by which two prices may differ and be called the same."""


MOST = 100
"""Releases of one kind up to which an optimistic distribution is composed, without cutting its tails."""


STEP = 1e-3
"""Distance of the losses of an optimistic distribution."""


MEMORY = 12 * 10**9
"""Bytes that this process may take: some peers ask for more on some runs, which counts as no answer."""


class Pair(NamedTuple):
    """One run: what it is to us, and how both price it."""

    run: ac.Composition
    delta: float
    ours: Callable[[], float]
    theirs: Callable[[], float]


# --- random runs in the objects of peers ----------------------------------------------------------------


def draw_delta(rng: np.random.Generator) -> float:
    return float(10.0 ** rng.uniform(-9, -3))


def draw_event(rng: np.random.Generator, kinds: tuple[str, ...]) -> Any:
    from dp_accounting import dp_event

    kind, noise = rng.choice(kinds), float(np.exp(rng.uniform(math.log(0.8), math.log(10))))
    rate = float(10.0 ** rng.uniform(-2.5, -0.3))
    return {
        "gaussian": lambda: dp_event.GaussianDpEvent(noise),
        "laplace": lambda: dp_event.LaplaceDpEvent(2 * noise),
        "discrete laplace": lambda: dp_event.DiscreteLaplaceDpEvent(1 / (2 * noise), int(rng.integers(1, 4))),
        "sampled gaussian": lambda: dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise)),
        "sampled laplace": lambda: dp_event.PoissonSampledDpEvent(rate, dp_event.LaplaceDpEvent(noise)),
        "response": lambda: dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(1 / noise)), 2),
        "concentrated": lambda: dp_event.ZCDpEvent(1 / (2 * noise**2)),
    }[str(kind)]()


def dp_accounting_pair(rng: np.random.Generator, peer: str) -> Pair:
    from dp_accounting import ComposedDpEvent, NeighboringRelation, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    from accountant.interop.dp_accounting import Accountant, from_dp_event

    renyi = peer == "dp_accounting, Rényi"
    replaces = not renyi and rng.random() < 0.2
    relation = NeighboringRelation.REPLACE_ONE if replaces else NeighboringRelation.ADD_OR_REMOVE_ONE
    kinds = ("gaussian", "laplace", "sampled gaussian", "concentrated")
    if not renyi:
        kinds = ("gaussian", "laplace", "discrete laplace", "sampled gaussian", "sampled laplace")
    if replaces:
        kinds = ("gaussian", "sampled gaussian")
    counts = [int(10.0 ** rng.uniform(0, 2.5)) for _ in range(rng.integers(1, 4))]
    event = ComposedDpEvent([SelfComposedDpEvent(draw_event(rng, kinds), count) for count in counts])
    delta = draw_delta(rng)
    theirs = RdpAccountant(neighboring_relation=relation) if renyi else PLDAccountant(relation)
    return Pair(
        from_dp_event(event, relation),
        delta,
        lambda: Accountant(relation).compose(event).get_epsilon(delta),
        lambda: float(theirs.compose(event).get_epsilon(delta)),
    )


def import_opacus() -> ModuleType:
    """The accountants of Opacus; where PyTorch is missing, without what Opacus imports of it."""
    if "opacus.accountants" in sys.modules:
        return sys.modules["opacus.accountants"]
    found = importlib.util.find_spec("opacus")
    if found is None or found.origin is None:
        raise NotThere("opacus is not installed")
    if importlib.util.find_spec("torch") is None:
        package, optimizers = ModuleType("opacus"), ModuleType("opacus.optimizers")
        package.__path__ = [str(Path(found.origin).parent)]
        optimizers.DPOptimizer = object  # type: ignore[attr-defined]
        sys.modules.update({"opacus": package, "opacus.optimizers": optimizers})
    return importlib.import_module("opacus.accountants")


def opacus_pair(rng: np.random.Generator, peer: str) -> Pair:
    accountants = import_opacus()
    from accountant.interop.opacus import Accountant

    history = [
        (float(rng.uniform(0.6, 3)), float(10.0 ** rng.uniform(-3.5, -1)), int(10.0 ** rng.uniform(1, 3)))
        for _ in range(rng.integers(1, 3))
    ]
    ours, theirs = Accountant(), accountants.create_accountant({"Opacus, Rényi": "rdp", "Opacus, PRV": "prv"}[peer])
    ours.history, theirs.history = list(history), list(history)
    delta = draw_delta(rng)
    return Pair(ours.run, delta, lambda: ours.get_epsilon(delta), lambda: float(theirs.get_epsilon(delta)))


def flower_pair(rng: np.random.Generator, peer: str) -> Pair:
    from flwr.serverapp import (
        GaussianPrivacyEvent,
        NeighboringRelation,
        PrivacyConfig,
        RdpAccountant,
        SamplingMethod,
    )

    from accountant.interop.flower import Accountant

    delta, population = draw_delta(rng), int(10.0 ** rng.uniform(2, 5))
    config = PrivacyConfig(delta, population, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.POISSON)
    ours, theirs = Accountant(config), RdpAccountant(config)
    for _ in range(rng.integers(1, 3)):
        sample = max(1, int(population * 10.0 ** rng.uniform(-2.5, -0.5)))
        event = GaussianPrivacyEvent(float(rng.uniform(0.6, 3)), sample, population)
        count = int(10.0 ** rng.uniform(0, 2.7))
        ours.compose(event, count)
        theirs.compose(event, count)
    return Pair(ours.run, delta, lambda: ours.get_epsilon(delta), lambda: float(theirs.get_epsilon(delta)))


def opendp_pair(rng: np.random.Generator, peer: str) -> Pair:
    import opendp.prelude as dp

    from accountant.interop.opendp import to_event
    from accountant.interop.peers import price_epsilon

    dp.enable_features("contrib", "honest-but-curious")
    numbers = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    make = dp.m.make_gaussian if rng.random() < 0.5 else dp.m.make_laplace
    parts = [make(*numbers, scale=float(rng.uniform(1, 20))) for _ in range(rng.integers(1, 30))]
    delta, whole = draw_delta(rng), dp.c.make_composition(parts)
    run = sum((1 * to_event(part, 1.0) for part in parts), ac.Composition())

    def theirs() -> float:
        if make is dp.m.make_laplace:
            return float(whole.map(1.0))
        return float(dp.c.make_zCDP_to_approxDP(whole).map(1.0).epsilon(delta))

    return Pair(run, delta, lambda: price_epsilon(run, delta), theirs)


def library_pair(rng: np.random.Generator, peer: str) -> Pair:
    """Of accountants that are functions, without objects of their own to take the place of."""
    from accountant.interop.peers import price_epsilon

    run: Run = []
    for _ in range(rng.integers(1, 3)):
        kind, noise = str(rng.choice(["gaussian", "laplace"])), float(rng.uniform(0.8, 4))
        sampled = kind == "gaussian" and rng.random() < 0.8
        rate = float(10.0 ** rng.uniform(-3, -1)) if sampled else 1.0
        run.append((kind, 2 * noise if rate == 1.0 else noise, rate, int(10.0 ** rng.uniform(0, 2.5 + sampled / 2))))
    delta, ours = draw_delta(rng), composed(run)
    theirs = {"autodp": autodp_renyi, "prv_accountant": prv}[peer]
    return Pair(ours, delta, lambda: price_epsilon(ours, delta), lambda: theirs(run, delta))


PEERS: dict[str, Callable[[np.random.Generator, str], Pair]] = {
    "dp_accounting, PLD": dp_accounting_pair,
    "dp_accounting, Rényi": dp_accounting_pair,
    "Opacus, Rényi": opacus_pair,
    "Opacus, PRV": opacus_pair,
    "Flower": flower_pair,
    "OpenDP": opendp_pair,
    "autodp": library_pair,
    "prv_accountant": library_pair,
}


# --- the truth ------------------------------------------------------------------------------------------


def gaussian_delta(square: Any, epsilon: Any) -> Any:
    """Of N(mu, 1) against N(0, 1) (Balle & Wang 2018, Thm 8)."""
    mu = mpmath.sqrt(square)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def exact_delta(run: ac.Composition) -> Callable[[Any], Any] | None:
    """delta(epsilon) in 30 digits, where it has a closed form, from what the events say of themselves."""
    entries = list(run)
    if len(entries) == 1 and entries[0][1] == 1 and isinstance(entries[0][0], ac.PoissonSubsampled):
        event = entries[0][0]
        if not isinstance(event.event, ac.Gaussian):
            return None
        rate, square = mpmath.mpf(event.rate), (mpmath.mpf(event.event.sensitivity) / event.event.sigma) ** 2
        return lambda epsilon: rate * gaussian_delta(square, mpmath.log1p(mpmath.expm1(epsilon) / rate))
    square = mpmath.mpf(0)
    for event, count in entries:
        if isinstance(event, ac.Gaussian):
            square += count * (mpmath.mpf(event.sensitivity) / event.sigma) ** 2
        elif isinstance(event, ac.ClippedSum) and event.adjacency is ac.Adjacency.REPLACE:
            square += count * (2 * mpmath.mpf(event.clip) / event.sigma) ** 2
        else:
            return None
    return lambda epsilon: gaussian_delta(square, epsilon)


def optimistic_epsilon(run: ac.Composition, delta: float) -> float | None:
    """A lower end by dp_accounting's optimistic distributions; None of events that it does not know as such."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole = None
    if max(count for _, count in run) > MOST:
        return None
    for event, count in run:
        base, rate = event.unsampled, event.sampling_rate
        if isinstance(base, ac.Gaussian) and base.adjacency is ac.Adjacency.ADD_REMOVE:
            one = pld.from_gaussian_mechanism(
                base.sigma,
                sensitivity=base.sensitivity,
                pessimistic_estimate=False,
                value_discretization_interval=STEP,
                sampling_prob=rate,
            )
        elif isinstance(base, ac.Laplace) and base.coordinates == 1:
            one = pld.from_laplace_mechanism(
                base.scale,
                sensitivity=base.sensitivity,
                pessimistic_estimate=False,
                value_discretization_interval=STEP,
                sampling_prob=rate,
            )
        else:
            return None
        one = one if count == 1 else one.self_compose(count, tail_mass_truncation=0)
        whole = one if whole is None else whole.compose(one, tail_mass_truncation=0)
    return None if whole is None else float(whole.get_epsilon_for_delta(delta))


def is_below_truth(pair: Pair, epsilon: float) -> bool | None:
    """Whether an epsilon is too small; None where no truth is at hand."""
    exact = exact_delta(pair.run)
    if exact is not None:
        with mpmath.workdps(30):
            return bool(exact(mpmath.mpf(epsilon) * (1 + mpmath.mpf("1e-12"))) > mpmath.mpf(pair.delta))
    least = optimistic_epsilon(pair.run, pair.delta) if pair.delta >= 1e-8 else None
    return None if least is None else epsilon < least * (1 - 1e-9)


# --- the table ------------------------------------------------------------------------------------------


def price(pair: Pair) -> tuple[list[float], list[float]]:
    """Epsilon and seconds of both; nan where the peer has no answer."""
    prices, seconds = [], []
    for each in (pair.ours, pair.theirs):
        start = time.perf_counter()
        try:
            prices.append(each())
        except Exception:
            if each is pair.ours:
                raise
            prices.append(math.nan)
        seconds.append(time.perf_counter() - start)
    return prices, seconds


def compare(peer: str, runs: int, checks: int) -> dict[str, Any]:
    """Both accountants on random runs, of which the first few are held against a truth."""
    rng = np.random.default_rng(sum(map(ord, peer)))
    ratios: list[float] = []
    times: list[list[float]] = []
    below, checked, above, two_sided = [0, 0], 0, 0, 0
    for index in range(runs):
        pair = PEERS[peer](rng, peer)
        (ours, theirs), seconds = price(pair)
        times.append(seconds)
        certified = ac.epsilon(pair.run, pair.delta, method="auto", tolerance=1e-3)
        two_sided += certified.lower is not None
        too_small = is_below_truth(pair, ours) if index < checks else None
        unsound = False
        if too_small is not None:
            checked += 1
            unsound = math.isfinite(theirs) and bool(is_below_truth(pair, theirs))
            below[0] += too_small
        unsound |= certified.lower is not None and theirs < certified.lower * (1 - 1e-9)
        below[1] += unsound
        if math.isfinite(theirs) and not unsound:
            ratios.append(ours / theirs if theirs else 1.0)
            above += ratios[-1] > 1 + SAME
    mine, its = np.median(np.array(times), axis=0)
    return {
        "runs": runs,
        "compared": len(ratios),
        "ours above theirs": above,
        "largest ours over theirs": float(np.max(ratios)),
        "median theirs over ours": float(np.median(1 / np.array(ratios))),
        "ours ms": float(1e3 * mine),
        "theirs ms": float(1e3 * its),
        "ours from both sides": two_sided,
        "held against a truth": checked,
        "ours below it": below[0],
        "theirs below it": below[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="random runs for each peer")
    parser.add_argument("--checks", type=int, default=200, help="of which so many are held against a truth")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    quiet()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    logging.disable(logging.WARNING)  # of which dp_accounting writes many
    ac.epsilon(2 * ac.PoissonSubsampled(ac.Gaussian(1.0), 0.1) + ac.Laplace(1.0), 1e-5, method="tight")  # compiles
    rows: dict[str, Any] = {}
    heads = ("runs", "compared", "above", "worst", "gain", "ms", "its ms", "two-sided", "checked", "below", "its")
    print("".join([f"{'peer':22}", *(f"{head:>10}" for head in heads)]))
    for peer in options.peers:
        try:
            row = rows[peer] = compare(peer, options.runs, options.checks)
        except (NotThere, ImportError) as error:
            print(f"{peer:22} {error}")
            continue
        print("".join([f"{peer:22}", *(f"{value:10.7g}" for value in row.values())]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"results": rows}, indent=1))


if __name__ == "__main__":
    main()
