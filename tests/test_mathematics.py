"""The page of the mathematics: what it says is true, what it names exists, and every citation resolves."""

import itertools
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

import accountant as ac
import mechanisms as mx
from accountant.plan import load_plan
from accountant.report.sources import REFERENCES
from mechanisms.local_reports.by_name import local_randomizer
from tests.bibliography import PAGE, ROOT, TITLE, citations, plain, rendered, works
from tests.reference import definitions, integrals

TEXT = PAGE.read_text("utf-8")
FOLDERS = ("accountant", "mechanisms", "tests", "benchmarks", "notebooks")
ENDINGS = {".py", ".md", ".html", ".js", ".toml", ".rst"}
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS)


# --- the page --------------------------------------------------------------------------------------------


def headings() -> list[str]:
    """Headings of sections, but for the title and the parts that only group others."""
    found = re.findall(r"^(##+) (.*)$", TEXT, re.MULTILINE)
    following = [level for level, _ in found[1:]] + ["##"]
    return [name for (level, name), below in zip(found, following, strict=True) if len(below) <= len(level)]


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_contents_and_links_name_every_heading():
    contents = TEXT.partition("**Contents**")[2].partition("**Conventions.**")[0]
    listed = re.findall(r"\[([^]]+)\]\(#([^)]+)\)", contents)
    assert [name for name, _ in listed if anchor(name) != _] == []
    assert sorted(name for name, _ in listed) == sorted(headings())
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= {anchor(name) for name in headings()}


def test_docstrings_point_at_headings_that_exist():
    known, pointers = headings(), 0
    for path in SOURCES:
        flowing = re.sub(r"\s*\n\s*(?:#|//)?\s*", " ", path.read_text("utf-8"))
        for pointer in re.findall(r"mathematics\.md, ([^`\"]{1,80})", flowing):
            pointers += 1
            assert pointer.startswith("<heading>") or any(pointer.startswith(name) for name in known), (path, pointer)
    assert pointers > 5


def test_tests_that_the_page_names_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 50
    for file, test in named:
        assert re.search(rf"^ *def {test}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), f"{file}::{test}"


def test_every_erratum_names_a_test():
    found = [entry for part in ("the papers", "published code") for entry in errata(part)]
    assert len(found) > 40
    assert [entry for entry in found if not re.search(r"\n  Tests?: `tests/", entry)] == []


def errata(part: str) -> list[str]:
    """Entries of one list."""
    section = TEXT.partition(f"\n## Errata of {part}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\* .*(?:\n  .*)*", section, re.MULTILINE)


@pytest.mark.parametrize("row", re.findall(r"^\| `([^`]+)`[^|]*\| ([\d.e+-]+) \|$", TEXT, re.MULTILINE))
def test_exact_values(row):
    expression, value = row
    assert float(eval(expression, {"ac": ac, "math": math})) == pytest.approx(float(value), rel=1e-10)


# --- the bibliography ------------------------------------------------------------------------------------


@cache
def cited_as() -> dict[str, list[str]]:
    """Keys of the works that a citation may mean."""
    found: dict[str, list[str]] = {}
    for work in works():
        for label in work.labels:
            found.setdefault(label, []).append(work.key)
    return found


def test_the_list_of_references_is_that_of_the_bibliography():
    assert TEXT.endswith(f"\n{rendered()}"), "python -m tests.bibliography writes it"


def test_entries_are_whole_and_differ():
    keys = [work.key for work in works()]
    assert len(keys) == len(set(keys)) > 60
    for work in works():
        assert {"author", "title", "year"} <= set(work.fields), work.key
        assert {"booktitle", "journal", "publisher", "howpublished"} & set(work.fields), work.key
        assert work.key.startswith(re.sub(r"\W", "", plain(work.authors[0][0])).lower()), work.key
    assert [keys for keys in cited_as().values() if len(keys) > 1] == []


def text_of(path: Path) -> str:
    return path.read_text("utf-8").partition(f"\n{TITLE}")[0] if path == PAGE else path.read_text("utf-8")


@pytest.mark.parametrize("folder", [*FOLDERS, "README.md"])
def test_every_citation_resolves(folder):
    paths = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == folder] or [ROOT / folder]
    unknown = {(path.name, name) for path in paths for name in citations(text_of(path)) if name not in cited_as()}
    assert unknown == set()


def test_every_work_is_cited():
    cited = {key for path in SOURCES for name in citations(text_of(path)) for key in cited_as().get(name, [])}
    assert {work.key for work in works()} - cited == set()


def test_the_matcher_finds_and_refuses():
    years = 2022, 1961, 2020, 2014  # kept apart, or this file would cite them
    text = "After Zhu,\n    Dong and Wang ({}), Thm 10; Rényi {}; NeurIPS {}; van Erven & Harremoës {}.".format(*years)
    found = citations(text)
    assert found == {f"Zhu, Dong & Wang {2022}", f"Renyi {1961}", f"van Erven & Harremoes {2014}"}
    assert found <= set(cited_as())
    assert f"Zhu, Dong & Else {2022}" not in cited_as()


def test_reports_list_works_as_the_bibliography_does():
    known = {label: work for work in works() for label in work.labels}
    for label, full in REFERENCES.items():
        work = known[plain(label)]
        title = re.sub(r"[{}`']", "", work.fields["title"]).partition(":")[0]
        assert plain(title).casefold() in plain(full).casefold(), label


def test_no_private_keys():
    place = r"(?:section|Alg\.|Algorithm|Thm|App\.|appendix|Prop\.|Def\.|Lemma|eq\.|Fig\.|Table)"
    pages = r"(?:accounting|mechanisms|peers|anchors|papers)\.md"
    private = re.compile(rf"(?:private|ind|reverse)-knn(?:-short|-supplement)?,? {place}|{pages}")
    left = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in SOURCES
        if path != Path(__file__)
        for found in private.finditer(re.sub(r"\s*\n\s*#?\s*", " ", path.read_text("utf-8")))
    ]
    assert left == []


# --- errata: Zhu et al. 2020 -----------------------------------------------------------------------------


def bernoulli(p: list, q: list, order: float) -> mpf:
    """The larger of both divergences."""
    return max(definitions.renyi(p, q, mpf(order)), definitions.renyi(q, p, mpf(order)))


@cache
def screening_bits(low: int, high: int) -> list:
    return [definitions.screening_distribution(mpf(85), mpf(210), t) for t in range(low, high + 1)]


@pytest.mark.parametrize(("order", "worst"), [(2, 209), (50, 180), (100, 149), (1000, 30)])
def test_the_worst_pair_walks_away_from_the_threshold(order, worst):
    bits = screening_bits(30, 300)
    costs = [bernoulli(p, q, order) for p, q in itertools.pairwise(bits)]
    top = max(costs)
    first = next(t for t, cost in enumerate(costs, 30) if cost > top * (1 - mpf(10) ** -40))  # of mirror images
    assert first == worst
    assert float(ac.NoisyScreening(85, 210, 300, 30).renyi(float(order))) == pytest.approx(float(top), rel=1e-11)
    threshold_only, ends_only = max(costs[179], costs[180]), max(costs[0], costs[-1])
    assert max(threshold_only, ends_only) < top * (1 - mpf(10) ** -3) or worst in (209, 30)
    if order == 1000:
        assert float(ac.DataDependentScreening(85, 210, 210).renyi(math.inf)) == pytest.approx(0.0094310, abs=1e-7)
        assert float(ac.NoisyScreening(85, 210, 300, 30).renyi(math.inf)) == pytest.approx(0.0290891, abs=1e-7)


def test_small_samples_have_small_pluralities():
    """Fewer votes than k/c are feasible and cost more; k + 1 votes are not."""
    costs = [bernoulli(p, q, 1000) for p, q in itertools.pairwise(screening_bits(0, 301))]
    assert max(costs[:30]) > 1.1 * max(costs[30:300])
    assert float(ac.NoisyScreening(85, 210, 300).renyi(1000.0)) == pytest.approx(float(max(costs[:300])), rel=1e-11)
    beyond = ac.NoisyScreening(85, 320, 300)  # here the pair (k, k+1) would be the worst
    law = [definitions.screening_distribution(mpf(85), mpf(320), t) for t in (299, 300, 301)]
    assert bernoulli(law[1], law[2], 2) > bernoulli(law[0], law[1], 2)
    assert float(beyond.renyi(2.0)) == pytest.approx(float(bernoulli(law[0], law[1], 2)), rel=1e-11)


def test_lemma_11_lacks_its_order():
    rate, sigma = 0.1, 5.0
    largest = sigma**2 * math.log(1 / rate) / 2
    printed = 6 * rate**2 / sigma**2
    true = integrals.sampled_gaussian(mpf(sigma), mpf(1), mpf(rate), mpf(largest))
    assert printed < 0.5 * true < true < printed * largest
    assert float(ac.PoissonSubsampled(ac.Gaussian(sigma), rate).renyi(largest)) == pytest.approx(float(true), rel=1e-11)


def test_theorem_10_covers_none_of_the_settings():
    log_delta = math.log(1e5)
    for rate, sigmas, queries, answered in (
        (0.15, (75, 25), 1000, 735),
        (0.03, (200, 60), 6000, 2939),
        (0.2, (85, 20), 18_000, 3877),
    ):
        spare = min(sigmas) ** 2 * math.log(1 / rate) ** 2 - 2
        least = 4 * log_delta * sigmas[0] ** 2 / (rate**2 * spare)
        most = sigmas[0] ** 2 * log_delta / (3 * rate**2)
        most_answered = sigmas[1] ** 2 * log_delta / (6 * rate**2)
        assert not (rate < 0.1 and least <= queries <= most and answered <= most_answered)
        assert rate >= 0.1 or least > 7 * queries


def test_votes_move_by_the_root_of_two():
    """All samples of at most five records, labels in order of distance, with and without one of them."""
    k, moves = 3, []
    for size in range(1, 6):
        for labels in itertools.product(range(3), repeat=size):
            for gone in range(size):
                fewer = labels[:gone] + labels[gone + 1 :]
                moves.append(np.subtract(*(np.bincount(some[:k], minlength=3) for some in (labels, fewer))))
    assert max(np.abs(move).sum() for move in moves) == 2
    assert max(np.linalg.norm(move) for move in moves) == math.sqrt(2)
    event = mx.PrivateKNN(sampling_rate=1.0, vote_sigma=7.0).vote_event
    assert float(event.renyi(3.0)) == pytest.approx(3 * 2 / (2 * 7.0**2))


def clip(votes: np.ndarray, tau: float) -> np.ndarray:
    """Zhu et al. 2020, Def. 12."""
    return votes * np.minimum(tau / np.maximum(votes.sum(axis=1, keepdims=True), 1e-300), 1)


def test_clipped_votes_must_be_binary():
    tau = 2.0
    for votes, largest in (
        (np.array(list(itertools.product((0, 1), repeat=6))), 2 * tau),
        (np.array(list(itertools.product((0, 1, 5), repeat=4))), 2 * tau**2),
    ):
        clipped = clip(votes, tau)
        assert ((clipped[:, None] - clipped) ** 2).sum(axis=2).max() == pytest.approx(largest)
    assert float(mx.PrivateKNN(clip=tau, vote_sigma=3.0, sampling_rate=1.0).vote_event.renyi(5.0)) == pytest.approx(
        5 * tau / 3.0**2
    )


def test_table_3_follows_from_a_sensitivity_of_eight():
    printed = {
        "gnmax-celeba-1": 7.72,
        "gnmax-celeba-2": 3.31,
        "private-knn-celeba-1": 1.24,
        "private-knn-celeba-2": 1.20,
        "gnmax-market1501-1": 13.41,
        "gnmax-market1501-2": 1.41,
        "private-knn-market1501-1": 0.67,
        "private-knn-market1501-2": 1.38,
    }
    followed = []
    for name, value in printed.items():
        plan = load_plan(name)
        ((event, count),) = plan.composition
        noise = getattr(event, "event", event)
        assert noise.sensitivity == pytest.approx(math.sqrt(20))
        eight = ac.PoissonSubsampled(ac.Gaussian(noise.sigma, 8.0), getattr(event, "rate", 1.0))
        price = ac.epsilon(count * eight, plan.delta, conversion="classic").epsilon
        assert ac.epsilon(plan.composition, plan.delta, conversion="classic").epsilon < 0.6 * value
        followed += [name] if value in (math.floor(100 * price) / 100, round(price, 2)) else []
    assert set(printed) - set(followed) == {"private-knn-celeba-2"}


# --- errata: Zhu et al. 2023 -----------------------------------------------------------------------------


def test_algorithm_4_overspends():
    """Lines 11 to 15 as printed, and as Algorithm 3 has them, for a record of kernel 1 that is always selected."""
    budget, s1, s2, count = 0.1, 100.0, 0.4, 30
    printed, corrected = [budget, 0.0], [budget, 0.0]
    for _ in range(5):
        for state in (printed, corrected):
            if state[0] >= 1 / (2 * s1**2):
                state[0] -= 1 / (2 * s1**2)
                contribution = min(1.0, s2 * math.sqrt(2 * count * max(state[0], 0.0)))
                charge = contribution**2 / (2 * s2**2 * count)
                vote = contribution
                if state is printed:
                    charge = min(1 / (2 * s2**2 * count), s2 * math.sqrt(2 * count * state[0]))
                    vote = 1.0
                state[0] -= charge
                state[1] += 1 / (2 * s1**2) + vote**2 / (2 * s2**2 * count)
    assert printed[0] < 0
    assert printed[1] > 1.04 * budget
    assert corrected[0] >= -1e-15
    assert corrected[1] <= budget * (1 + 1e-12)
    model = mx.IndividualKNN(budget=budget, threshold=0.5, count_sigma=s1, vote_sigma=s2, n_classes=2, rng=0)
    model.fit([[1.0, 0.0]] * 30, [1] * 30).predict([[1.0, 0.0]] * 5)
    assert 0 <= model.budgets_.min() < 1e-4


def test_active_while_anything_is_left_overspends():
    """The count costs 1/(2 s1^2), more than this record ever had; ours is not selected."""
    budget, s1 = 0.01, 3.0
    assert 0 < budget < 1 / (2 * s1**2)
    model = mx.IndividualKNN(budget=budget, threshold=0.5, count_sigma=s1, vote_sigma=0.4, n_classes=2, rng=0)
    model.fit([[1.0, 0.0]] * 500, [1] * 500).predict([[1.0, 0.0]] * 20)
    assert set(model.budgets_) == {budget}
    assert model.counts_.max() < 50


def test_rbf_thresholds_fit_the_squared_width():
    """Fashion MNIST: cosine 0.60 is RBF 0.837 if nu^2 = e^1.5 (printed 0.82 to 0.84), and 0.961 if nu = e^1.5."""
    apart = 2 - 2 * 0.60  # |x - q|^2 of unit vectors
    squared, printed = (math.exp(-apart / width) for width in (math.exp(1.5), math.exp(3.0)))
    assert 0.82 < squared < 0.84 < 0.96 < printed
    assert math.exp(-4 / math.exp(3.0)) > 0.819  # the farthest that two unit vectors are apart
    # CIFAR-10: 0.25 to 0.28 select everything, 0.68 to 0.73 fit cosines from 0.14 to 0.30
    assert math.exp(-4 / math.exp(1.5)) > 0.28
    assert [1 + math.exp(1.5) * math.log(tau) / 2 for tau in (0.68, 0.73)] == pytest.approx([0.136, 0.295], abs=1e-3)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    counts = {}
    for name, kernel in {
        "cosine": {"kernel": "cosine", "threshold": 0.6},
        "squared": {"kernel": "rbf", "threshold": squared, "bandwidth": math.exp(0.75)},
        "printed": {"kernel": "rbf", "threshold": squared, "bandwidth": math.exp(1.5)},
    }.items():
        settings = {"budget": 1e8, "count_sigma": 1e-3, "vote_sigma": 1.0, "n_classes": 2, "rng": 0}
        model = mx.IndividualKNN(**settings, **kernel).fit(features, np.arange(400) % 2)
        model.predict(features[:20] + 1e-3)
        counts[name] = np.round(model.counts_)
    assert np.abs(counts["cosine"] - counts["squared"]).max() <= 1  # query vectors are not quite of unit length
    assert counts["cosine"].max() < 150 < 340 < counts["printed"].min()


def test_retrainings_that_exceed_two():
    rate, steps, delta = 256 / 50_000, 1953, 1e-5

    def trained(times: int, sigma: float) -> float:
        run = times * steps * ac.PoissonSubsampled(ac.Gaussian(sigma), rate)
        return ac.epsilon(run, delta, conversion="classic").epsilon

    sigma = ac.calibrate(
        lambda sigma: steps * ac.PoissonSubsampled(ac.Gaussian(sigma), rate), 1.5, delta, conversion="classic"
    )
    found = {times: trained(times, sigma) for times in (1, 2, 3, 6, 20)}
    assert found == pytest.approx({1: 1.5, 2: 1.928, 3: 2.326, 6: 3.293, 20: 6.209}, abs=1e-3)


# --- errata: Wang et al. 2022 ----------------------------------------------------------------------------


def test_balanced_connections_move_the_edges_of_others():
    """App. C: the best minimum of the queries' scores, by trying all connections; against prices that are public."""
    queries = np.array([0.0, 1.0])

    def balanced(records: list[float]) -> list[int]:
        similar = np.exp(-np.abs(np.array(records)[:, None] - queries))

        def least(edges: tuple[int, ...]) -> float:
            return min(sum(row[q] for row, edge in zip(similar, edges, strict=True) if edge == q) for q in (0, 1))

        return list(max(itertools.product((0, 1), repeat=len(records)), key=least))

    records, new = [0.5, 0.8, 0.9, 1.0, 1.2], -0.2
    before, after = balanced(records), balanced([*records, new])[:-1]
    assert sum(x != y for x, y in zip(before, after, strict=True)) >= 2

    def priced(records: list[float]) -> list[int]:
        return ((np.array(records)[:, None] - queries) ** 2 + [0.0, 0.3]).argmin(axis=1).tolist()

    assert priced([*records, new])[:-1] == priced(records)


def test_collision_beats_separation_where_figure_6_compares():
    queries, classes, neighbours, ones = 200, 50, 2, 2
    for epsilon in (0.5, 1.0, 2.0, 3.5, 5.0, 8.0):
        flat, apart = (
            local_randomizer(
                name, queries=queries, classes=classes, epsilon=epsilon, neighbours=neighbours, label_ones=ones
            ).mean_variance
            for name in ("collision", "separation")
        )
        assert flat < 0.2 * apart
        if epsilon == 3.5:
            assert (flat, apart) == pytest.approx((0.528, 5.417), abs=1e-3)


# --- errata: published code ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_a_published_pure_dp_curve_is_no_upper_bound(order):
    """(a-1) epsilon/a is below the divergence of randomized response, which is epsilon-DP."""
    true = definitions.renyi(*definitions.randomized_response(mpf(1), 1), mpf(order))
    assert (order - 1) / order < true
    assert float(ac.PureDP(1.0).renyi(order)) == pytest.approx(float(true), rel=1e-11)


def test_the_central_limit_is_no_upper_bound():
    rate, sigma, steps, delta = 0.01, 1.0, 10_000, 1e-5
    mu = rate * math.sqrt(steps * math.expm1(sigma**-2))
    limit = ac.epsilon(ac.GaussianDP(mu), delta, method="tight").epsilon
    exact = ac.epsilon(steps * ac.PoissonSubsampled(ac.Gaussian(sigma), rate), delta, method="tight", tolerance=1e-3)
    assert limit == pytest.approx(6.0071, abs=1e-4)
    assert exact.lower > 6.18 > limit


def test_the_improved_conversion_can_be_negative():
    run, delta = ac.PoissonSubsampled(ac.Gaussian(100.0), 1e-4), 0.1
    orders = np.arange(2.0, 64.0)
    raw = run.renyi(orders) + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    assert raw.min() < 0
    assert ac.epsilon(run, delta).epsilon == 0.0


# --- proofs ----------------------------------------------------------------------------------------------


def test_families_last_cost_most():
    """All orders of two single pairs and two steps of a family, on random two-point pairs; some are strictly below."""
    rng, gaps = np.random.default_rng(3), []
    for _ in range(30):
        laws = rng.uniform(0.05, 0.95, size=(5, 2))
        pairs = [((p, q), (1 - p, 1 - q)) for p, q in laws.tolist()]
        steps = {"C": [pairs[:1]], "D": [pairs[1:2]], "F": [pairs[2:]]}

        def value(order: str, u: float, steps: dict = steps) -> float:
            if not order:
                return max(1 - u, 0.0)
            (family,) = steps[order[0]]
            return max(sum(p * value(order[1:], u * q / p) for p, q in pair) for pair in family)

        u = float(rng.uniform(0.2, 3))
        last = value("CDFF", u)
        others = [value("".join(order), u) for order in sorted(set(itertools.permutations("CDFF")))]
        assert max(others) <= last * (1 + 1e-12)
        assert value("CDF", u) <= last * (1 + 1e-12)  # a release that does not take place
        gaps.append(1 - min(others) / last if last > 0 else 0.0)
    assert max(gaps) > 1e-3


@pytest.mark.parametrize("seed", range(20))
def test_facts_of_the_search_for_the_worst_pair(seed):
    """Convexity and concavity that the proof uses, by second differences at random points in high precision."""
    rng = np.random.default_rng(seed)
    with mp.workdps(300):
        a, g = 1 + mpf(float(10 ** rng.uniform(-2, 2))), mpf(float(rng.uniform(0.001, 1)))
        x, h, r = (mpf(float(each)) for each in (rng.uniform(-6, 6), rng.uniform(0.05, 2), rng.uniform(0.1, 4)))
        b, d = a - 1, mpf(10) ** -20

        def bend(f, at):
            return (f(at + d) - 2 * f(at) + f(at - d)) / d**2

        def phi(loss):
            return mp.expm1(a * loss) - a * mp.expm1(loss)

        assert bend(lambda z: mp.npdf(z) / mp.ncdf(z), x) > 0
        assert bend(lambda z: mp.log(mp.ncdf(z + h) / mp.ncdf(z)), x) > 0
        assert bend(lambda z: mp.log(1 - g + g * mp.exp(z)), x) >= 0
        assert bend(lambda w: -mp.log(1 - g + g * mp.exp(-w)), r) <= 0
        for sign in (1, -1):
            forwards = bend(lambda size, sign=sign: mp.log(phi(sign * size) / b), r)
            backwards = bend(lambda size, sign=sign: sign * size + mp.log(phi(-sign * size) / b), r)
            assert forwards < 0
            assert backwards < 0


def test_subsampling_of_a_profile_is_exact():
    """Both formulas, against the definition for a random pair of four outcomes."""
    rng, g = np.random.default_rng(5), mpf("0.3")
    p, q = ([mpf(float(each)) for each in law] for law in rng.dirichlet([1.0] * 4, size=2))
    mixed = definitions.mixture(p, q, g)
    for epsilon in (mpf("0.05"), mpf("0.2"), mpf("0.5")):
        inner = mp.log(1 + (mp.exp(epsilon) - 1) / g)
        ours = g * definitions.hockey_stick(p, q, inner)
        assert abs(definitions.hockey_stick(mixed, q, epsilon) - ours) < mpf(10) ** -40
        kept = 1 - (1 - g) * mp.exp(epsilon)
        lost = definitions.hockey_stick(q, mixed, epsilon)
        if kept > 0:
            outer = -mp.log(1 + (mp.exp(-epsilon) - 1) / g)
            assert abs(lost - kept * definitions.hockey_stick(q, p, outer)) < mpf(10) ** -40
        else:
            assert lost == 0
