"""Features of images by a pretrained network in an ONNX file, written as .npz for `mechanisms`.

    python image_features.py --model vit.onnx --data cifar10/ --out cifar10-vit/train.npz --size 224 \
        --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 --layer last_hidden_state

Needs onnxruntime and knn-accountant[mechanisms].
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from skimage.transform import resize

from accountant.files import check_output, open_whole
from mechanisms.datasets import load

Floats = NDArray[np.float32]


def make_encoder(options: argparse.Namespace) -> Callable[[Floats], Floats]:
    """What turns one image (height, width, 3) with pixels in [0, 1] into a row of features."""
    network = onnxruntime.InferenceSession(options.model, providers=["CPUExecutionProvider"])
    entry = network.get_inputs()[0].name
    names = [output.name for output in network.get_outputs()]
    if options.layer not in (None, *names):
        raise SystemExit(f"--layer {options.layer}: accepted: {', '.join(names)}")
    side = (options.size * 2)[:2]

    def encode(image: Floats) -> Floats:
        scaled = (resize(image, (*side, 3), anti_aliasing=True) - options.mean) / options.std
        (found,) = network.run([options.layer or names[0]], {entry: scaled.transpose(2, 0, 1)[None].astype(np.float32)})
        # a transformer gives a row for each patch, the first of which stands for the image
        return np.asarray(found[0] if found.ndim == 2 else found[0, 0] if found.ndim == 3 else found[0].mean((1, 2)))

    return encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="ONNX file; its input is (images, 3, height, width)")
    parser.add_argument("--layer", help="output of the model that is taken (default: the first)")
    parser.add_argument("--data", required=True, help="any source of images that `mechanisms` reads")
    parser.add_argument("--size", type=int, nargs="+", default=[224], help="height and width of the model's input")
    parser.add_argument("--mean", type=float, nargs=3, default=[0.0, 0.0, 0.0], help="of red, green and blue")
    parser.add_argument("--std", type=float, nargs=3, default=[1.0, 1.0, 1.0], help="of red, green and blue")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    check_output(options.out, (".npz",), keep=[options.data], name="--out", refuse=SystemExit)
    data, encode = load(options.data), make_encoder(options)
    if data.images is None:
        raise SystemExit(f"--data {options.data}: has no images")
    images = data.features.reshape(len(data), *data.images[:2], -1)
    # one image at a time: the features of a private record must not depend on other records, not even in their last bit
    rows = [encode(np.broadcast_to(image, (*image.shape[:2], 3))) for image in images]
    labels = {} if data.labels is None else {"labels": data.labels}
    with open_whole(options.out, name="--out", refuse=SystemExit) as stream:
        np.savez_compressed(stream, features=np.stack(rows).astype(np.float32), **labels)


if __name__ == "__main__":
    main()
