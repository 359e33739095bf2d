"""The networks of convolutional students, and the devices that they run on."""

from __future__ import annotations

from typing import Any

import accountant as ac
from mechanisms.validation import require

__all__ = ["NETWORKS", "check_device", "make_network"]

NETWORKS = ("paper", "32-64-128")

HIDDEN = 192
"""Width of the last hidden layer."""


def make_network(name: str, images: tuple[int, ...], n_classes: int, generator: Any) -> Any:
    """A network with random weights, on the CPU.

    Parameters
    ----------
    name : {"paper", "32-64-128"}
        "paper" is that of Zhu et al. 2020, Table 4 (grey) or Table 5 (colour). What the tables leave open is as in the
        networks of PATE, which they replicate: zero padding keeps the size, and the third and sixth of the seven
        convolutions have stride 2. "32-64-128" is that of their section 4.2, for CIFAR-10: three convolutions with so
        many filters. What the text leaves open is chosen here: filters of 3 x 3, each layer followed by the largest of
        2 x 2, and one hidden layer as in Table 5.
    images : tuple of int
        (height, width) or (height, width, 3).
    n_classes : int
    generator : torch.Generator
        Of the CPU, so that a seed means the same weights on every device.
    """
    nn = require("torch", "torch").nn
    channels = 1 if len(images) == 2 else 3
    blank = {"device": "meta", "dtype": require("torch", "torch").float32}  # PyTorch would draw from a global seed

    def conv(inputs: int, filters: int, size: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(inputs, filters, size, stride, size // 2, **blank), nn.ReLU()]

    def full(inputs: int, outputs: int) -> list[Any]:
        return [nn.Linear(inputs, outputs, **blank), nn.ReLU()]

    def area(halvings: int) -> int:
        side: int = 2**halvings
        return -(-images[0] // side) * -(-images[1] // side)

    pool = nn.MaxPool2d(2, ceil_mode=True)
    if name == "32-64-128":
        layers = [*conv(channels, 32, 3), pool, *conv(32, 64, 3), pool, *conv(64, 128, 3), pool]
        layers += [nn.Flatten(), *full(128 * area(3), HIDDEN)]
    elif channels == 1:
        layers = [*conv(1, 64, 5), pool, *conv(64, 128, 5), pool]
        layers += [nn.Flatten(), *full(128 * area(2), 384), *full(384, HIDDEN)]
    else:
        layers = [*conv(3, 96, 3), *conv(96, 96, 3), *conv(96, 96, 3, 2)]
        layers += [*conv(96, 192, 3), *conv(192, 192, 3), *conv(192, 192, 3, 2)]
        layers += [*conv(192, 192, 5), nn.Flatten(), *full(192 * area(2), 192), *full(192, HIDDEN)]
    network = nn.Sequential(*layers, nn.Linear(HIDDEN, n_classes, **blank)).to_empty(device="cpu")
    for layer in network:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
    return network


def check_device(device: object) -> str:
    """The name of a device that PyTorch finds here.

    Raises
    ------
    accountant.ParameterError
        The name is not one of the accepted, or there is no such device.
    """
    kind, _, number = str(device).partition(":")
    known = isinstance(device, str) and (device in ("cpu", "mps", "cuda") or (kind == "cuda" and number.isdecimal()))
    if not known:
        raise ac.ParameterError(f"device = {device!r}; accepted: cpu, cuda, cuda:0 (or another number), mps")
    torch = require("torch", "torch")
    found = ["cpu"]
    if torch.cuda.is_available():
        found += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        found.append("mps")
    if device not in found:
        raise ac.ParameterError(f"device = {device!r}, which PyTorch does not find here; accepted: {', '.join(found)}")
    return str(device)
