"""Random changes of images that keep what they show: for labelled images, and for unsupervised data augmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import accountant as ac
from mechanisms.validation import check_real, require

__all__ = ["Augmentation"]

LIMITS = {"rotation": 180.0, "shift": 0.5, "scale": 0.9, "shear": 1.0, "elastic": 0.5, "cutout": 1.0, "colour": 1.0}
"""Largest value of each strength."""

CONTROL_POINTS = 5
"""Of an elastic distortion, along each side: random displacements there, smooth between them."""


@dataclass(frozen=True)
class Augmentation:
    """How far an image is changed at random; each change of each image is drawn anew, uniformly up to its limit.

    Defaults suit digits and other figures that fill the image. Geometric changes repeat the outermost pixels where
    they reach beyond the image. All changes keep pixels within [0, 1].

    Parameters
    ----------
    rotation : float
        Largest angle, in degrees, to either side.
    shift : float
        Largest shift along each side, as a share of it.
    scale : float
        Largest change of size, as a share: 0.15 is from 0.85 to 1.15 of it.
    shear : float
        Largest shear, as the tangent of its angle.
    elastic : float
        Standard deviation of the smooth displacements of an elastic distortion, as a share of a side.
    cutout : float
        Side of the square that the image's mean colour covers, as a share of the shorter side; its centre is anywhere.
    colour : float
        Of colour images: largest change of brightness, contrast and each channel, as a share.
    flip : bool
        Mirror every second image: of use for objects, wrong for digits.

    Raises
    ------
    accountant.ParameterError
        A strength is not as described.
    """

    rotation: float = 15.0
    shift: float = 0.1
    scale: float = 0.15
    shear: float = 0.2
    elastic: float = 0.03
    cutout: float = 0.25
    colour: float = 0.3
    flip: bool = False

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            check_real(name, getattr(self, name), f"[0, {limit:g}]", partial(_between, limit))
        if not isinstance(self.flip, bool):
            raise ac.ParameterError(f"flip = {self.flip!r}; accepted: True or False")

    @property
    def is_nothing(self) -> bool:
        """Whether every image stays as it is."""
        return not any(getattr(self, each.name) for each in fields(self))

    def apply(self, pixels: Any, generator: Any) -> Any:
        """Changed copies of images (n, channels, height, width), on the CPU, drawn from `generator`."""
        if self.is_nothing or len(pixels) == 0:
            return pixels
        torch = require("torch", "torch")
        moved = torch.nn.functional.grid_sample(
            pixels, self._grid(pixels.shape, generator), padding_mode="border", align_corners=False
        )
        return self._cut_out(self._colour(moved, generator), generator).clamp(0.0, 1.0)

    def _grid(self, shape: tuple[int, ...], generator: Any) -> Any:
        """Where each pixel of the changed images comes from, in units of half a side."""
        torch = require("torch", "torch")
        n, _, height, width = shape
        turn, tilt, up, across, x, y = _uniform(generator, 6, n)
        angle, shear = turn * math.radians(self.rotation), tilt * self.shear
        cos, sin = torch.cos(angle), torch.sin(angle)
        wide, high = 1 + across * self.scale, 1 + up * self.scale
        if self.flip:
            wide = wide * torch.sign(_uniform(generator, 1, n)[0] + 1e-9)
        # rotation times shear times scale in pixels; a side's half length turns pixels into the grid's units
        aspect = height / width
        rows = [cos * wide, (cos * shear - sin) * high * aspect, 2 * self.shift * x]
        rows += [sin * wide / aspect, (sin * shear + cos) * high, 2 * self.shift * y]
        grid = torch.nn.functional.affine_grid(torch.stack(rows, dim=1).view(n, 2, 3), shape, align_corners=False)
        if self.elastic:
            nodes = torch.randn((n, 2, CONTROL_POINTS, CONTROL_POINTS), generator=generator, device="cpu")
            bend = torch.nn.functional.interpolate(nodes, (height, width), mode="bicubic", align_corners=True)
            grid = grid + 2 * self.elastic * bend.permute(0, 2, 3, 1)
        return grid

    def _colour(self, pixels: Any, generator: Any) -> Any:
        """Images of another brightness, contrast and balance of channels; grey images stay."""
        n, channels = pixels.shape[:2]
        if channels == 1 or not self.colour:
            return pixels
        drawn = self.colour * _uniform(generator, 2 + channels, n)
        light, contrast, balance = drawn[0].view(n, 1, 1, 1), 1 + drawn[1].view(n, 1, 1, 1), drawn[2:]
        middle = pixels.mean(dim=(1, 2, 3), keepdim=True)
        return (pixels - middle) * contrast * (1 + balance.T.reshape(n, channels, 1, 1)) + middle * (1 + light)

    def _cut_out(self, pixels: Any, generator: Any) -> Any:
        """Images with a square in their mean colour."""
        if not self.cutout:
            return pixels
        torch = require("torch", "torch")
        n, _, height, width = pixels.shape
        half = self.cutout * min(height, width) / 2
        y, x = (
            (side * (1 + centre) / 2).view(n, 1)
            for side, centre in zip((height, width), _uniform(generator, 2, n), strict=True)
        )
        rows = (torch.arange(height, device="cpu") + 0.5 - y).abs() < half
        columns = (torch.arange(width, device="cpu") + 0.5 - x).abs() < half
        hidden = (rows[:, :, None] & columns[:, None, :])[:, None]
        return torch.where(hidden, pixels.mean(dim=(2, 3), keepdim=True), pixels)


def _between(limit: float, value: float) -> bool:
    return 0 <= value <= limit


def _uniform(generator: Any, count: int, n: int) -> Any:
    """`count` rows of n uniform draws from [-1, 1)."""
    return 2 * require("torch", "torch").rand((count, n), generator=generator, device="cpu") - 1
