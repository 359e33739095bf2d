"""One price by every accountant that can compute it; used by the benchmarks of time.

A run is a list of (event, noise, sampling rate, count): event "gaussian" or "laplace", noise its sigma or scale for
sensitivity 1. Every function returns epsilon at DELTA, by the accountant's default settings unless it says otherwise.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType
from typing import Any

Run = list[tuple[str, float, float, int]]
Price = Callable[[Run], float]

DELTA = 1e-5


class NotThere(Exception):
    """The accountant is not installed, or has no such event."""


# --- ours ----------------------------------------------------------------------------------------------


def composed(run: Run) -> Any:
    """The run as a composition of ours."""
    import accountant as ac

    def release(kind: str, noise: float, rate: float) -> Any:
        event = ac.Gaussian(noise) if kind == "gaussian" else ac.Laplace(noise)
        return event if rate == 1.0 else ac.PoissonSubsampled(event, rate)

    return sum((count * release(kind, noise, rate) for kind, noise, rate, count in run), ac.Composition())


def ours_renyi(run: Run) -> float:
    import accountant as ac

    return ac.epsilon(composed(run), DELTA, method="renyi").epsilon


def ours_tight(run: Run) -> float:
    """The upper end, within 0.1 %; 1 % for many distinct events."""
    import accountant as ac

    return ac.epsilon(composed(run), DELTA, method="tight", tolerance=1e-3 if len(run) < 10 else 1e-2).epsilon


# --- peers ---------------------------------------------------------------------------------------------


def dp_event(kind: str, noise: float, rate: float) -> Any:
    from dp_accounting import dp_event as events

    inner = events.GaussianDpEvent(noise) if kind == "gaussian" else events.LaplaceDpEvent(noise)
    return inner if rate == 1.0 else events.PoissonSampledDpEvent(rate, inner)


def dp_accounting_renyi(run: Run) -> float:
    from dp_accounting.rdp import RdpAccountant

    ledger = RdpAccountant()
    for kind, noise, rate, count in run:
        ledger.compose(dp_event(kind, noise, rate), count)
    return float(ledger.get_epsilon(DELTA))


def dp_accounting_pld(run: Run) -> float:
    from dp_accounting.pld import PLDAccountant

    ledger = PLDAccountant()
    for kind, noise, rate, count in run:
        ledger.compose(dp_event(kind, noise, rate), count)
    return float(ledger.get_epsilon(DELTA))


def autodp_renyi(run: Run, delta: float = DELTA) -> float:
    from autodp.mechanism_zoo import GaussianMechanism, LaplaceMechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    mechanisms = []
    for kind, noise, rate, _ in run:
        inner = GaussianMechanism(noise) if kind == "gaussian" else LaplaceMechanism(noise)
        sample = AmplificationBySampling()
        mechanisms.append(inner if rate == 1.0 else sample(inner, rate, improved_bound_flag=True))
    return float(Composition()(mechanisms, [count for *_, count in run]).get_approxDP(delta))


def opacus_analysis() -> ModuleType:
    """Opacus' Rényi analysis, loaded from its file: the package itself needs PyTorch."""
    name = "opacus_rdp"
    if name not in sys.modules:
        try:
            path = distribution("opacus").locate_file("opacus/accountants/analysis/rdp.py")
        except PackageNotFoundError:
            raise NotThere("opacus is not installed") from None
        spec = importlib.util.spec_from_file_location(name, str(path))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


OPACUS_ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
"""The default orders of Opacus' accountant."""


def opacus_renyi(run: Run) -> float:
    analysis, curve = opacus_analysis(), 0.0
    for kind, noise, rate, count in run:
        if kind != "gaussian":
            raise NotThere("Gaussian noise only")
        curve = curve + analysis.compute_rdp(q=rate, noise_multiplier=noise, steps=count, orders=OPACUS_ORDERS)
    return float(analysis.get_privacy_spent(orders=OPACUS_ORDERS, rdp=curve, delta=DELTA)[0])


def prv(run: Run, delta: float = DELTA) -> float:
    """The upper end, within 0.01."""
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import LaplaceMechanism, PoissonSubsampledGaussianMechanism

    variables, counts = [], [count for *_, count in run]
    for kind, noise, rate, _ in run:
        if kind == "gaussian":
            variables.append(PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate))
        else:
            variables.append(LaplaceMechanism(mu=1 / noise))
    found = PRVAccountant(prvs=variables, max_self_compositions=counts, eps_error=0.01, delta_error=delta / 1000)
    return float(found.compute_epsilon(delta=delta, num_self_compositions=counts)[2])


RENYI: dict[str, Price] = {
    "ours": ours_renyi,
    "Opacus": opacus_renyi,
    "dp-accounting": dp_accounting_renyi,
    "autodp": autodp_renyi,
}

TIGHT: dict[str, Price] = {"ours, tight": ours_tight, "dp-accounting, PLD": dp_accounting_pld, "prv-accountant": prv}


def quiet() -> None:
    """Ignore warnings, of which the peers print many."""
    warnings.simplefilter("ignore")
