"""A convolutional student with virtual adversarial training (Zhu et al. 2020, section 3, step 4, and App. E)."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

import accountant as ac
from mechanisms.arrays import Integers, Singles
from mechanisms.students.network import check_answers
from mechanisms.validation import check_count, check_features, check_fitted, check_positive, check_real, require

__all__ = ["ConvStudent"]

IMAGES_AT_ONCE = 256
"""Images that `predict` holds in memory at once."""


class ConvStudent:
    """A student of answered and unanswered public images; its last hidden layer is the next round's feature map.

    It minimises, over public images x of which some have a released label y (Miyato et al. 2018, eq. 8)::

        mean of -log p(y | x) over answered x  +  vat_weight * mean of KL(p(. | x) || p(. | x + r)) over all x

    where r, of L2 norm `vat_radius`, is the direction in which the divergence grows fastest, found by one power
    iteration (their Algorithm 1). It uses only released labels and public images, so it costs no privacy.

    The network is that of Zhu et al. 2020: Table 4 for grey images, Table 5 for colour images.

    Parameters
    ----------
    images : tuple of int
        (height, width) or (height, width, 3), each side at least 8.
    n_classes : int
    epochs : int
        Passes over all public images.
    learning_rate : float
        Learning rate of Adam; it falls linearly to 0 over the last third of the steps.
    batch_size : int
        Images in each step of the second term; the first term takes a quarter as many answered images.
    vat_radius : float or None
        Norm of r for pixels in [0, 1]; None is sqrt(d) / 14 for d pixels, which for MNIST is 2, as in Miyato et al.
    vat_finite_difference : float
        Norm of the random step at which the gradient for r is computed. Their 1e-6 finds a weaker r in single
        precision, in which pixels near 1 are 6e-8 apart.
    vat_weight : float
        Weight of the second term; 0 trains on answered images only.
    rng : int or None
        Seed; None draws a fresh one. The same seed, data and number of threads give the same network.

    Attributes
    ----------
    network_ : torch.nn.Sequential
        Its last layer gives the logits. All layers are the same in training and prediction.

    Raises
    ------
    accountant.ParameterError
        A parameter is not as described.
    accountant.MissingExtra
        PyTorch is not installed.
    """

    def __init__(
        self,
        images: tuple[int, ...],
        n_classes: int,
        *,
        epochs: int = 100,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        vat_radius: float | None = None,
        vat_finite_difference: float = 1e-2,
        vat_weight: float = 1.0,
        rng: int | None = 0,
    ) -> None:
        self.images = _check_images(images)
        self.n_classes = check_count("n_classes", n_classes, 2)
        self.epochs = check_count("epochs", epochs, 1)
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.batch_size = check_count("batch_size", batch_size, 1)
        radius = math.sqrt(math.prod(self.images)) / 14 if vat_radius is None else vat_radius
        self.vat_radius = check_positive("vat_radius", radius)
        self.vat_finite_difference = check_positive("vat_finite_difference", vat_finite_difference)
        self.vat_weight = check_real("vat_weight", vat_weight, "a finite number >= 0", lambda w: 0 <= w < math.inf)
        self.rng = None if rng is None else check_count("rng", rng, 0, 2**63 - 1)
        _torch()  # fail here, not after labels have been paid for

    def fit(self, X: object, y: object) -> Self:
        """Train on public images from random weights.

        Parameters
        ----------
        X : array of shape (m, d)
            All public images, flattened; pixels in [0, 1].
        y : array of shape (m,)
            Released labels 0..c-1, and -1 where there is none.

        Raises
        ------
        accountant.ParameterError
            An array is not as described, no label was released, or the training diverged.
        """
        features = self._check_pixels(X)
        answers = check_answers(y, len(features))
        if answers.max() >= self.n_classes:
            raise ac.ParameterError(f"y holds the label {answers.max()}; accepted: -1..{self.n_classes - 1}")
        generator = _torch().Generator()
        if self.rng is None:
            generator.seed()
        else:
            generator.manual_seed(self.rng)
        self.network_ = self._train(features, answers, generator)
        return self

    def predict(self, X: object) -> Integers:
        """The most probable labels of images.

        Raises
        ------
        accountant.ParameterError
            `fit` was not called, or `X` is not as described there.
        """
        features = self._check_pixels(X)
        labels: Integers = np.argmax(self._outputs(features, "predict", layers=None), axis=1)
        return labels

    def transform(self, X: object) -> Singles:
        """Activations of the last hidden layer, of shape (n, 192); parameters and errors as for `predict`.

        One image at a time: the rounding of a private record's features must not depend on other records.
        """
        return self._outputs(self._check_pixels(X), "transform", layers=-1, batch=1)

    def _check_pixels(self, X: object) -> Singles:
        features = check_features(X)
        width = math.prod(self.images)
        if features.shape[1] != width:
            raise ac.ParameterError(
                f"X has {features.shape[1]} columns; accepted: {width}, as images of shape {self.images}"
            )
        inside = ((features >= 0) & (features <= 1)).all(axis=1)
        if not inside.all():
            raise ac.ParameterError(f"X[{int(np.argmin(inside))}] has pixels out of range; accepted: [0, 1]")
        return features

    def _tensor(self, features: Singles) -> Any:
        """A batch of images as a tensor of shape (n, channels, height, width)."""
        height, width, *channels = self.images
        images = features.reshape(len(features), height, width, *channels or (1,))
        return _torch().tensor(images, device="cpu").permute(0, 3, 1, 2)

    def _outputs(self, features: Singles, name: str, layers: int | None, batch: int = IMAGES_AT_ONCE) -> Singles:
        check_fitted(hasattr(self, "network_"), f"{name}(X)")
        part = self.network_[:layers]
        with _torch().no_grad():
            pieces = (features[i : i + batch] for i in range(0, max(len(features), 1), batch))
            return np.concatenate([part(self._tensor(piece)).numpy() for piece in pieces])

    def _train(self, features: Singles, answers: Integers, generator: Any) -> Any:
        torch = _torch()
        network = _network(self.images, self.n_classes, generator)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        answered, labelled = np.flatnonzero(answers >= 0), max(1, self.batch_size // 4)
        steps, done = self.epochs * math.ceil(len(features) / self.batch_size), 0
        for _ in range(self.epochs):
            order = torch.randperm(len(features), generator=generator, device="cpu")
            for rows in order.split(self.batch_size):
                optimizer.param_groups[0]["lr"] = self.learning_rate * min(1.0, 3 * (1 - done / steps))
                drawn = torch.randint(len(answered), (labelled,), generator=generator, device="cpu")
                chosen = answered[drawn.numpy()]
                logits = network(self._tensor(features[chosen]))
                loss = torch.nn.functional.cross_entropy(logits, torch.tensor(answers[chosen], device="cpu"))
                if self.vat_weight:
                    loss = loss + self.vat_weight * self._roughness(network, features[rows.numpy()], generator)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                done += 1
            if not all(weights.isfinite().all() for weights in network.parameters()):
                raise ac.ParameterError(f"learning_rate = {self.learning_rate!r} diverges; accepted: a smaller one")
        return network

    def _roughness(self, network: Any, features: Singles, generator: Any) -> Any:
        """Mean of KL(p(. | x) || p(. | x + r)) for fixed p(. | x) and r (Miyato et al. 2018, eq. 5 to 7)."""
        pixels = self._tensor(features)
        with _torch().no_grad():
            logits = network(pixels)
        r = _perturbation(network, pixels, logits, self.vat_radius, self.vat_finite_difference, generator)
        return _divergence(logits, network(pixels + r)).mean()


def _divergence(p: Any, q: Any) -> Any:
    """KL(p || q) for each pair of rows of logits."""
    log = _torch().nn.functional.log_softmax
    log_p, log_q = log(p, dim=1), log(q, dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def _perturbation(network: Any, pixels: Any, logits: Any, radius: float, step: float, generator: Any) -> Any:
    """Steps of norm `radius` in which the network's answer changes most (Miyato et al. 2018, Algorithm 1).

    One power iteration for the leading eigenvector of the Hessian of the divergence: the product of the Hessian with a
    random direction is a gradient at a small step. If the gradient is 0 in single precision, the random direction is
    kept.
    """
    torch = _torch()
    noise = torch.randn(pixels.shape, generator=generator, device="cpu", dtype=pixels.dtype)
    start = _unit(noise, noise).requires_grad_()
    (gradient,) = torch.autograd.grad(_divergence(logits, network(pixels + step * start)).sum(), start)
    return radius * _unit(gradient, start.detach())


def _unit(vectors: Any, instead: Any) -> Any:
    """Each image scaled to norm 1, or `instead` where it is 0; the first division avoids underflow of squares."""
    largest = vectors.abs().amax(dim=(1, 2, 3), keepdim=True)
    vectors = _torch().where(largest > 0, vectors / largest, instead)
    return vectors / vectors.square().sum(dim=(1, 2, 3), keepdim=True).sqrt()


def _network(images: tuple[int, ...], n_classes: int, generator: Any) -> Any:
    """Random network of Zhu et al. 2020, Table 4 (grey) or Table 5 (colour).

    What the tables leave open is as in the networks of PATE, which they replicate: zero padding keeps the size, and
    the third and sixth of the seven convolutions have stride 2.
    """
    nn = _torch().nn
    blank = {"device": "meta", "dtype": _torch().float32}  # PyTorch's own initialisation would draw from a global seed

    def conv(channels: int, filters: int, size: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(channels, filters, size, stride, size // 2, **blank), nn.ReLU()]

    def full(inputs: int, outputs: int) -> list[Any]:
        return [nn.Linear(inputs, outputs, **blank), nn.ReLU()]

    area = math.ceil(images[0] / 4) * math.ceil(images[1] / 4)
    if len(images) == 2:
        pool = nn.MaxPool2d(2, ceil_mode=True)
        layers = [*conv(1, 64, 5), pool, *conv(64, 128, 5), pool, nn.Flatten(), *full(128 * area, 384), *full(384, 192)]
    else:
        layers = [*conv(3, 96, 3), *conv(96, 96, 3), *conv(96, 96, 3, 2)]
        layers += [*conv(96, 192, 3), *conv(192, 192, 3), *conv(192, 192, 3, 2)]
        layers += [*conv(192, 192, 5), nn.Flatten(), *full(192 * area, 192), *full(192, 192)]
    network = nn.Sequential(*layers, nn.Linear(192, n_classes, **blank)).to_empty(device="cpu")
    for layer in network:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
    return network


def _check_images(images: object) -> tuple[int, ...]:
    sides = images if isinstance(images, tuple) else ()
    whole = all(isinstance(side, int | np.integer) and not isinstance(side, bool) for side in sides)
    if not whole or len(sides) not in (2, 3) or min(sides[:2]) < 8 or sides[2:] not in ((), (3,)):
        raise ac.ParameterError(f"images = {images!r}; accepted: (height, width) or (height, width, 3), sides >= 8")
    return tuple(int(side) for side in sides)


def _torch() -> Any:
    return require("torch", "torch")
