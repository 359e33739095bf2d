"""Local randomizers: what one user reports, and unbiased counts from many reports."""

from mechanisms.local_reports.by_name import (
    CollisionReports,
    Estimate,
    LocalRandomizer,
    MalformedReport,
    RandomizedBits,
    SeparationReports,
    local_randomizer,
)

__all__ = [
    "CollisionReports",
    "Estimate",
    "LocalRandomizer",
    "MalformedReport",
    "RandomizedBits",
    "SeparationReports",
    "local_randomizer",
]
