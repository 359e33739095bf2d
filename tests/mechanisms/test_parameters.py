"""Parameters as scikit-learn has them."""

import pytest
from sklearn.base import clone

import accountant as ac
import mechanisms as mx
from mechanisms.students.network import NetworkStudent

ESTIMATORS = [
    mx.PrivateKNN(n_neighbors=7, rng=3),
    mx.GNMax(n_teachers=5, sigma=2.0),
    mx.LNMax(n_teachers=5, scale=2.0),
    mx.LinearNoisySGD(steps=9),
    NetworkStudent(hidden=3),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_clones_have_the_same_parameters(model):
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert repr(twin) == repr(model)


def test_parameters_are_stored_as_given_and_change_by_name():
    model = mx.PrivateKNN(n_neighbors=7, vote_sigma=2, rng=3)
    assert model.get_params()["vote_sigma"] == 2
    assert repr(model) == "PrivateKNN(n_neighbors=7, vote_sigma=2)"
    assert model.set_params(vote_sigma=3.0, clip=1.0) is model
    assert model.vote_sigma == 3.0
    with pytest.raises(ac.ParameterError, match="no parameter 'sigma'; accepted: n_neighbors, sampling_rate"):
        model.set_params(sigma=1.0)
