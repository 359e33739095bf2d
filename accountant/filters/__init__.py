"""Budgets of runs whose releases are chosen on the way: for every record, for all records, and none at all."""

from accountant.filters.adaptive import Filter, Odometer
from accountant.filters.individual import BudgetExceeded, FilterConversion, IndividualFilter

__all__ = ["BudgetExceeded", "Filter", "FilterConversion", "IndividualFilter", "Odometer"]
