"""What a labelling run will bring, from public points alone, before anything is spent."""

from mechanisms.forecast.affordable import affordable_queries
from mechanisms.forecast.planning import plan_labelling
from mechanisms.forecast.proposal import Forecast, Proposal

__all__ = ["Forecast", "Proposal", "affordable_queries", "plan_labelling"]
