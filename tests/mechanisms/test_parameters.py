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


@pytest.mark.parametrize("wrong", [-1.0, 0.0, float("nan"), float("inf"), None])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda wrong: mx.PrivateKNN(7, vote_sigma=wrong).vote_event, "vote_sigma"),
        (lambda wrong: mx.PrivateKNN(7, vote_sigma=wrong, clip=2.0).vote_event, "vote_sigma"),
        (lambda wrong: mx.PrivateKNN(7, screening_sigma=wrong or 0.0).screening_event, "screening_sigma"),
        (lambda wrong: mx.PrivateKNN(7, sampling_rate=wrong).vote_event, "sampling_rate"),
        (lambda wrong: mx.GNMax(5, sigma=wrong).vote_event, "sigma"),
        (lambda wrong: mx.GNMax(5, screening_sigma=wrong or 0.0).screening_event, "screening_sigma"),
        (lambda wrong: mx.LNMax(5, scale=wrong).vote_event, "scale"),
        (lambda wrong: mx.LinearNoisySGD(noise_multiplier=wrong).event, "noise_multiplier"),
        (lambda wrong: mx.LinearNoisySGD(sampling_rate=wrong).event, "sampling_rate"),
        (lambda wrong: mx.IndividualKNN(0.1, 0.5, wrong, 1.0).fit([[0.0], [1.0]], [0, 1]), "count_sigma"),
        (lambda wrong: mx.IndividualKNN(0.1, 0.5, 1.0, wrong or 0.0).fit([[0.0], [1.0]], [0, 1]), "vote_sigma"),
    ],
)
def test_a_refusal_names_the_parameter_as_it_was_given(make, name, wrong):
    """The noise of votes was refused as "sigma", the parameter of the accountant's event."""
    with pytest.raises(ac.ParameterError, match=rf"^{name} = "):
        make(wrong)
