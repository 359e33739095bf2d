# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A budget for every record: Ind-KNN
#
# Ind-KNN answers queries one at a time. A private record pays only for the answers it took part in, and retires when
# its budget is spent (Zhu et al. 2023, *Private Prediction Strikes Back*). This notebook turns a guarantee into a
# budget, answers queries about handwritten digits, shows which records paid, and lets records leave and come back. What
# the paper prints stands beside ours in [every table and figure](reproduced.md).

# %% tags=["hide-input"]
# %matplotlib inline
# %config InlineBackend.figure_formats = ["svg"]
import tempfile
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from rich.console import Console
from rich.table import Table

import accountant as ac
import mechanisms as mx
from mechanisms.budgets.store import open_store
from mechanisms.datasets import digits, private_public_test_split
from mechanisms.experiment.prediction import PredictionSetting, complete_setting, predict

EPSILON, DELTA = 2.0, 1e-4


def show(rows, title, columns):
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=110).print(table)


# %% [markdown]
# ## From a guarantee to a budget
#
# Every record has the same budget B. A release that adds Gaussian noise of variance s² to a sum charges a record
# `f² / (2 s²)`, where f is what the record adds to the sum. A record's charges never exceed B, so the whole interaction
# is (a, B a)-RDP for all orders a (Feldman & Zrnic 2021). All noise is Gaussian, so it is also mu-GDP with mu² / 2 = B
# (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023). The second fact converts exactly, which allows a larger
# budget for the same guarantee.

# %%
rows = []
for epsilon in (0.5, 1.0, 2.0, 4.0):
    budgets = {rule: ac.IndividualFilter.budget_for(epsilon, 1e-5, rule) for rule in ("gdp", "renyi")}
    rows.append((epsilon, budgets["gdp"], budgets["renyi"], f"{budgets['gdp'] / budgets['renyi'] - 1:.1%}"))
show(rows, "Budget B (nats) at delta = 1e-5", ("epsilon", "GDP filter", "Rényi filter", "GDP over Rényi"))

# %% [markdown]
# ## Answers
#
# 1000 images are private, 497 are public queries, 300 more public points stand by. They carry no labels here. From
# them, not from private records, the threshold and the noise of the votes are learnt.

# %%
parts = private_public_test_split(digits(), (1000, 497, 300), rng=0)
setting = PredictionSetting(EPSILON, DELTA, seed=0)
for rule in ("gdp", "renyi"):
    outcome = predict(replace(setting, conversion=rule), parts.private, parts.public, n_classes=10)
    print(f"{rule:5}: {outcome.accuracy:.1%} of {len(outcome.labels)} answers are right; {outcome.guarantee}")

# %% [markdown]
# The guarantee holds for the whole interaction, however long it is. A longer plan needs more noise: the noise of counts
# grows with the planned number of queries, and records retire when more queries are asked than were planned.

# %%
COUNTS = (50, 100, 200, 300, 497)
draws = [private_public_test_split(digits(), (1000, 497, 300), rng=seed) for seed in range(4)]


def right(draw, rule, count, planned):
    """Share of the first `count` answers that are right."""
    outcome = predict(replace(setting, conversion=rule, queries=planned), draw.private, draw.public, n_classes=10)
    return np.mean(outcome.labels[:count] == draw.public.labels[:count])


figure, axes = plt.subplots(figsize=(7.0, 3.8))
for rule, marker, name in (("gdp", "o", "GDP filter"), ("renyi", "s", "Rényi filter")):
    for_these = [np.mean([right(draw, rule, count, count) for draw in draws]) for count in COUNTS]
    axes.plot(COUNTS, for_these, marker=marker, label=f"{name}, planned for so many")
axes.set(xlabel="queries", ylabel="accuracy", title=f"epsilon {EPSILON:g}, delta {DELTA:g}, mean of {len(draws)} draws")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Who paid
#
# What a record has left depends on private data: it is for the operator only, and the plot says so. These digits are
# public, so it may be shown here.

# %%
chosen = complete_setting(setting, 497, len(parts.private), parts.public)
ind = mx.IndividualKNN.for_budget(EPSILON, DELTA, 497, chosen.threshold, chosen.vote_sigma, n_classes=10, rng=0)
names = [f"person {number}" for number in range(len(parts.private))]
ind.fit(parts.private.features, parts.private.labels, ids=names)
ind.predict(parts.public.features[:250])
display(ac.plots.spent_budgets(ind.budget - ind.budgets_, ind.budget).figure)

# %% [markdown]
# ## Deletion, and budgets that resume
#
# A record can leave at any time. Its features and label are deleted, and the other records do not change. What it has
# spent is remembered under its identifier: a record that comes back resumes the budget that was left.

# %%
costly = int(np.argmin(ind.budgets_))
leaver, before = ind.ids_[costly], ind.budgets_.copy()
ind.remove([leaver])
others = np.delete(before, costly)
print(f"{leaver} had {before[costly] / ind.budget:.1%} left; {len(ind.ids_)} records remain")
print("budgets of the others changed:", bool((ind.budgets_ != others).any()))

# %%
ind.predict(parts.public.features[250:300])
ind.add([leaver], parts.private.features[[costly]], parts.private.labels[[costly]])
print(f"{leaver} is back with {ind.budgets_[ind.ids_.index(leaver)] / ind.budget:.1%}")
assert ind.budgets_[ind.ids_.index(leaver)] == before[costly]
print("guarantee of everything so far, and of everything to come:", ind.guarantee(DELTA))

# %% [markdown]
# ## Budgets that outlive the process
#
# With a store, charges are on disk before an answer is returned. A new process that opens the same file goes on with
# what is left.

# %%
with tempfile.TemporaryDirectory() as folder:
    where = Path(folder) / "budgets.db"
    for process in (1, 2):
        with open_store(where) as store:
            ind = mx.IndividualKNN.for_budget(
                EPSILON, DELTA, 497, chosen.threshold, chosen.vote_sigma, n_classes=10, store=store
            )
            ind.fit(parts.private.features, parts.private.labels, ids=names)
            at_start = (ind.budgets_ / ind.budget).mean()
            ind.predict(parts.public.features[:50])
            at_end = (ind.budgets_ / ind.budget).mean()
            print(f"process {process}: mean share left {at_start:.3f} at first, {at_end:.3f} at the end")
