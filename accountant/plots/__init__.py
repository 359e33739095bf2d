"""Plots of prices, curves and releases, as functions of matplotlib's axes."""

from accountant.plots.attack import attack_risk
from accountant.plots.curves import (
    MADE_UP_VOTES,
    METHODS,
    Line,
    curve_against_order,
    epsilon_against_parameter,
    epsilon_against_releases,
    save,
    screening_costs,
    shares,
    spent_budgets,
    trade_off,
    worst_pair,
)

__all__ = [
    "MADE_UP_VOTES",
    "METHODS",
    "Line",
    "attack_risk",
    "curve_against_order",
    "epsilon_against_parameter",
    "epsilon_against_releases",
    "save",
    "screening_costs",
    "shares",
    "spent_budgets",
    "trade_off",
    "worst_pair",
]
