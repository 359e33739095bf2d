"""Options of students, which are checked before anything is paid for and without PyTorch."""

import math

import numpy as np
import pytest

import accountant as ac
from mechanisms.datasets import Dataset, digits
from mechanisms.experiment import ReverseExperiment, ReverseSetting, Setting
from mechanisms.experiment.student import StudentOptions, choose_student, on_images
from mechanisms.students.augmentation import Augmentation
from mechanisms.students.consistency import ANNEALING, annealing_threshold
from mechanisms.students.network import NetworkStudent

MAKERS = [
    StudentOptions,
    lambda **values: Setting("private-knn", 1.0, 1e-4, **values),
    lambda **values: ReverseSetting(1.0, 0.0, **values),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"student": "tree"}, "student = 'tree'; accepted: network, conv"),
        ({"consistency": "uda"}, "consistency = 'uda' with student = 'network'; accepted: conv"),
        ({"student_network": "paper"}, "student_network = 'paper' with"),
        ({"student_epochs": 3}, "student_epochs = 3 with"),
        ({"device": "cuda"}, "device = 'cuda' with"),
    ],
)
def test_options_that_do_not_go_together(make, values, message):
    with pytest.raises(ac.ParameterError, match=message):
        make(**values)


def test_options_follow_the_setting():
    setting = ReverseSetting(1.0, 0.0, student="conv", consistency="uda", device="cpu")
    assert (setting.student, setting.consistency, setting.student_epochs) == ("conv", "uda", None)
    student = choose_student(StudentOptions(), digits(), 10, seed=4)()
    assert isinstance(student, NetworkStudent)
    assert student.seed == 4


def test_data_for_convolutional_students():
    plain = Dataset("plain", np.eye(3), np.array([0, 1, 0]))
    with pytest.raises(ac.ParameterError, match="student = 'conv' needs images, plain has none; accepted: network"):
        choose_student(StudentOptions(student="conv"), plain, 2)
    sets = Dataset("sets", digits().features[:50], np.eye(5, dtype=int)[np.arange(50) % 5], (8, 8))
    with pytest.raises(ac.ParameterError, match="student = 'conv' with label sets; accepted: network"):
        ReverseExperiment(ReverseSetting(1.0, 0.0, student="conv", queries=5), sets, sets)


def test_later_rounds_ask_by_the_images():
    """Students get images in the place of the features in which neighbours are found."""
    seen = []

    class Notes:
        def fit(self, X, y):
            seen.append(("fit", X, y))
            return self

        def predict_proba(self, X):
            seen.append(("predict_proba", X))
            return np.full((len(X), 2), 0.5)

    images, features, labels = np.zeros((4, 9)), np.ones((4, 2)), np.array([0, 1, 0, 1])
    student = on_images(Notes, images)().fit(features, labels)
    assert np.array_equal(student.predict_proba(features), np.full((4, 2), 0.5))
    assert [each[0] for each in seen] == ["fit", "predict_proba"]
    assert all(each[1] is images for each in seen)
    assert seen[0][2] is labels


@pytest.mark.parametrize("schedule", ANNEALING)
def test_annealing(schedule):
    shares = np.linspace(0, 1, 51)
    limits = [annealing_threshold(schedule, float(share), 10) for share in shares]
    if schedule == "none":
        assert limits == [math.inf] * 51
        return
    assert (np.diff(limits) > 0).all()
    assert limits[0] == pytest.approx(0.1, abs=0.91 * math.exp(-5))
    assert limits[-1] == pytest.approx(1.0, abs=0.91 * math.exp(-5))
    middle = {"linear": 0.5, "log": 1 - math.exp(-2.5), "exp": math.exp(-2.5)}[schedule]
    assert annealing_threshold(schedule, 0.5, 10) == pytest.approx(0.1 + 0.9 * middle)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rotation": -1.0}, r"rotation = -1.0; accepted: \[0, 180\]"),
        ({"shift": 0.6}, r"shift = 0.6; accepted: \[0, 0.5\]"),
        ({"scale": 1.0}, r"accepted: \[0, 0.9\]"),
        ({"shear": math.nan}, "shear = nan"),
        ({"elastic": "much"}, "elastic = 'much'"),
        ({"cutout": True}, "cutout = True"),
        ({"colour": math.inf}, "colour = inf"),
        ({"flip": 1}, "flip = 1; accepted: True or False"),
    ],
)
def test_changes_of_images_are_checked(values, message):
    with pytest.raises(ac.ParameterError, match=message) as caught:
        Augmentation(**values)
    assert "\n" not in str(caught.value)
