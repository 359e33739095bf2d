"""Features of texts by a pretrained model on disk, written as .npz for `mechanisms`.

    python text_features.py --model all-roberta-large-v1/ --data ag_news/train.parquet --text text --label label \
        --out ag-news-roberta/train.npz

The directory of the model holds ``tokenizer.json``, and ``model.onnx`` (a transformer that gives a vector for each
token) or a table of token vectors, ``*.safetensors``. A text's features are the mean over its tokens.

Needs tokenizers, onnxruntime or safetensors, and knn-accountant[mechanisms].
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv, parquet
from tokenizers import Tokenizer

from accountant.files import check_output, open_whole

Floats = NDArray[np.float32]


def make_encoder(folder: Path, longest: int) -> Callable[[str], Floats]:
    """What turns a text into a row of features."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    network = folder / "model.onnx"
    vectors = read_transformer(network) if network.exists() else read_table(folder)

    def encode(text: str) -> Floats:
        tokens = np.array(tokenizer.encode(text).ids, np.int64)
        if len(tokens) == 0:
            raise SystemExit(f"the text {text!r} has no tokens")
        row: Floats = vectors(tokens).mean(axis=0)
        return row

    return encode


def read_transformer(path: Path) -> Callable[[NDArray[np.int64]], Floats]:
    """Vectors of tokens in their context."""
    import onnxruntime

    network = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    entries = {entry.name for entry in network.get_inputs()}
    first = network.get_outputs()[0].name

    def look_up(tokens: NDArray[np.int64]) -> Floats:
        ids = tokens[None]
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        found: Floats = network.run([first], {name: given[name] for name in entries})[0][0]
        return found

    return look_up


def read_table(folder: Path) -> Callable[[NDArray[np.int64]], Floats]:
    """Vectors of tokens, whatever their context."""
    from safetensors.numpy import load_file

    (path,) = folder.glob("*.safetensors")
    (table,) = load_file(path).values()
    return lambda tokens: np.asarray(table[tokens], np.float32)


def read_columns(path: Path, names: list[str]) -> list[list[Any]]:
    """Columns of a Parquet or CSV file."""
    table = parquet.read_table(path, columns=names) if path.suffix == ".parquet" else csv.read_csv(path)
    return [table.column(name).to_pylist() for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="directory with tokenizer.json and the model")
    parser.add_argument("--data", type=Path, required=True, help="Parquet or CSV file")
    parser.add_argument("--text", default="text", help="column of texts (default text)")
    parser.add_argument("--label", help="column of labels 0, 1, ... (default: none)")
    parser.add_argument("--longest", type=int, default=256, help="tokens of a text that are read (default 256)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    check_output(options.out, (".npz",), keep=[options.data], name="--out", refuse=SystemExit)
    texts, *labels = read_columns(options.data, [options.text, *([options.label] if options.label else [])])
    encode = make_encoder(options.model, options.longest)
    # one text at a time: the features of a private record must not depend on other records, not even in their last bit
    rows = np.stack([encode(text) for text in texts]).astype(np.float32)
    named = {"labels": np.array(labels[0], np.int64)} if labels else {}
    with open_whole(options.out, name="--out", refuse=SystemExit) as stream:
        np.savez_compressed(stream, features=rows, **named)


if __name__ == "__main__":
    main()
