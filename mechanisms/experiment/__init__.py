"""Experiments from data to labels, each with a guarantee that is fixed before it begins."""

from mechanisms.experiment.labelling import Experiment, Setting
from mechanisms.experiment.outcome import Diagnostics, Outcome
from mechanisms.experiment.prediction import Prediction, PredictionSetting, Serving, predict
from mechanisms.experiment.reverse import ReverseExperiment, ReverseSetting

__all__ = [
    "Diagnostics",
    "Experiment",
    "Outcome",
    "Prediction",
    "PredictionSetting",
    "ReverseExperiment",
    "ReverseSetting",
    "Serving",
    "Setting",
    "predict",
]
