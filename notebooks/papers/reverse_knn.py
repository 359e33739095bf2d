# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Whom do you trust? Reverse k-NN in three models
#
# In reverse k-NN every private record votes with its label for the public queries nearest to it (Wang et al.,
# *Fine-grained Private Knowledge Distillation*; here "the paper"). One record adds r ones for each of its k nearest of
# s queries. If it is replaced, at most 2 k r counts move, each by exactly 1. What that costs depends on whom the
# records' holders trust:
#
# * *central*: a server sees all votes, and adds noise to their sums;
# * *local*: nobody; every record randomizes its own report;
# * *shuffle*: a shuffler that hides who sent which of n local reports.
#
# What the paper prints stands beside ours in [every table and figure](reproduced.md).

# %% tags=["hide-input"]
# %matplotlib inline
# %config InlineBackend.figure_formats = ["svg"]
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import accountant as ac
import mechanisms as mx
from mechanisms.datasets import digits, private_public_test_split
from mechanisms.local_reports import local_randomizer
from mechanisms.noise.source import as_randomness

DELTA = 1e-5
REPLACE = ac.Adjacency.REPLACE


def show(rows, title, columns):
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=110).print(table)


# %% [markdown]
# ## Central: 2 k r coordinates that move by 1
#
# The paper uses pure DP: Laplace noise of scale 2 k r / epsilon. At a small delta its price is much lower, the more so
# the more counts a record moves, because many small changes in independent noise are nearly Gaussian.

# %%
rows = []
for moved in (2, 8, 32, 128):
    laplace = ac.Laplace(moved, coordinates=moved, adjacency=REPLACE)  # pure epsilon 1
    discrete = ac.DiscreteLaplace(moved, coordinates=moved, adjacency=REPLACE)
    tight = [ac.epsilon(event, DELTA, method="tight", tolerance=0.01).epsilon for event in (laplace, discrete)]
    rows.append((moved, 1.0, ac.epsilon(laplace, DELTA, method="renyi").epsilon, *tight))
columns = ("2 k r", "pure DP", "Laplace, Rényi", "Laplace, tight", "discrete Laplace, tight")
show(rows, f"Noise of scale 2 k r, epsilon at delta = {DELTA:g}", columns)

# %% [markdown]
# ## Local: what one report costs, and what it says
#
# A report is a set of k r out of s c entries (c classes). Randomized response flips each bit with probability
# `1 / (exp(epsilon / (2 k r)) + 1)`. Collision (Wang et al. 2021) sends one bucket of a public random hash. Both are
# pure epsilon-DP; many rounds of them compose to less than the sum. Randomized response is priced tightly; two inputs
# of Collision may share buckets or not, which makes it a family of pairs of distributions, priced by its Rényi curve.

# %%
rows = []
for rounds in (1, 4, 16, 64):
    cells = []
    for name in ("randomized-response", "collision"):
        event = local_randomizer(name, queries=10, classes=10, epsilon=0.4).event
        cells.append(ac.epsilon(rounds * event, DELTA).epsilon)
    rows.append((rounds, 0.4 * rounds, *cells))
show(rows, f"Reports of epsilon 0.4, delta = {DELTA:g}", ("rounds", "sum", "randomized response", "Collision"))

# %% [markdown]
# ### The mechanisms of Figure 5, and their errors
#
# Figure 5 of the paper compares randomized response with Collision at s = c = 10, k = 1, by the accuracy of students on
# MNIST and CIFAR-10, for epsilon from 0.01 to 1. Those students need data that do not come with this package; what
# separates the mechanisms is the error of the counts that they learn from. It depends on no data and is known exactly:
# here, the standard deviation of a count's estimate from n = 60 000 reports, averaged over the entries.

# %%
USERS = 60_000
epsilons = np.geomspace(0.01, 1.0, 13)
figure, axes = plt.subplots(figsize=(7.0, 3.8))
for name, line in (("randomized-response", "o-"), ("collision", "s--")):
    errors = [
        np.sqrt(USERS * local_randomizer(name, queries=10, classes=10, epsilon=epsilon).mean_variance)
        for epsilon in epsilons.tolist()
    ]
    axes.loglog(epsilons, errors, line, label=name)
axes.axhline(USERS / 10, color="0.4", linestyle=":", label="votes per query, n / s")
axes.set(xlabel="epsilon of one report", ylabel="standard deviation of a count", title="Figure 5's mechanisms: errors")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# A query has n / s votes if all records of a cluster agree. Where the error is far above that, labels are noise. At the
# paper's epsilon = 0.4 it is below. For so few entries the two mechanisms differ little; Collision is better where
# epsilon is large.

# %%
rows = []
for epsilon in (0.1, 0.4, 1.0, 3.5):
    made = {
        name: local_randomizer(name, queries=10, classes=10, epsilon=epsilon)
        for name in ("randomized-response", "collision", "separation")
    }
    deviations = [float(np.sqrt(USERS * each.mean_variance)) for each in made.values()]
    best = local_randomizer("best", queries=10, classes=10, epsilon=epsilon)
    (name,) = (name for name, each in made.items() if type(each) is type(best))
    rows.append((epsilon, *deviations, name))
columns = ("epsilon", "randomized response", "Collision", "Separation", "best")
show(rows, f"Standard deviation of a count, n = {USERS}", columns)

# %% [markdown]
# These are formulas. Do reports follow them? We simulate 2000 users whose votes we know:

# %%
rng = np.random.default_rng(0)
entries = rng.integers(100, size=(2000, 1))
truth = np.bincount(entries[:, 0], minlength=100)
for name in ("randomized-response", "collision"):
    randomizer = local_randomizer(name, queries=10, classes=10, epsilon=1.0)
    source = as_randomness(0)
    found = [randomizer.estimate(randomizer.randomize_many(entries, source)).counts for _ in range(20)]
    measured, predicted = np.sqrt(np.mean((np.array(found) - truth) ** 2)), np.sqrt(2000 * randomizer.mean_variance)
    print(f"{name:20} measured {measured:.1f}, predicted {predicted:.1f}")

# %% [markdown]
# ## Shuffle: n local reports, nobody knows whose
#
# Three bounds of growing effort: the closed form and the numerical bound ("clones") of Feldman, McMillan & Talwar 2021,
# and the variation ratio (Wang et al. 2023), which also knows how much two inputs of a mechanism have in common.

# %%
rows = []
for local in (0.4, 1.0, 2.0, 4.0):
    collision = local_randomizer("collision", queries=10, classes=10, epsilon=local).event
    methods = ("closed-form", "clones", "variation-ratio")
    cells = [ac.shuffled_epsilon(local, USERS, DELTA, method) for method in methods]
    rows.append((local, *cells, ac.shuffled_epsilon(collision, USERS, DELTA)))
columns = ("local", "closed form", "clones", "variation ratio", "the same, Collision")
show(rows, f"Epsilon of {USERS} shuffled reports at delta = {DELTA:g}", columns)

# %% [markdown]
# A shuffled round is an event like any other, so rounds compose tightly:

# %%
one = ac.Shuffled(local_randomizer("collision", queries=10, classes=10, epsilon=1.0).event, USERS)
rows = []
for rounds in (1, 4, 16):
    rows.append((rounds, ac.epsilon(rounds * one, DELTA, method="tight", tolerance=0.02).epsilon))
show(rows, "Rounds of shuffled Collision reports, local epsilon 1", ("rounds", "epsilon, tight"))

# %% [markdown]
# ## One guarantee, four ways to keep it
#
# How much noise on a count does the same central guarantee need, for n records? With *shares* (Ghazi et al. 2020) every
# record sends any number of messages, whose noise adds up to discrete Laplace noise: nearly as little as in the central
# model, without a trusted server.

# %%
rows = []
for model, randomizer, delta in (
    ("central", "", DELTA),
    ("shuffle", "shares", DELTA),
    ("shuffle", "collision", DELTA),
    ("local", "collision", 0.0),
):
    reverse = mx.ReverseKNN(n_queries=10, epsilon=0.5, delta=delta, model=model, randomizer=randomizer or "collision")
    release = reverse.planned(USERS, 10)
    if randomizer == "collision":
        report = local_randomizer("collision", queries=10, classes=10, epsilon=release.noise)
        deviation = np.sqrt(USERS * report.mean_variance)
    else:  # Laplace noise of that scale
        deviation = np.sqrt(2) * release.noise
    price = release.guarantee(delta)
    rows.append((model, randomizer, price.epsilon, price.delta, float(deviation)))
columns = ("model", "randomizer", "epsilon", "delta", "deviation of a count")
show(rows, f"{USERS} records, 10 queries, 10 classes", columns)

# %% [markdown]
# ## Labels for digits, in every model
#
# `ReverseKNN` simulates server, clients and shuffler, which exchange the same bytes as in a deployment. 1000 records
# are few for the local model: it needs epsilon = 8, which protects hardly anything, to show that it works.

# %%
parts = private_public_test_split(digits(), (1000, 497, 300), rng=0)
rows = []
for model, randomizer, epsilon, delta in (
    ("central", "collision", 1.0, 0.0),
    ("central", "collision", 0.2, 0.0),
    ("shuffle", "shares", 1.0, 1e-4),
    ("shuffle", "collision", 1.0, 1e-4),
    ("local", "collision", 8.0, 0.0),
    ("local", "collision", 1.0, 0.0),
):
    settings = {"epsilon": epsilon, "delta": delta, "model": model, "randomizer": randomizer}
    reverse = mx.ReverseKNN(n_queries=20, n_classes=10, rng=0, **settings)
    out = reverse.label(parts.private.features, parts.private.labels, parts.public.features)
    right = np.mean(out.labels == parts.public.labels)
    how = "" if model == "central" else randomizer
    rows.append((model, how, delta, out.guarantee(delta).epsilon, f"{right:.1%}", round(out.bytes_per_client)))
columns = ("model", "randomizer", "delta", "epsilon", "labels right", "bytes sent")
show(rows, "497 public digits labelled by 1000 private ones", columns)
