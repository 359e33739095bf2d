# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What Private-kNN costs
#
# Figures 5 to 8 and the epsilon columns of Tables 1 and 3 of Zhu et al. 2020 (*Private-kNN: Practical Differential
# Privacy for Computer Vision*), computed again from the parameters printed there. Columns called *printed* are copied
# from that paper; every other number is computed here. Three routes lead to an epsilon:
#
# * *classic*: Rényi curve, conversion of Mironov 2017, which the paper uses;
# * *improved*: the same curve, conversion of Canonne, Kamath & Steinke 2020;
# * *tight*: the privacy loss itself, up to a certified interval. Its upper end is shown, and the interval's width.

# %% tags=["hide-input"]
# %matplotlib inline
# %config InlineBackend.figure_formats = ["svg"]
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from rich.console import Console
from rich.table import Table

import accountant as ac
from accountant.guarantee import format_up

DELTA = 1e-5
TOLERANCE = 0.04


def show(rows, title, columns):
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(format_up(cell) if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=110).print(table)


def routes(run, delta):
    """Epsilon by all three routes, and the width of the tight interval."""
    tight = ac.epsilon(run, delta, method="tight", tolerance=TOLERANCE)
    classic, improved = (ac.epsilon(run, delta, conversion=rule).epsilon for rule in ("classic", "improved"))
    return classic, improved, tight.epsilon, f"{(tight.epsilon - tight.lower) / tight.epsilon:.1%}"


# %% [markdown]
# ## Figure 5: five prices of the same screening, and a sixth
#
# 8192 queries are screened: does the noisy plurality of at most 300 votes reach 210? The sixth price, the tight one, is
# not in the paper. The data-dependent price needs the votes that were cast. The paper prints none, so the
# votes here are made up, and its 3.83 cannot be compared. Its authors' repository lists a file of votes; `mechanisms
# reproduce private-knn figure-5 --data votes=FILE --public-votes` prices the line at those.

# %%
axes = ac.plots.screening_costs(tolerance=TOLERANCE)
display(axes.figure)

# %%
PRINTED = {
    "Gaussian": 5.67,
    "subsampled Gaussian": 1.313,
    "screening": 4.43,
    "subsampled screening": 1.04,
}
SIGMA, THRESHOLD, VOTES, RATE, QUERIES = 85, 210, 300, 0.25, 8192
screening, gaussian = ac.NoisyScreening(SIGMA, THRESHOLD, VOTES), ac.Gaussian(SIGMA)
events = {
    "Gaussian": gaussian,
    "subsampled Gaussian": ac.PoissonSubsampled(gaussian, RATE),
    "screening": screening,
    "subsampled screening": ac.PoissonSubsampled(screening, RATE),
}
columns = ("", "printed", "classic", "improved", "tight", "width")
found = {name: routes(QUERIES * event, DELTA) for name, event in events.items()}
show([(name, PRINTED[name], *found[name]) for name in events], "Figure 5, end points", columns)

# %%
for name, printed in PRINTED.items():
    classic, improved, tight, _ = found[name]
    print(f"{name}: classic over printed {classic / printed - 1:+.2%}, tight over classic {tight / classic - 1:+.1%}")
    assert abs(classic / printed - 1) < 0.005

# %% [markdown]
# The curves agree with the printed values. Most of what the printed values overstate is due to the conversion.
#
# ## Figures 6 and 7: which count is the worst?
#
# Each plurality has a Rényi curve of its own: that of the two Bernoulli distributions of neighbouring counts. The paper
# takes `ceil(k / c) = 30` as the least plurality of ten classes. That holds only if exactly `k` votes are always cast,
# and a Poisson sample may hold fewer records than `k`; so our default starts at 0. Here we follow the paper.


# %%
def fixed(plurality, rate=1.0):
    """Screening whose plurality is this one, or one more."""
    event = ac.NoisyScreening(SIGMA, THRESHOLD, plurality + 1, min_votes=plurality)
    return ac.PoissonSubsampled(event, rate)


orders = np.linspace(1.2, 50, 60)
counts = np.arange(30, VOTES)
costs = np.array([fixed(int(count)).renyi(orders) for count in counts])
figure, axes = plt.subplots(figsize=(7.6, 4.0))
image = axes.pcolormesh(orders, counts, costs, cmap="cividis", shading="nearest", rasterized=True)
axes.plot(orders, counts[costs.argmax(axis=0)], color="white", label="worst plurality")
axes.axhline(THRESHOLD, color="white", linestyle=":", label="threshold")
axes.set(xlabel="order", ylabel="plurality", title="Figure 6: Rényi divergence of one screening (nats)")
axes.legend(loc="lower left", facecolor="0.3", labelcolor="white")
figure.colorbar(image)
plt.show()

# %%
chosen = (30, 90, 150, THRESHOLD, VOTES - 1)
every = ac.NoisyScreening(SIGMA, THRESHOLD, VOTES, min_votes=30)
curves = {f"plurality {count}": fixed(count) for count in chosen}
display(ac.plots.curve_against_order({"worst of all": every, **curves}, orders=np.geomspace(1.05, 2000, 90)).figure)

# %% [markdown]
# The paper says that the worst plurality is near the threshold for orders below 80, and `k` above. It is not: it
# walks *down* from the threshold as the order grows, and ends at the least plurality. Looking at the threshold and at
# `k` alone under-reports what few queries cost.

# %%
display(ac.plots.worst_pair({"pluralities from 30": every, "from 0": screening}).figure)
for count in (1, 10, 100, QUERIES):
    honest = ac.epsilon(count * every, DELTA, method="renyi").epsilon
    two = max(
        ac.epsilon(count * fixed(plurality), DELTA, method="renyi").epsilon for plurality in (THRESHOLD, VOTES - 1)
    )
    print(f"{count:5d} screenings: all pluralities {honest:.4f}, threshold and k alone {two:.4f}")

# %% [markdown]
# ## Figure 8: the same pluralities after many subsampled screenings

# %%
lines = [ac.plots.Line(f"plurality {count}", fixed(count, RATE), "classic") for count in chosen]
display(
    ac.plots.epsilon_against_releases(lines, QUERIES, delta=DELTA, title="Figure 8: screenings of one plurality").figure
)

# %% [markdown]
# Here the paper is right: after thousands of screenings small orders set epsilon, and there the threshold is worst.
#
# ## Table 1: digits and CIFAR-10
#
# Sections 4.1 and 4.2 print the parameters of the rows called *Ours*; they are plans that come with the package. The
# rows of LNMAX and GNMAX are data-dependent costs of other runs, whose votes and noise the paper does not print.

# %%
PRINTED = {"private-knn-mnist": 0.47, "private-knn-svhn": 0.49, "private-knn-cifar10": 2.92}
rows = []
for name, printed in PRINTED.items():
    plan = ac.load_plan(name)
    rows.append((name, printed, *routes(plan.composition, plan.delta)))
show(rows, "Table 1", columns)

# %% [markdown]
# None of the printed values follows from the printed parameters: MNIST and CIFAR-10 cost more, SVHN less.
# Known differences between the paper, its proofs and its published code, any of which would move these numbers:
#
# * the curve of Lemma 11 is printed without its factor, the order, and the sensitivity of votes is called 2: that is
#   its L1 norm, the L2 norm is the square root of 2;
# * the code draws samples of fixed size with replacement, one for both steps; the proofs assume Poisson samples,
#   afresh for each step;
# * the noise accounted for in the code belongs to other settings than the noise drawn;
# * the text counts 2919 answers for SVHN, the table 2939.
#
# We tried other readings of the text. None explains all three rows:

# %%
READINGS = {
    "as printed": (1, 1),
    "screenings alone": (1, 0),
    "votes alone": (0, 1),
    "every query screened and answered": (1, None),
}
rows = []
for reading, (screenings, votes) in READINGS.items():
    cells = []
    for name in PRINTED:
        first, second = ac.load_plan(name).releases
        answers = first.count if votes is None else votes * second.count
        run = screenings * first.count * first.event + answers * second.event
        cells.append(ac.epsilon(run, DELTA, conversion="classic").epsilon)
    rows.append((reading, *cells))
for reading, sensitivity in (("votes of L2-sensitivity 1", 1.0), ("votes of L2-sensitivity 2", 2.0)):
    cells = []
    for name in PRINTED:
        first, second = ac.load_plan(name).releases
        vote = ac.PoissonSubsampled(ac.Gaussian(second.event.event.sigma, sensitivity), second.event.rate)
        run = first.count * first.event + second.count * vote
        cells.append(ac.epsilon(run, DELTA, conversion="classic").epsilon)
    rows.append((reading, *cells))
rows.append(("printed", *PRINTED.values()))
show(rows, "Table 1 under other readings, classic conversion", ("reading", "MNIST", "SVHN", "CIFAR-10"))

# %% [markdown]
# ## Table 3: several labels at once
#
# Votes for many binary labels are clipped to an L1 norm of `tau = 10`. Theorem 13 prices them with squared
# L2-sensitivity `2 tau`. The printed values follow from an L2-sensitivity of 8 instead, which is no function of
# `tau = 10` that the paper gives.

# %%
PRINTED = {
    "gnmax-celeba-1": 7.72,
    "gnmax-celeba-2": 3.31,
    "private-knn-celeba-1": 1.24,
    "private-knn-celeba-2": 1.20,
    "gnmax-market1501-1": 13.41,
    "gnmax-market1501-2": 1.41,
    "private-knn-market1501-1": 0.67,
    "private-knn-market1501-2": 1.38,
}
rows = []
for name, printed in PRINTED.items():
    plan = ac.load_plan(name)
    (votes,) = plan.releases
    rate = getattr(votes.event, "rate", 1.0)
    noise = getattr(votes.event, "event", votes.event).sigma
    reading = votes.count * ac.PoissonSubsampled(ac.Gaussian(noise, sensitivity=8.0), rate)
    other = ac.epsilon(reading, plan.delta, conversion="classic").epsilon
    rows.append((name, printed, other, *routes(plan.composition, plan.delta)))
show(rows, "Table 3, squared L2-sensitivity 2 tau", ("", "printed", "if 8", *columns[2:]))

# %% [markdown]
# The text prints 1.414 and 1.377 where the table has 1.41 and 1.38, and this reading gives just that. 13.41 and 0.67
# seem to be cut off rather than rounded. No reading that we know gives 1.20.
