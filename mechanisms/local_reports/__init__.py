"""Local randomizers: what one user reports, and unbiased counts from many reports."""

from mechanisms.local_reports.by_name import local_randomizer
from mechanisms.local_reports.collision import CollisionReports
from mechanisms.local_reports.randomized_response import RandomizedBits
from mechanisms.local_reports.randomizer import Estimate, LocalRandomizer, MalformedReport
from mechanisms.local_reports.separation import SeparationReports

__all__ = [
    "CollisionReports",
    "Estimate",
    "LocalRandomizer",
    "MalformedReport",
    "RandomizedBits",
    "SeparationReports",
    "local_randomizer",
]
