"""What unanswered images teach a student: its answers must not change where the image hardly does."""

from __future__ import annotations

import math
from typing import Any

from mechanisms.validation import require

__all__ = ["annealing_threshold", "augmentation_loss", "divergence", "perturbation"]

ANNEALING = ("none", "linear", "log", "exp")
"""Schedules of training signal annealing."""


def divergence(p: Any, q: Any) -> Any:
    """KL(p || q) for each pair of rows of logits."""
    log = require("torch", "torch").nn.functional.log_softmax
    log_p, log_q = log(p, dim=1), log(q, dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def perturbation(network: Any, pixels: Any, logits: Any, radius: float, step: float, generator: Any) -> Any:
    """Steps of norm `radius` in which the network's answer changes most (Miyato et al. 2018, Algorithm 1).

    One power iteration for the leading eigenvector of the Hessian of the divergence: the product of the Hessian with a
    random direction is a gradient at a small step. If the gradient is 0 in single precision, the random direction is
    kept.
    """
    torch = require("torch", "torch")
    noise = torch.randn(pixels.shape, generator=generator, device="cpu", dtype=pixels.dtype).to(pixels.device)
    start = _unit(noise, noise).requires_grad_()
    (gradient,) = torch.autograd.grad(divergence(logits, network(pixels + step * start)).sum(), start)
    return radius * _unit(gradient, start.detach())


def augmentation_loss(logits: Any, changed: Any, confidence: float, temperature: float) -> Any:
    """Mean over images of KL(p(. | x) || p(. | changed x)), p sharpened and fixed; 0 where x is unsure.

    Xie et al. 2020, eq. 1 with section 2.4: an image counts if its largest probability is at least `confidence`; the
    mean is over all.
    """
    torch = require("torch", "torch")
    fixed = logits.detach()
    sure = torch.softmax(fixed, dim=1).amax(dim=1) >= confidence
    return (divergence(fixed / temperature, changed) * sure).mean()


def annealing_threshold(schedule: str, progress: float, n_classes: int) -> float:
    """Largest probability of its label up to which an answered image still teaches (Xie et al. 2020, section 2.3).

    It grows from 1/c to 1 with the share `progress` of the training that is done.
    """
    if schedule == "none":
        return math.inf
    share = {
        "linear": progress,
        "log": 1 - math.exp(-5 * progress),
        "exp": math.exp(5 * (progress - 1)),
    }[schedule]
    return share * (1 - 1 / n_classes) + 1 / n_classes


def _unit(vectors: Any, instead: Any) -> Any:
    """Each image scaled to norm 1, or `instead` where it is 0; the first division avoids underflow of squares."""
    largest = vectors.abs().amax(dim=(1, 2, 3), keepdim=True)
    vectors = require("torch", "torch").where(largest > 0, vectors / largest, instead)
    return vectors / vectors.square().sum(dim=(1, 2, 3), keepdim=True).sqrt()
