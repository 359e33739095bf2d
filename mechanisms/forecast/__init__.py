"""What a labelling run will bring, from public points alone, before anything is spent."""

from mechanisms.forecast.affordable import affordable_queries
from mechanisms.forecast.pate import gap_votes, plan_votes
from mechanisms.forecast.planning import plan_labelling
from mechanisms.forecast.proposal import Forecast, Proposal

__all__ = ["Forecast", "Proposal", "affordable_queries", "gap_votes", "plan_labelling", "plan_votes"]
