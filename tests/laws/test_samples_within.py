"""What is refused when it is sampled is refused within any event that may be sampled."""

from dataclasses import fields, is_dataclass

import pytest

import accountant as ac
from accountant.events.subsampling import can_be_sampled
from tests.laws.table import EVENTS

REFUSALS = (ac.ParameterError, ac.SubsamplingError, ac.ProfileUnavailable, ac.DataDependentError)
ONE_TRY = ac.NegativeBinomial(1.0, 0.0)

WITHIN = {
    ac.Selection: (
        lambda event: ac.Selection(event, ONE_TRY),
        lambda event: ac.Selection(ac.PureDP(0.1, event.adjacency) + 2 * event, ac.Geometric(3.0)),
        lambda event: ac.Selection([ac.PureDP(0.1, event.adjacency), event], ac.Poisson(3.0)),
        lambda event: ac.Selection(ac.Selection(event, ONE_TRY), ONE_TRY),
        lambda event: ac.Selection(ac.Group(event, 1), ONE_TRY),
    ),
    ac.Group: (lambda event: ac.Group(event, 1), lambda event: ac.Group(event, 2)),
    ac.PoissonSubsampled: (lambda event: ac.PoissonSubsampled(event, 1.0),),
    ac.HeterogeneousPoisson: (lambda event: ac.HeterogeneousPoisson(event, (1.0,)),),
    ac.RandomAllocation: (lambda event: ac.RandomAllocation(event, 1), lambda event: ac.RandomAllocation(event, 5)),
    ac.ShuffledEpoch: (lambda event: ac.ShuffledEpoch(event, 1), lambda event: ac.ShuffledEpoch(event, 5)),
    ac.FixedSizeSampled: (lambda event: ac.FixedSizeSampled(event, 1, 1),),
    ac.SampledWithReplacement: (lambda event: ac.SampledWithReplacement(event, 1, 1),),
    ac.Shuffled: (lambda event: ac.Shuffled(event, 10),),
}
"""Every event with events within, made of one."""

POISSON = (
    lambda event: ac.PoissonSubsampled(event, 0.5),
    lambda event: ac.HeterogeneousPoisson(event, (0.5, 0.1)),
    lambda event: ac.RandomAllocation(event, 5),
)
FIXED_SIZE = (
    lambda event: ac.FixedSizeSampled(event, 2, 11),
    lambda event: ac.SampledWithReplacement(event, 2, 11),
)


def made(make, event):
    """The event, or None where it is refused."""
    try:
        return make(event)
    except REFUSALS:
        return None


def test_every_event_with_events_within_is_made_here():
    kinds = [each for each in vars(ac).values() if isinstance(each, type) and issubclass(each, ac.Event)]
    made = [kind for kind in kinds if is_dataclass(kind)]
    within = {kind for kind in made for field in fields(kind) if field.init and "Event" in str(field.type)}
    assert within == set(WITHIN)


@pytest.mark.parametrize("event", [each for each in EVENTS if not can_be_sampled(each)], ids=repr)
def test_what_is_not_sampled_alone_is_not_sampled_within(event):
    for make in (make for makes in WITHIN.values() for make in makes):
        wrapped = made(make, event)
        assert wrapped is None or not [each for sample in POISSON if (each := made(sample, wrapped)) is not None]


@pytest.mark.parametrize("event", [each for each in EVENTS if each._records not in (None, 2)], ids=repr)
def test_a_group_of_one_is_priced_for_the_records_of_its_event(event):
    assert ac.Group(event, 1)._records == event._records
    assert all(made(sample, ac.Group(event, 1)) is None for sample in FIXED_SIZE)


@pytest.mark.parametrize("take", POISSON[:2])
def test_the_best_of_what_may_be_sampled_may_be_sampled(take):
    best = ac.Selection([3 * ac.PoissonSubsampled(ac.PureDP(0.5), 0.1), ac.PureDP(0.1)], ONE_TRY)
    assert take(best).renyi(2.0) < best.renyi(2.0)


def test_the_best_of_truncated_batches_is_refused_and_says_why():
    best = ac.Selection(ac.TruncatedPoissonGaussian(2.0, 1.0, 100, 1), ONE_TRY)
    with pytest.raises(ac.SubsamplingError, match="number of records that is known; accepted: it alone"):
        ac.PoissonSubsampled(best, 0.01)
    with pytest.raises(ac.SubsamplingError, match=r"comes after sampling; accepted: ac.Group\(ac.PoissonSubsampled"):
        ac.PoissonSubsampled(ac.Selection(ac.Group(ac.Laplace(2.0), 3), ONE_TRY), 0.1)
    cycle = ac.BandedCycle(2.0, ac.square_root_strategy(4), 4, 0.05)
    with pytest.raises(ac.SubsamplingError, match="has drawn its own samples; accepted: it alone"):
        ac.PoissonSubsampled(ac.Selection(cycle, ONE_TRY), 0.1)
