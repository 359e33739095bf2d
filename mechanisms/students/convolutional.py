"""A convolutional student: virtual adversarial training or unsupervised data augmentation (Zhu et al. 2020, step 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np

import accountant as ac
from mechanisms.arrays import Floats, Integers, Singles
from mechanisms.students.architectures import NETWORKS, check_device, make_network
from mechanisms.students.augmentation import Augmentation
from mechanisms.students.consistency import (
    ANNEALING,
    annealing_threshold,
    augmentation_loss,
    divergence,
    perturbation,
)
from mechanisms.students.network import check_answers
from mechanisms.validation import check_count, check_features, check_fitted, check_positive, check_real, require

__all__ = ["ConvStudent"]

IMAGES_AT_ONCE = 256
"""Images that `predict` holds in memory at once."""

CONSISTENCIES = ("vat", "uda")


class ConvStudent:
    """A student of answered and unanswered public images; its last hidden layer is the next round's feature map.

    It minimises, over public images x of which some have a released label y::

        mean of -log p(y | x) over answered x  +  weight * mean of KL(p(. | x) || p(. | x')) over all x

    where p(. | x) in the second term is held fixed. With virtual adversarial training (Miyato et al. 2018, eq. 8)
    x' = x + r, where r, of L2 norm `vat_radius`, is the direction in which the divergence grows fastest, found by one
    power iteration (their Algorithm 1). With unsupervised data augmentation (Xie et al. 2020, eq. 1) x' is a strongly
    changed copy of x, p(. | x) is sharpened by `uda_temperature` and counts only where it is sure; answered images are
    changed as well, and drop out of the first term while they are learnt too fast (`uda_annealing`).

    It uses only released labels and public images, so it costs no privacy.

    Parameters
    ----------
    images : tuple of int
        (height, width) or (height, width, 3), each side at least 8.
    n_classes : int
    consistency : {"vat", "uda"}
        What x' is.
    network : {"paper", "32-64-128"}
        That of Zhu et al. 2020, Table 4 for grey images and Table 5 for colour images; or that of their section 4.2 for
        CIFAR-10, which takes a quarter of the time of Table 4's.
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
        Weight of the second term of "vat"; 0 trains on answered images only.
    uda_weight : float
        Weight of the second term of "uda"; 0 trains on answered images only, changed as `augmentation` says.
    uda_confidence : float
        Least probability of an image's most probable label at which the image counts in the second term; [0, 1].
    uda_temperature : float
        Logits of p(. | x) are divided by it; (0, 1], 1 does not sharpen.
    uda_annealing : {"none", "linear", "log", "exp"}
        Training signal annealing: an answered image counts while the probability of its label is at most a threshold,
        which grows over the training from 1/c to 1 so.
    augmentation : Augmentation or None
        Random changes of answered images, and with "uda" of x into x'. None: the default `Augmentation` with "uda",
        none with "vat".
    device : str
        "cpu", "cuda", "cuda:0" or another number, or "mps", where the network learns and answers.
    rng : int or None
        Seed; None draws a fresh one. All draws are made on the CPU, and so are the changes of images: they are the same
        on every device. On a CPU the same seed, data and number of threads give the same network; on other devices sums
        may be rounded in another order from run to run.

    Attributes
    ----------
    network_ : torch.nn.Sequential
        Its last layer gives the logits. All layers are the same in training and prediction. It stands on `device`; that
        of a pickled student on the CPU, where it can be read without the device.
    losses_ : float array of shape (epochs, 2)
        Means of both terms over the steps of each epoch, without the weight.

    Raises
    ------
    accountant.ParameterError
        A parameter is not as described, or PyTorch does not find the device.
    accountant.MissingExtra
        PyTorch is not installed.
    """

    def __init__(
        self,
        images: tuple[int, ...],
        n_classes: int,
        *,
        consistency: str = "vat",
        network: str = "paper",
        epochs: int = 100,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        vat_radius: float | None = None,
        vat_finite_difference: float = 1e-2,
        vat_weight: float = 1.0,
        uda_weight: float = 1.0,
        uda_confidence: float = 0.8,
        uda_temperature: float = 0.4,
        uda_annealing: str = "linear",
        augmentation: Augmentation | None = None,
        device: str = "cpu",
        rng: int | None = 0,
    ) -> None:
        self.images = _check_images(images)
        self.n_classes = check_count("n_classes", n_classes, 2)
        self.consistency = _check_choice("consistency", consistency, CONSISTENCIES)
        self.network = _check_choice("network", network, NETWORKS)
        self.epochs = check_count("epochs", epochs, 1)
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.batch_size = check_count("batch_size", batch_size, 1)
        radius = math.sqrt(math.prod(self.images)) / 14 if vat_radius is None else vat_radius
        self.vat_radius = check_positive("vat_radius", radius)
        self.vat_finite_difference = check_positive("vat_finite_difference", vat_finite_difference)
        self.vat_weight = _check_weight("vat_weight", vat_weight)
        self.uda_weight = _check_weight("uda_weight", uda_weight)
        self.uda_confidence = check_real("uda_confidence", uda_confidence, "[0, 1]", lambda p: 0 <= p <= 1)
        self.uda_temperature = check_real("uda_temperature", uda_temperature, "(0, 1]", lambda t: 0 < t <= 1)
        self.uda_annealing = _check_choice("uda_annealing", uda_annealing, ANNEALING)
        if augmentation is not None and not isinstance(augmentation, Augmentation):
            raise ac.ParameterError(f"augmentation = {ac.shorten(augmentation)}; accepted: an Augmentation, or None")
        self.augmentation = augmentation
        self.rng = None if rng is None else check_count("rng", rng, 0, 2**63 - 1)
        self.device = check_device(device)
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
        features = self.check_pixels(X)
        answers = check_answers(y, len(features))
        if answers.max() >= self.n_classes:
            raise ac.ParameterError(f"y holds the label {answers.max()}; accepted: -1..{self.n_classes - 1}")
        generator = _torch().Generator()
        if self.rng is None:
            generator.seed()
        else:
            generator.manual_seed(self.rng)
        network = make_network(self.network, self.images, self.n_classes, generator).to(self.device)
        with self._deterministic():
            self.losses_ = self._train(network, features, answers, generator)
        self.network_ = network
        return self

    def predict(self, X: object) -> Integers:
        """The most probable labels of images.

        Raises
        ------
        accountant.ParameterError
            `fit` was not called, or `X` is not as described there.
        """
        features = self.check_pixels(X)
        labels: Integers = np.argmax(self._outputs(features, "predict", layers=None), axis=1)
        return labels

    def predict_proba(self, X: object) -> Floats:
        """Probabilities (n, c) of the labels of images; errors as for `predict`."""
        logits = self._outputs(self.check_pixels(X), "predict_proba", layers=None).astype(float)
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares: Floats = raised / raised.sum(axis=1, keepdims=True)
        return shares

    def transform(self, X: object) -> Singles:
        """Activations of the last hidden layer, of shape (n, 192); parameters and errors as for `predict`.

        One image at a time: the rounding of a private record's features must not depend on other records. Pixels
        outside [0, 1] are cut: an error would reveal a private record that has some.
        """
        return self._outputs(np.clip(self._check_width(X), 0, 1), "transform", layers=-1, batch=1)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self.device != "cpu" and "network_" in state:
            state["network_"] = require("copy").deepcopy(self.network_).to("cpu")
        return state

    def check_pixels(self, X: object) -> Singles:
        """Images as `fit` takes them, in single precision; errors as there."""
        features = self._check_width(X)
        inside = ((features >= 0) & (features <= 1)).all(axis=1)
        if not inside.all():
            raise ac.ParameterError(f"X[{int(np.argmin(inside))}] has pixels out of range; accepted: [0, 1]")
        return features

    def _check_width(self, X: object) -> Singles:
        features = check_features(X)
        width = math.prod(self.images)
        if features.shape[1] != width:
            raise ac.ParameterError(
                f"X has {features.shape[1]} columns; accepted: {width}, as images of shape {self.images}"
            )
        return features

    def _tensor(self, features: Singles) -> Any:
        """A batch of images as a tensor of shape (n, channels, height, width), on the CPU."""
        height, width, *channels = self.images
        images = features.reshape(len(features), height, width, *channels or (1,))
        return _torch().tensor(images, device="cpu").permute(0, 3, 1, 2)

    def _outputs(self, features: Singles, name: str, layers: int | None, batch: int = IMAGES_AT_ONCE) -> Singles:
        check_fitted(hasattr(self, "network_"), f"{name}(X)")
        part, device = self.network_[:layers], next(self.network_.parameters()).device
        with _torch().no_grad():
            pieces = (features[i : i + batch] for i in range(0, max(len(features), 1), batch))
            return np.concatenate([part(self._tensor(piece).to(device)).cpu().numpy() for piece in pieces])

    def _deterministic(self) -> AbstractContextManager[Any]:
        """Kernels of cuDNN that give the same sums in every run, and do not depend on a race between them."""
        if not self.device.startswith("cuda"):
            return nullcontext()
        flags: AbstractContextManager[Any] = _torch().backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True
        )
        return flags

    @property
    def _changes(self) -> Augmentation | None:
        """Changes of images, if any."""
        return Augmentation() if self.augmentation is None and self.consistency == "uda" else self.augmentation

    def _train(self, network: Any, features: Singles, answers: Integers, generator: Any) -> Floats:
        """Train the network, and return the mean terms of each epoch."""
        torch = _torch()
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        per_epoch = math.ceil(len(features) / self.batch_size)
        terms = np.zeros((self.epochs, 2))
        for step, (rows, chosen) in enumerate(self._batches(answers, generator)):
            progress = step / (self.epochs * per_epoch)
            optimizer.param_groups[0]["lr"] = self.learning_rate * min(1.0, 3 * (1 - progress))
            first = self._answered_loss(network, features[chosen], answers[chosen], progress, generator)
            weight = self.uda_weight if self.consistency == "uda" else self.vat_weight
            second = self._roughness(network, features[rows], generator) if weight else torch.zeros(())
            loss = first + weight * second.to(self.device)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            terms[step // per_epoch] += np.array([float(first.detach()), float(second.detach())]) / per_epoch
            if (step + 1) % per_epoch == 0 and not all(each.isfinite().all() for each in network.parameters()):
                raise ac.ParameterError(f"learning_rate = {self.learning_rate!r} diverges; accepted: a smaller one")
        return terms

    def _batches(self, answers: Integers, generator: Any) -> Iterator[tuple[Integers, Integers]]:
        """For each step rows of images of the second term, and of answered images."""
        torch = _torch()
        answered, labelled = np.flatnonzero(answers >= 0), max(1, self.batch_size // 4)
        for _ in range(self.epochs):
            order = torch.randperm(len(answers), generator=generator, device="cpu")
            for rows in order.split(self.batch_size):
                drawn = torch.randint(len(answered), (labelled,), generator=generator, device="cpu")
                yield rows.numpy(), answered[drawn.numpy()]

    def _answered_loss(self, network: Any, features: Singles, labels: Integers, progress: float, generator: Any) -> Any:
        """The first term: mean of -log p(y | x), with "uda" of those x that still teach."""
        torch = _torch()
        pixels = self._tensor(features)
        if self._changes is not None:
            pixels = self._changes.apply(pixels, generator)
        truth = torch.tensor(labels, device=self.device)
        losses = torch.nn.functional.cross_entropy(network(pixels.to(self.device)), truth, reduction="none")
        if self.consistency == "vat" or self.uda_annealing == "none":
            return losses.mean()
        limit = annealing_threshold(self.uda_annealing, progress, self.n_classes)
        teaches = torch.exp(-losses.detach()) <= limit
        return (losses * teaches).sum() / max(int(teaches.sum()), 1)

    def _roughness(self, network: Any, features: Singles, generator: Any) -> Any:
        """The second term: by how much answers change from x to x', p(. | x) being fixed."""
        pixels = self._tensor(features)
        there = pixels.to(self.device)
        with _torch().no_grad():
            logits = network(there)
        if self.consistency == "uda":
            changed = network((self._changes or Augmentation()).apply(pixels, generator).to(self.device))
            return augmentation_loss(logits, changed, self.uda_confidence, self.uda_temperature)
        # Miyato et al. 2018, eq. 5 to 7
        r = perturbation(network, there, logits, self.vat_radius, self.vat_finite_difference, generator)
        return divergence(logits, network(there + r)).mean()


def _check_images(images: object) -> tuple[int, ...]:
    sides = images if isinstance(images, tuple) else ()
    whole = all(isinstance(side, int | np.integer) and not isinstance(side, bool) for side in sides)
    if not whole or len(sides) not in (2, 3) or min(sides[:2]) < 8 or sides[2:] not in ((), (3,)):
        raise ac.ParameterError(f"images = {images!r}; accepted: (height, width) or (height, width, 3), sides >= 8")
    return tuple(int(side) for side in sides)


def _check_choice(name: str, value: object, accepted: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise ac.ParameterError(f"{name} = {value!r}; accepted: {', '.join(accepted)}")
    return value


def _check_weight(name: str, value: object) -> float:
    return check_real(name, value, "a finite number >= 0", lambda weight: 0 <= weight < math.inf)


def _torch() -> Any:
    return require("torch", "torch")
