"""From stored images to batches a tower takes: decoding in threads, augmentation on the device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from modgap.core.checks import InputTypeError, InputValueError, check_count, require
from modgap.core.results import Progress, silent
from modgap.core.threads import ahead, processors
from modgap.io import Items
from modgap.io.images import ImageError, first_of, one_image, square_pixels, unpack_image
from modgap.train.towers.normalisation import pixel_scale


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded images: row i of ``pixels`` is row ``rows[i]`` of what was read.

    ``pixels`` is uint8 (n, 3, size, size). ``skipped`` names the images that could not be
    decoded, with the reason for each.
    """

    pixels: Tensor
    rows: tuple[int, ...]
    skipped: dict[str, str]


def decode(
    data: Items,
    size: int,
    workers: int | None = None,
    *,
    max_corrupt: float = 0.01,
    progress: Progress | None = None,
) -> Decoded:
    """Every image as a square of ``size`` pixels, in memory.

    The shorter side is scaled to ``size`` (bicubic, as CLIP's image processor does) and the
    middle is kept. Images that are missing, corrupt or too large are skipped and named.

    Parameters
    ----------
    data : Items
        The stored images.
    size : int
        Width and height of the result.
    workers : int, optional
        Threads that decode, by default one per processor: Pillow works without Python's lock. The
        order of the rows, and every pixel, are the same for any number of them.
    max_corrupt : float
        Share of images that may be skipped; more stop the run.
    progress : callable, optional
        ``progress(what, done, total)`` is called as images are done.
    """
    size = check_count(size, "size")
    if not 0 <= max_corrupt <= 1:
        raise InputValueError(f"max_corrupt must be a share from 0 to 1, got {max_corrupt}.")
    n_workers = check_count(workers or processors(), "workers")
    require("PIL.Image", "train", "Decoding images")
    say = progress or silent
    try:
        pixels = torch.empty((len(data), 3, size, size), dtype=torch.uint8)
    except RuntimeError as error:
        gigabytes = len(data) * 3 * size**2 / 1e9
        raise InputValueError(
            f"{len(data)} images of {size} × {size} pixels take {gigabytes:.1f} GB, which this "
            "machine does not have. Take a smaller size, or fewer images."
        ) from error
    array = pixels.numpy()
    rows: list[int] = []
    skipped: dict[str, str] = {}

    def work(row: int) -> str:
        """Decode into the array; says why an image cannot be used."""
        try:
            array[row] = decode_image(data.stored(row), size)
        except ImageError as error:
            return str(error)
        return ""

    for row, why in enumerate(ahead(work, range(len(data)), n_workers, waiting=16 * n_workers)):
        if why:
            skipped[data.names[row]] = why
            if row + 1 - len(rows) > max_corrupt * len(data):
                raise InputValueError(
                    f"At most {max_corrupt:.3g} of the {len(data)} images of {data.source} may be "
                    f"unusable, but {len(skipped)} of the first {row + 1} are: "
                    f"{first_of([*skipped.items()])}. Mend or remove them, or raise max_corrupt."
                )
        else:
            # Rows move up over those that were skipped; the ones below are not read again.
            if len(rows) < row:
                array[len(rows)] = array[row]
            rows.append(row)
        say("decoding images", row + 1, len(data))
    if not rows:
        raise InputValueError(f"None of the {len(data)} images of {data.source} can be decoded.")
    return Decoded(pixels[: len(rows)], tuple(rows), skipped)


def decode_image(stored: bytes, size: int) -> np.ndarray:
    """One stored image as uint8 (3, size, size); see `decode`."""
    with one_image():
        return square_pixels(unpack_image(stored, size, "RGB"), size)


class Augment(nn.Module):
    """Random resized crop and flip of a batch, on its device, then normalisation.

    Crops are drawn as torchvision's RandomResizedCrop draws them, by default as open_clip does,
    with which Yaras et al. train. Crop, flip and scaling to ``size`` are one bilinear sampling of
    the batch. Images should be stored at no more than about twice ``size``, because sampling does
    not average. In evaluation (``.eval()``) images are only scaled to ``size`` and normalised.

    Parameters
    ----------
    size : int
        Width and height of the result.
    scale, ratio : (float, float)
        Bounds of a crop's share of the image, and of its width over its height (log-uniform).
    flip : float
        Share of the images that is mirrored.
    """

    def __init__(
        self,
        size: int,
        *,
        scale: tuple[float, float] = (0.9, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flip: float = 0.5,
    ) -> None:
        super().__init__()
        self.size = check_count(size, "size")
        if not 0 < scale[0] <= scale[1] <= 1:
            raise InputValueError(f"scale must be two shares, 0 < low ≤ high ≤ 1, got {scale}.")
        if not 0 < ratio[0] <= ratio[1]:
            raise InputValueError(f"ratio must be two numbers, 0 < low ≤ high, got {ratio}.")
        if not 0 <= flip <= 1:
            raise InputValueError(f"flip must be a share from 0 to 1, got {flip}.")
        self.scale, self.ratio, self.flip = tuple(scale), tuple(ratio), float(flip)
        # One multiplication and one addition turn bytes into what a tower takes.
        factor, shift = pixel_scale()
        self.register_buffer("_factor", factor, persistent=False)
        self.register_buffer("_shift", shift, persistent=False)

    def forward(self, pixels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """From uint8 (n, channels, S, S) to float32 (n, channels, size, size).

        The draws come from ``generator`` on its own device; one on the CPU gives the same
        crops whatever the device of the images.
        """
        self._check(pixels)
        images = pixels.float()
        if self.training:
            theta = self.draw(len(images), generator).to(images.device)
            shape = [len(images), images.shape[1], self.size, self.size]
            grid = F.affine_grid(theta, shape, align_corners=False)
            # "border": a sample at the very edge has half its support outside.
            images = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
        elif images.shape[-1] != self.size:
            images = F.interpolate(
                images, (self.size, self.size), mode="bilinear", antialias=True, align_corners=False
            )
        return images * self._factor + self._shift

    def draw(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Where each output looks: n affine maps (n, 2, 3) in the coordinates −1 to 1.

        A crop of width w, height h (shares of the sides) and centre (x, y) is
        [[±w, 0, x], [0, h, y]]; the sign is the flip.
        """
        device = "cpu" if generator is None else generator.device
        tries = 10  # as torchvision: a proportion may not fit in the image; then the whole is taken

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            return low + (high - low) * torch.rand(shape, generator=generator, device=device)

        area = uniform(self.scale[0], self.scale[1], n, tries)
        ratio = uniform(math.log(self.ratio[0]), math.log(self.ratio[1]), n, tries).exp()
        width, height = (area * ratio).sqrt(), (area / ratio).sqrt()
        fits = (width <= 1) & (height <= 1)
        first = fits.int().argmax(1, keepdim=True)
        found = fits.any(1, keepdim=True)
        width = torch.where(found, width.gather(1, first), 1.0).squeeze(1)
        height = torch.where(found, height.gather(1, first), 1.0).squeeze(1)
        x = (1 - width) * uniform(-1, 1, n)
        y = (1 - height) * uniform(-1, 1, n)
        sign = torch.where(uniform(0, 1, n) < self.flip, -1.0, 1.0)
        none = torch.zeros_like(x)
        return torch.stack([sign * width, none, x, none, height, y], dim=1).reshape(n, 2, 3)

    def _check(self, pixels: Tensor) -> None:
        channels = len(self._factor)
        if pixels.ndim != 4 or pixels.shape[1] != channels or pixels.shape[2] != pixels.shape[3]:
            raise InputValueError(
                f"Images must be of shape (n, {channels}, size, size), got {tuple(pixels.shape)}."
            )
        if pixels.dtype != torch.uint8:
            raise InputTypeError(f"Images must be bytes (uint8, 0 to 255), got {pixels.dtype}.")
