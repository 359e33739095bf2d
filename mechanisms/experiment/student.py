"""Which student an experiment trains, from its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Singles
from mechanisms.datasets import Dataset
from mechanisms.students.convolutional import ConvStudent
from mechanisms.students.network import NetworkStudent, Student

__all__ = ["StudentOptions", "choose_student", "on_images"]

STUDENTS = ("network", "conv")

ONLY_CONV = {"consistency": "consistency", "student_network": "network", "student_epochs": "epochs", "device": "device"}
"""Options of a convolutional student, and the parameters of `ConvStudent` that they are; None is its default."""


@dataclass(frozen=True, kw_only=True)
class StudentOptions:
    """Which student learns the released labels.

    Parameters
    ----------
    student : {"network", "conv"}
        `NetworkStudent`, or for images `ConvStudent`.
    consistency, student_network, student_epochs, device
        Of the student "conv": `consistency`, `network`, `epochs` and `device` of `ConvStudent`; None is its default.

    Raises
    ------
    accountant.ParameterError
        The student is unknown, or it does not have an option.
    """

    student: str = "network"
    consistency: str | None = None
    student_network: str | None = None
    student_epochs: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.student not in STUDENTS:
            raise ac.ParameterError(f"student = {self.student!r}; accepted: {', '.join(STUDENTS)}")
        for name in ONLY_CONV:
            value = getattr(self, name)
            if value is not None and self.student != "conv":
                raise ac.ParameterError(f"{name} = {value!r} with student = {self.student!r}; accepted: conv")


def choose_student(setting: StudentOptions, public: Dataset, n_classes: int, seed: int = 0) -> Callable[[], Student]:
    """What makes students that have learnt nothing; a first one is made now, before anything is paid for.

    Raises
    ------
    accountant.ParameterError
        Options and data do not go together, a pixel lies outside [0, 1], or PyTorch does not find the device.
    accountant.MissingExtra
        A package that the student needs is not installed.
    """
    if setting.student == "network":
        return partial(NetworkStudent, seed=seed) if seed else NetworkStudent
    if public.images is None:
        raise ac.ParameterError(f"student = 'conv' needs images, {public.name} has none; accepted: network")
    values = {name: getattr(setting, option) for option, name in ONLY_CONV.items()}
    given: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    make = partial(ConvStudent, public.images, n_classes, rng=seed, **given)
    make().check_pixels(public.features)
    return make


def on_images(make: Callable[[], Any], images: Singles) -> Callable[[], Any]:
    """What makes students for a mechanism that passes them other features of the same points: they see the images."""
    return partial(_OnImages, make, images)


class _OnImages:
    """A student of the images of public points, in the place of their features."""

    def __init__(self, make: Callable[[], Any], images: Singles) -> None:
        self.student, self.images = make(), images

    def fit(self, X: Singles, y: Any) -> _OnImages:
        """Learn the labels of all public points; `X`, their features, is not looked at."""
        self.student.fit(self.images, y)
        return self

    def predict_proba(self, X: Singles) -> Floats:
        """Probabilities (m, c) of the labels of all public points."""
        found: Floats = np.asarray(self.student.predict_proba(self.images))
        return found
