"""Fourteen more broken mechanisms, with likely mistakes; no audit of outputs can detect three of them."""

import numpy as np

import mechanisms as mx
from mechanisms import labelling, private_knn
from mechanisms.audit import canaries
from mechanisms.federation import reverse_rounds
from mechanisms.noise import source as noise
from tests.mechanisms.audit.broken import (
    INDIVIDUAL,
    SAMPLED_GAUSSIAN,
    SAMPLED_VOTE,
    SCREENED_VOTE,
    Case,
    audited,
    individual,
    knn_case,
    knn_promise,
    lines,
    mock,
    price,
    score_of,
)
from tests.mechanisms.audit.broken_lines import exchanged, with_lines

# --- draws that are not fresh, or not what they should be ----------------------------------------------

TWIN = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 2.0}


def two_places():
    """Three records near 0 and three near 100, with the same labels; the canary changes only those near 0."""
    near = canaries.near_tie(3)
    (X, y), _ = near.neighbours
    away = np.concatenate([X, X + 100]), np.concatenate([y, y])
    joined = np.concatenate([away[0], np.zeros((1, 1), np.float32)]), np.append(away[1], 1)
    return (away, joined), np.float32([[0.0], [100.0]])


def same_draws(make, seed):
    """With equal noise two queries get different labels only if the canary changed the votes of one."""
    neighbours, queries = two_places()

    def mechanism(data, rng):
        labels = make(**TWIN, n_classes=2, rng=int(rng.integers(2**60))).fit(*data).label(queries).labels
        return tuple(labels.tolist())

    found = audited(mechanism, neighbours, runs=3000, delta=0.01, seed=seed)
    # the canary is near one query only, but the promise is for both
    promise = knn_promise(TWIN, 2)
    return promise, price(promise, 0.01), found


def one_noise_for_all(broken, seed):
    once = [
        (
            "noise_of(event, source, len(counts))",
            "vars(source).setdefault('kept', noise_of(event, source, len(counts)))",
        )
    ]
    with lines(broken, (labelling, "noisy_argmax", once)):
        return same_draws(mx.PrivateKNN, seed)


def seed_reset(broken, seed):
    again = (
        "return ask(event)",
        "self._source.restore(vars(self).setdefault('_first', self._source.state())); return ask(event)",
    )
    return same_draws(with_lines(mx.PrivateKNN, "_charge_and_ask", again) if broken else mx.PrivateKNN, seed)


def inverted_scale(broken, seed):
    parameters, queries, delta = {"n_teachers": 2, "scale": 3.0}, 2, 0.0
    neighbours = [np.array([0] * 40 + [1] * extra) for extra in (0, 1)]

    def mechanism(labels, rng, count):
        model = mx.LNMax(**parameters, make_teacher=Teacher, n_classes=2, rng=rng).fit(
            np.zeros((len(labels), 1)), labels
        )
        return model.label(np.zeros((count * queries, 1))).labels.reshape(count, queries)

    with lines(
        broken,
        (
            labelling,
            "noisy_argmax",
            [("noise_of(event, source, len(counts))", "noise_of(event, source, len(counts)) / event.scale**2")],
        ),
    ):
        found = audited(mechanism, neighbours, runs=4000, delta=delta, seed=seed, batched=True)
    promise = mx.LNMax(**parameters, max_labels=queries).planned(queries)
    return promise, price(promise, delta), found


class Teacher:
    """Answers 1 if its shard holds the differing record."""

    def fit(self, features, labels):
        self.answer = int(labels.any())

    def predict(self, features):
        return np.full(len(features), self.answer)


def truncated_noise(broken, seed):
    canary = canaries.replaced_record(1)
    parameters = {"n_queries": 2, "n_neighbors": 1, "epsilon": 1.0, "n_classes": 2, "noise": "discrete-laplace"}
    cut = exchanged(
        noise.Seeded.discrete_laplace,
        ("draws: Floats = first - second", "draws: Floats = np.clip(first - second, -3, 3)"),
    )
    centres = mock.patch.object(reverse_rounds, "cluster_centres", lambda points, *_: points)

    def mechanism(data, rng):
        return mx.ReverseKNN(**parameters, rng=rng).label(*data, canary.query).counts[1, 1]

    with centres, mock.patch.object(noise.Seeded, "discrete_laplace", cut if broken else noise.Seeded.discrete_laplace):
        found = audited(mechanism, canary.neighbours, runs=2000, delta=0.0, seed=seed)
    return mx.ReverseKNN(**parameters).planned(3, 2).event, 1.0, found


# --- sensitivities -------------------------------------------------------------------------------------


def rounded_votes(broken, seed):
    parameters = {"n_neighbors": 8, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 5.0}
    fours = [("np.bincount(labels, minlength=n_classes)", "4 * (np.bincount(labels, minlength=n_classes) // 4)")]
    with lines(broken, (private_knn, "tally", fours)):
        return knn_case(parameters, canaries.near_tie(8, 0), 8, 0.05, seed)


def votes_twice(broken, seed):
    parameters = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 4.0}
    twice = (
        "self._labels[self._neighbours.find_nearest(query, products, sample, self._k)]",
        "self._labels[np.repeat(self._neighbours.find_nearest(query, products, sample, self._k), 2)]",
    )
    make = with_lines(mx.PrivateKNN, "_count_votes", twice) if broken else mx.PrivateKNN
    return knn_case(parameters, canaries.near_tie(3), 8, 0.05, seed, make)


def no_label_clipping(broken, seed):
    classes, queries, delta = 12, 4, 0.05
    parameters = {"n_neighbors": 1, "sampling_rate": 1.0, "clip": 1.0, "vote_sigma": 4.0}
    X = np.array([[1.0], [0.0]], np.float32)
    sets = np.array([[0] * classes, [1] * classes])

    def mechanism(data, rng, count):
        labels = mx.PrivateKNN(**parameters, rng=rng).fit(*data).label(np.zeros((count * queries, 1))).labels
        return labels.reshape(count, -1).sum(axis=1)

    with lines(broken, (private_knn, "clip_votes", [("np.minimum(clip / sizes, 1.0)", "1.0")])):
        found = audited(mechanism, ((X[:1], sets[:1]), (X, sets)), runs=4000, delta=delta, seed=seed, batched=True)
    promise = knn_promise(parameters, queries)
    return promise, price(promise, delta), found


def order_breaks_ties(broken, seed):
    """Noisy votes are rounded, and a tie goes to the label of the last record, sampled or not."""
    parameters = {"n_neighbors": 1, "sampling_rate": 0.02, "screening_sigma": None, "vote_sigma": 3.0}
    tie = (
        "return super()._release(vote, votes)",
        "noisy = np.rint(votes + noise_of(vote, self._source, len(votes))); "
        "return int(max(range(len(noisy)), key=lambda j: (noisy[j], j == self._labels[-1])))",
    )
    make = with_lines(mx.PrivateKNN, "_release", tie, noise_of=noise.noise_of) if broken else mx.PrivateKNN
    return knn_case(parameters, canaries.near_tie(1, rate=0.02, crowd=300), 60, 0.05, seed, make, runs=800)


def fixed_size_samples(broken, seed):
    """Half of the records, rounded down: a fourth record makes it always two instead of one."""
    parameters = {"n_neighbors": 3, "sampling_rate": 0.5, "screening_sigma": 1.0, "threshold": 1.5, "vote_sigma": 1e6}
    X, y = np.arange(4.0)[:, None], np.zeros(4, int)
    queries, delta = 8, 0.1

    def half(sampler, n, rate, query, column):
        return np.sort(np.argsort(sampler.words(query, np.arange(n))[:, column])[: int(n * rate)])

    def mechanism(data, rng, count):
        model = mx.PrivateKNN(**parameters, n_classes=2, rng=rng).fit(*data)
        return (model.label(np.zeros((queries * count, 1))).labels >= 0).reshape(count, queries).sum(axis=1)

    draw = private_knn.RecordSampler.draw
    sampling = mock.patch.object(private_knn.RecordSampler, "draw", half if broken else draw)
    with sampling:
        found = audited(mechanism, ((X[:3], y[:3]), (X, y)), runs=4000, delta=delta, seed=seed, batched=True)
    promise = knn_promise(parameters, queries)
    return promise, price(promise, delta), found


# --- budgets of single records -------------------------------------------------------------------------


def late_check(broken, seed):
    """A record takes part while it has anything left, and pays what it has."""
    parameters = {"budget": 0.51, "count_sigma": 1.0, "vote_sigma": 1e4, "min_count": 0.05}
    make = mx.IndividualKNN
    if broken:
        make = with_lines(
            make, "_answer", ("self._filter.left[near] >= self._prices.count_units", "self._filter.left[near] > 0")
        )
        least = ("units[granted])", "np.minimum(units[granted], self._filter.left[slots[granted]]))")
        make = with_lines(make, "_charge", least)
    return individual(make, canaries.nobody_near(), parameters, 2, runs=6000, delta=0.1, seed=seed)


def bare_count(broken, seed):
    parameters = {"budget": 0.5, "count_sigma": 1.5, "vote_sigma": 1e3, "min_count": 0.05}
    make = mx.IndividualKNN
    if broken:
        make = with_lines(make, "_answer", ("len(slots) + len(known) + noise", "len(slots) + len(known)"))
    return individual(make, canaries.about_to_retire(2), parameters, 1, runs=800, delta=0.05, seed=seed)


# --- what outputs do not show --------------------------------------------------------------------------


def charged_after(broken, seed):
    """Charges come after the draw; an error in between loses one."""
    parameters = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 4.0}
    late = ("if part.charge(i, release):", "votes = ask(event)\n    if part.charge(i, release):")
    make = (
        with_lines(mx.PrivateKNN, "_charge_and_ask", late, ("return ask(event)", "return votes"))
        if broken
        else mx.PrivateKNN
    )
    return knn_case(parameters, canaries.near_tie(3), 8, 0.05, seed, make)


def few_seeds(broken, seed):
    """All noise comes from one of 65,536 seeds, which can all be tried."""
    parameters = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 4.0}
    canary, queries, delta = canaries.near_tie(3), 8, 0.05
    score = score_of(parameters, canary, queries)

    def mechanism(data, rng):
        small = int(rng.integers(2**16)) if broken else int(rng.integers(2**62))
        return float(
            score(mx.PrivateKNN(**parameters, n_classes=2, rng=small).fit(*data).label(canary.queries(queries)).labels)
        )

    found = audited(mechanism, canary.neighbours, runs=2000, delta=delta, seed=seed)
    promise = knn_promise(parameters, queries)
    return promise, price(promise, delta), found


def seldom_bare(broken, seed):
    """One vote in a thousand gets no noise; promised at delta 1e-5."""
    parameters = {"n_neighbors": 3, "sampling_rate": 1.0, "screening_sigma": None, "vote_sigma": 4.0}
    seldom = [
        (
            "noise_of(event, source, len(counts))",
            "noise_of(event, source, len(counts)) * (source.uniform(1)[0] > 0.001)",
        )
    ]
    with lines(broken, (labelling, "noisy_argmax", seldom)):
        return knn_case(parameters, canaries.near_tie(3), 8, 1e-5, seed)


MORE = [
    Case("noise drawn once for all queries", "PrivateKNN", SAMPLED_VOTE, one_noise_for_all),
    Case("the seed reset for every query", "PrivateKNN", SAMPLED_VOTE, seed_reset),
    Case("votes rounded before the noise", "PrivateKNN", SAMPLED_VOTE, rounded_votes),
    Case("samples of fixed size, priced as Poisson", "PrivateKNN", SCREENED_VOTE, fixed_size_samples),
    Case("ties broken by a private record", "PrivateKNN", SAMPLED_VOTE, order_breaks_ties),
    Case("the budget checked after the count", "IndividualKNN", INDIVIDUAL, late_check),
    Case("a neighbour that votes twice", "PrivateKNN", SAMPLED_VOTE, votes_twice),
    Case("Laplace noise of scale 1/b", "LNMax", ("LNMax",), inverted_scale),
    Case("discrete noise cut off", "ReverseKNN", ("DiscreteLaplace",), truncated_noise),
    Case("label sets that are not clipped", "PrivateKNN", SAMPLED_GAUSSIAN, no_label_clipping),
    Case("the count of neighbours without noise", "IndividualKNN", INDIVIDUAL, bare_count),
    Case(
        "charged after the draw, not on errors",
        "PrivateKNN",
        SAMPLED_VOTE,
        charged_after,
        False,
        "no output depends on it; kills during runs show it",
    ),
    Case(
        "noise from 65,536 seeds",
        "PrivateKNN",
        SAMPLED_VOTE,
        few_seeds,
        False,
        "each output is distributed as promised; only who tries all seeds sees more",
    ),
    Case(
        "no noise once in a thousand votes",
        "PrivateKNN",
        SAMPLED_VOTE,
        seldom_bare,
        False,
        "shows once in 125 runs; it takes about 1e5 of them",
    ),
]
