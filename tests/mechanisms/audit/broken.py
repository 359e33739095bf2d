"""Mechanisms with one line broken, each with the canary that shows it and the promise that it breaks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import accountant as ac
import mechanisms as mx
from mechanisms import individual_votes, labelling, noisy_sgd
from mechanisms.audit import canaries
from mechanisms.audit.likelihood import individual_score, label_score, number_score
from mechanisms.federation import reverse_rounds
from mechanisms.federation import server as federation
from mechanisms.federation import trust_models as releases
from tests.mechanisms.audit.broken_lines import replaced, with_lines

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Case:
    """A broken line, and the audit that looks for it.

    `events` are the kinds that the promise is made of. `run(broken, seed)` gives (what was promised, the price of that
    at the audit's delta, the audit); `caught` says whether the broken one is expected to be flagged, and `why` why not.
    """

    name: str
    mechanism: str
    events: tuple[str, ...]
    run: Callable[[bool, int], tuple[Any, float, Any]]
    caught: bool = True
    why: str = ""


def price(promise: Any, delta: float) -> float:
    """The least proven epsilon of a promise."""
    return float(ac.epsilon(promise, delta, method="auto", tolerance=0.05).epsilon)


SHARE = 1
"""Audits make their number of runs divided by this."""


def audited(mechanism, neighbours, *, runs, delta, seed, **more):
    return mx.audit(
        mechanism, neighbours=neighbours, runs=runs // SHARE, delta=delta, confidence=CONFIDENCE, rng=seed, **more
    )


# --- Private-kNN ---------------------------------------------------------------------------------------


def views(canary, queries):
    return [canary.views[0]] * queries, [canary.views[1]] * queries


def score_of(parameters, canary, queries):
    """Score of labels by the promised events."""
    promised = mx.PrivateKNN(**parameters)
    return label_score(promised.vote_event, *views(canary, queries), promised.screening_event)


def knn_promise(parameters, queries):
    return mx.PrivateKNN(**{**parameters, "max_labels": queries}).planned(queries)


def knn_case(parameters, canary, queries, delta, seed, make=mx.PrivateKNN, runs=4000):
    """An audit with this many queries in each run; runs share one fitted object, whose draws are independent."""
    n_classes = canary.views[0].values.shape[1]

    def mechanism(data, rng, count):
        model = make(**parameters, n_classes=n_classes, rng=rng).fit(*data)
        return model.label(canary.queries(queries * count)).labels.reshape(count, queries)

    score = score_of(parameters, canary, queries)
    found = audited(mechanism, canary.neighbours, runs=runs, delta=delta, seed=seed, score=score, batched=True)
    promise = knn_promise(parameters, queries)
    return promise, price(promise, delta), found


def half_the_noise(broken, seed):
    parameters = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 4.0}
    canary, queries, delta = canaries.near_tie(3), 8, 0.05
    with lines(broken, (labelling, "noisy_argmax", [("noise_of(event,", "0.5 * noise_of(event,")])):
        return knn_case(parameters, canary, queries, delta, seed)


def twice_the_rate(broken, seed):
    parameters = {"n_neighbors": 1, "sampling_rate": 0.05, "screening_sigma": None, "vote_sigma": 0.2}
    canary, queries, delta = canaries.near_tie(1, rate=0.05, crowd=100), 4, 0.25
    make = with_lines(mx.PrivateKNN, "_count_votes", ("event.sampling_rate", "2 * event.sampling_rate"))
    return knn_case(parameters, canary, queries, delta, seed, make if broken else mx.PrivateKNN, runs=3000)


SAME_SAMPLE = (
    "sample = sampler.draw(len(products), event.sampling_rate, number, self._column(event))",
    "sample = sampler.draw(len(products), event.sampling_rate, number, 0)",
)


def one_sample_for_both(broken, seed):
    """Passes are rare and the answer has little noise: the record that made a query pass also votes."""
    parameters = {
        "n_neighbors": 1,
        "sampling_rate": 0.02,
        "screening_sigma": 0.4,
        "threshold": 1.2,
        "vote_sigma": 0.3,
        "max_labels": 1,
    }
    canary, queries, delta = canaries.near_tie(1, rate=0.02, n_classes=20), 49, 0.1
    make = with_lines(mx.PrivateKNN, "_count_votes", SAME_SAMPLE) if broken else mx.PrivateKNN

    def mechanism(data, rng):
        model = make(**parameters, n_classes=20, rng=rng).fit(*data)
        return int(model.label(canary.queries(queries)).labels.max())

    found = audited(mechanism, canary.neighbours, runs=3000, delta=delta, seed=seed)
    promise = mx.PrivateKNN(**parameters).planned(queries)
    return promise, price(promise, delta), found


def uncharged_votes(broken, seed):
    parameters = {
        "n_neighbors": 3,
        "sampling_rate": 1.0,
        "screening_sigma": 60.0,
        "threshold": -1000.0,
        "vote_sigma": 4.0,
    }
    canary, queries, delta = canaries.near_tie(3), 8, 0.05
    line = ("part.charge(i, release)", "part.charge(i, release) and release == 'screening'")
    make = with_lines(mx.PrivateKNN, "_charge_and_ask", line) if broken else mx.PrivateKNN
    _, _, found = knn_case(parameters, canary, queries, delta, seed, make, runs=3000)
    # all queries pass, so that their price does not depend on the data
    promise = make(**parameters, n_classes=2, rng=seed).fit(*canary.neighbours[1]).label(canary.queries(queries))
    return promise.composition, price(promise.composition, delta), found


def wrong_screening_noise(broken, seed):
    parameters = {
        "n_neighbors": 3,
        "sampling_rate": 1.0,
        "screening_sigma": 3.0,
        "threshold": 2.0,
        "vote_sigma": 1e6,
    }
    canary, queries, delta = canaries.at_threshold(3, 2.0), 6, 0.05
    with lines(
        broken,
        (labelling, "passes_screening", [("noise_of(event, source, 1)[0]", "noise_of(event, source, 1)[0] / 3")]),
    ):
        return knn_case(parameters, canary, queries, delta, seed)


def lines(broken, *functions):
    return replaced(*(functions if broken else ()))


# --- NoisySGD ------------------------------------------------------------------------------------------


def no_clipping(broken, seed):
    canary, rate, delta = canaries.largest_gradient(3.0), 0.5, 0.05
    parameters = {"noise_multiplier": 1.0, "sampling_rate": rate, "steps": 1, "learning_rate": 1.0}
    score = number_score(mx.LinearNoisySGD(**parameters).event, *[[view] for view in canary.views])

    def mechanism(data, rng):
        return -mx.LinearNoisySGD(**parameters, n_classes=2, rng=rng).fit(*data).weights_.reshape(1, 4)

    with lines(
        broken, (noisy_sgd, "add_clipped", [("np.minimum(1 / np.maximum(norms, 1e-300), 1 / clip)", "1 / clip")])
    ):
        found = audited(
            mechanism, canary.neighbours, runs=2000, delta=delta, seed=seed, score=lambda out: float(score(out))
        )
    promise = mx.LinearNoisySGD(**parameters).planned
    return promise, price(promise, delta), found


# --- Ind-KNN -------------------------------------------------------------------------------------------


def individual(make, canary, parameters, queries, *, runs, delta, seed):
    others = canary.neighbours[1][1][1:].tolist()
    promised = mx.IndividualKNN(**parameters, threshold=0.5)
    score = individual_score(promised, others, 2, retiring=False)

    def mechanism(data, rng):
        model = make(**parameters, threshold=0.5, n_classes=2, rng=rng).fit(*data)
        labels = model.predict(canary.queries(queries))
        return score(model.counts_, labels)

    found = audited(mechanism, canary.neighbours, runs=runs, delta=delta, seed=seed)
    promise = promised.guarantee(delta)
    return ac.GaussianDP((2 * parameters["budget"]) ** 0.5), promise.epsilon, found


def one_unit(broken, seed):
    parameters = {"budget": 0.5, "count_sigma": 1.5, "vote_sigma": 1e3, "min_count": 0.05}
    line = (
        "self._filter.spend(slots[granted], units[granted])",
        "self._filter.spend(slots[granted], np.ones_like(units[granted]))",
    )
    make = with_lines(mx.IndividualKNN, "_charge", line) if broken else mx.IndividualKNN
    return individual(make, canaries.nobody_near(), parameters, 10, runs=800, delta=0.05, seed=seed)


def votes_not_cut(broken, seed):
    parameters = {"budget": 0.3, "count_sigma": 1.5, "vote_sigma": 0.2, "min_count": 1.0}
    line = individual_votes.Prices, "votes", (("np.where(price <= left, parts, most)", "parts"),)
    with replaced(*[line] * broken):
        found = individual(
            mx.IndividualKNN, canaries.about_to_retire(1), parameters, 1, runs=3000, delta=0.02, seed=seed
        )
    return found


# --- reverse k-NN --------------------------------------------------------------------------------------


def fewer_votes_than_leave(broken, seed):
    k = 12
    canary, delta = canaries.replaced_record(k), 0.0
    parameters = {"n_queries": 2 * k, "n_neighbors": k, "epsilon": 1.0, "n_classes": 2}
    line = ("changed * request.size.nonzeros", "changed")
    releases.calibrate_release.cache_clear()
    # where the queries are is public, and takes longest
    centres = mock.patch.object(reverse_rounds, "cluster_centres", lambda points, *_: points)
    # a server refuses counts that its event does not cover: the broken line alone would be refused
    check = mock.patch.object(federation, "covers_counts", (lambda *_: True) if broken else federation.covers_counts)
    with lines(broken, (releases, "_central", [line])), centres, check:
        event = mx.ReverseKNN(**parameters).planned(3, 2).event
        score = number_score(event, *[[view] for view in canary.views])

        def mechanism(data, rng):
            labelled = mx.ReverseKNN(**parameters, rng=rng).label(*data, canary.query)
            return score(labelled.counts.reshape(1, -1))

        found = audited(mechanism, canary.neighbours, runs=200, delta=delta, seed=seed)
    releases.calibrate_release.cache_clear()
    return event, 1.0, found


SAMPLED_VOTE = ("GNMax", "PoissonSubsampled")
SCREENED_VOTE = ("GNMax", "NoisyScreening", "PoissonSubsampled")
SAMPLED_GAUSSIAN = ("Gaussian", "PoissonSubsampled")
INDIVIDUAL = ("GaussianDP",)


def kinds(promise):
    """The kinds of events in a promise."""
    if isinstance(promise, ac.Composition):
        return tuple(sorted({kind for event in promise.entries for kind in kinds(event)}))
    inner = getattr(promise, "event", None)
    return tuple(sorted({type(promise).__name__, *(kinds(inner) if isinstance(inner, ac.Event) else ())}))


NINE = [
    Case("half the noise", "PrivateKNN", SAMPLED_VOTE, half_the_noise),
    Case("twice the sampling rate", "PrivateKNN", SAMPLED_VOTE, twice_the_rate),
    Case("one sample for screening and vote", "PrivateKNN", SCREENED_VOTE, one_sample_for_both),
    Case("votes that are never charged", "PrivateKNN", SCREENED_VOTE, uncharged_votes),
    Case("a charge of one unit", "IndividualKNN", INDIVIDUAL, one_unit),
    Case("gradients that are not clipped", "LinearNoisySGD", SAMPLED_GAUSSIAN, no_clipping),
    Case("a third of the screening's noise", "PrivateKNN", SCREENED_VOTE, wrong_screening_noise),
    Case("votes beyond what a record has left", "IndividualKNN", INDIVIDUAL, votes_not_cut),
    Case("one vote priced, k leave", "ReverseKNN", ("Laplace",), fewer_votes_than_leave),
]
