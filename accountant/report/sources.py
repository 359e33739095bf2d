"""How the numbers of a report were computed: docstrings of events, methods in words, and references."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterable
from importlib import resources
from string import Template

from accountant.events.event import Event
from accountant.events.subsampled import PoissonSubsampled
from accountant.guarantee import Guarantee
from accountant.plan import Plan

__all__ = ["ROUTES", "describe", "items", "references", "sources"]

ROUTES = {
    "classic": ("Rényi, classic conversion", "Mironov 2017, Prop. 3"),
    "improved": ("Rényi, improved conversion", "Canonne, Kamath & Steinke 2020, Prop. 12"),
    "optimal": ("Rényi, optimal conversion", "Asoodeh et al. 2021, Thm 2"),
}
"""Names of conversions, and the theorems behind them."""

TIGHT = {
    "closed form": "the privacy profile of the whole plan in closed form, inverted",
    "sum over": "the privacy profile of all Gaussian noise, summed over the losses of all other releases, inverted",
    "pure-DP limit": "the largest privacy loss that can occur",
    "privacy-loss distribution": "distributions of the privacy loss on a grid, one from above (Doroshenko et al. 2022) "
    "and one from below, composed by Fourier transform",
    "blocks of screenings": "a block of screenings between the pair of distributions whose profile is the value of the "
    "game of that block, and an adversary who shows the same pair of counts all the time",
    "dynamic programme": "the game in which an adversary picks another vote count before every screening, solved "
    "backwards, with interpolation from above and tests from below",
}
"""How the tight route found its interval, by a phrase in `Guarantee.source`."""

REFERENCES = {
    "Asoodeh et al. 2021": "S. Asoodeh, J. Liao, F. Calmon, O. Kosut, L. Sankar. Three variants "
    "of differential privacy: lossless conversion and applications. IEEE JSAIT, 2021.",
    "Balle, Barthe & Gaboardi 2018": "B. Balle, G. Barthe, M. Gaboardi. Privacy amplification by subsampling: tight "
    "analyses via couplings and divergences. NeurIPS 2018.",
    "Balle & Wang 2018": "B. Balle, Y.-X. Wang. Improving the Gaussian mechanism for differential privacy: analytical "
    "calibration and optimal denoising. ICML 2018.",
    "Bun & Steinke 2016": "M. Bun, T. Steinke. Concentrated differential privacy: simplifications, extensions, and "
    "lower bounds. TCC 2016.",
    "Canonne, Kamath & Steinke 2020": "C. Canonne, G. Kamath, T. Steinke. The discrete Gaussian for differential "
    "privacy. NeurIPS 2020.",
    "Chan, Shi & Song 2011": "T.-H. H. Chan, E. Shi, D. Song. Private and continual release of statistics. "
    "ACM TISSEC 14, 2011.",
    "Choquette-Choo et al. 2023": "C. Choquette-Choo, A. Ganesh, R. McKenna, H. B. McMahan, K. Rush, A. Thakurta, "
    "Z. Xu. (Amplified) banded matrix factorization: a unified approach to private training. NeurIPS 2023.",
    "Choquette-Choo et al. 2024": "C. Choquette-Choo, A. Ganesh, T. Steinke, A. Thakurta. Privacy amplification for "
    "matrix mechanisms. ICLR 2024.",
    "Chua et al. 2024": "L. Chua, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi, A. Sinha, C. Zhang. How private are "
    "DP-SGD implementations? ICML 2024.",
    "Denisov et al. 2022": "S. Denisov, H. B. McMahan, K. Rush, A. Smith, A. Thakurta. Improved differential privacy "
    "for SGD via optimal private linear operators on adaptive streams. NeurIPS 2022.",
    "Ding et al. 2021": "Z. Ding, D. Kifer, T. Steinke, Y. Wang, Y. Xiao, D. Zhang. The permute-and-flip mechanism is "
    "identical to report-noisy-max with exponential noise. arXiv:2105.07260, 2021.",
    "Dong, Roth & Su 2022": "J. Dong, A. Roth, W. Su. Gaussian differential privacy. JRSS B 84, 2022.",
    "Dong, Durfee & Rogers 2020": "J. Dong, D. Durfee, R. Rogers. Optimal differential privacy composition for "
    "exponential mechanisms. ICML 2020.",
    "Doroshenko et al. 2022": "V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi. Connect the dots: tighter "
    "discrete approximations of privacy loss distributions. PoPETs 2022.",
    "Dwork & Roth 2014": "C. Dwork, A. Roth. The algorithmic foundations of differential privacy. Foundations and "
    "Trends in Theoretical Computer Science 9, 2014.",
    "Feldman & Shenfeld 2025": "V. Feldman, M. Shenfeld. Privacy amplification by random allocation. "
    "arXiv:2502.08202, 2025.",
    "Ganesh 2025": "A. Ganesh. Tighter privacy analysis for truncated Poisson sampling. arXiv:2508.15089, 2025.",
    "Ghazi et al. 2020": "B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh. Private counting from anonymous messages: "
    "near-optimal accuracy with vanishing communication overhead. ICML 2020.",
    "Ghosh, Roughgarden & Sundararajan 2012": "A. Ghosh, T. Roughgarden, M. Sundararajan. Universally "
    "utility-maximizing privacy mechanisms. SIAM J. Comput. 41, 2012.",
    "Kairouz, Oh & Viswanath 2015": "P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential "
    "privacy. ICML 2015.",
    "Kairouz, Bonawitz & Ramage 2016": "P. Kairouz, K. Bonawitz, D. Ramage. Discrete distribution estimation under "
    "local privacy. ICML 2016.",
    "Liu & Talwar 2019": "J. Liu, K. Talwar. Private selection from private candidates. STOC 2019.",
    "Lyu, Su & Li 2017": "M. Lyu, D. Su, N. Li. Understanding the sparse vector technique for differential privacy. "
    "PVLDB 10, 2017.",
    "McKenna & Sheldon 2020": "R. McKenna, D. Sheldon. Permute-and-flip: a new mechanism for differentially private "
    "selection. NeurIPS 2020.",
    "Mironov 2017": "I. Mironov. Rényi differential privacy. CSF 2017.",
    "Mironov, Talwar & Zhang 2019": "I. Mironov, K. Talwar, L. Zhang. Rényi differential privacy of the sampled "
    "Gaussian mechanism. arXiv:1908.10530, 2019.",
    "Papernot et al. 2017": "N. Papernot et al. Semi-supervised knowledge transfer for deep learning from private "
    "training data. ICLR 2017.",
    "Papernot et al. 2018": "N. Papernot et al. Scalable private learning with PATE. ICLR 2018.",
    "Papernot & Steinke 2022": "N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. "
    "ICLR 2022.",
    "Schuchardt et al. 2024": "J. Schuchardt, M. Stoian, A. Kosmala, S. Günnemann. Unified mechanism-specific "
    "amplification by subsampling and group privacy amplification. NeurIPS 2024.",
    "Steinke 2022": "T. Steinke. Composition of differential privacy & privacy amplification by subsampling. "
    "arXiv:2210.00597, 2022.",
    "Wang et al. 2021": "S. Wang, J. Li, Y. Qian, J. Du, W. Lin, W. Yang. Hiding numerical vectors in local private "
    "and shuffled messages. IJCAI 2021.",
    "Wang et al. 2022": "S. Wang, Y. Li, Y. Wang, J. Li, Y. Qian, B. Xin, W. Yang. Fine-grained private knowledge "
    "distillation. arXiv:2207.13253, 2022.",
    "Wang et al. 2023": "S. Wang, Y. Peng, J. Li, et al. Privacy amplification via shuffling: unified, simplified, and "
    "tightened. arXiv:2304.05007, 2023.",
    "Zhu, Dong & Wang 2022": "Y. Zhu, J. Dong, Y.-X. Wang. Optimal accounting of differential privacy via "
    "characteristic function. AISTATS 2022.",
    "Zhu et al. 2020": "Y. Zhu, X. Yu, M. Chandraker, Y.-X. Wang. Private-kNN: practical differential privacy for "
    "computer vision. CVPR 2020.",
    "Zhu & Wang 2020": "Y. Zhu, Y.-X. Wang. Improving sparse vector technique with Rényi differential privacy. "
    "NeurIPS 2020.",
}
"""Works that pages cite, by authors and year; notebooks/references.bib has all that the package cites."""


def items(lines: Iterable[str]) -> str:
    """Items of an HTML list; the lines are HTML."""
    return "\n".join(f"<li>{line}</li>" for line in lines)


def references(page: str) -> str:
    """Items of a list of the works that a page cites."""
    return items(html.escape(full) for short, full in REFERENCES.items() if html.escape(short) in page)


def sources(plan: Plan, tight: Guarantee | str) -> str:
    """How each number was computed; `tight`: the tight price, or why there is none."""
    kinds: dict[type[Event], list[str]] = {}
    for release in plan.releases:
        event = release.event
        for kind in dict.fromkeys((type(event), type(event.unsampled))):
            kinds.setdefault(kind, []).append(release.name)
    blocks = []
    for kind in sorted(kinds, key=lambda each: each is PoissonSubsampled):  # last
        title = html.escape(f"{_split_words(kind.__name__)}: {', '.join(kinds[kind])}")
        blocks.append(f"<h3>{title}</h3>\n{describe(kind)}")
    how = ""
    if not isinstance(tight, str):
        ways = [words for name, words in TIGHT.items() if name in (tight.source or "")] or [tight.source or ""]
        how = (
            "<h3>The tight interval</h3>\n<p>Both ends are certified, rounding included; found by "
            f"{html.escape('; and '.join(ways))}. It holds for the plan as written; the page does not compute it for "
            "other values.</p>"
        )
    common = resources.files("accountant.report.page").joinpath("how.html").read_text("utf-8")
    return "\n".join([*blocks, Template(common).substitute(tight=how)])


def _split_words(name: str) -> str:
    """A class's name in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def describe(kind: type[Event]) -> str:
    """The docstring of an event class up to its parameters, as HTML paragraphs."""
    about = re.split(r"\n+Parameters\n-+\n", inspect.getdoc(kind) or "")[0]
    # the reader of a page does not have the documentation's files
    about = re.sub(r"\s+\(notebooks/mathematics\.md,[^()]*\)|[;,]?\s*notebooks/mathematics\.md,[^();.]*", "", about)
    blocks = []
    for block in re.split(r"\n\n+", about):
        words = html.escape(block)
        if block.startswith("    "):
            blocks.append(f"<pre>{inspect.cleandoc(words)}</pre>")
        else:
            words = re.sub(r"``(.+?)``|`(.+?)`", lambda code: f"<code>{code[1] or code[2]}</code>", words, flags=re.S)
            blocks.append(f"<p>{' '.join(words.split())}</p>")
    return "\n".join(blocks)
