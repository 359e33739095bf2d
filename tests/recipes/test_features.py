"""Recipes for features: run as a user runs them, with pretrained models that come in wheels (`make test-torch`)."""

import importlib.util
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mechanisms.datasets import load

RECIPES = Path(__file__).parents[2] / "recipes"


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, RECIPES / f"{name}.py", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


def folder_of(package):
    """Of an installed package, which is not imported: only its model is used."""
    spec = find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def test_images(tmp_path):
    pytest.importorskip("onnxruntime")
    model = folder_of("rapidocr_onnxruntime") / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    out = tmp_path / "made" / "features.npz"
    sizes = ["--size", 48, 192, "--mean", 0.5, 0.5, 0.5, "--std", 0.5, 0.5, 0.5]
    run("image_features", "--model", model, "--data", "digits[0:20]", *sizes, "--out", out)
    found = load(str(out))
    assert found.features.shape == (20, 2)
    np.testing.assert_allclose(found.features.sum(axis=1), 1.0, atol=1e-5)  # this model ends in a softmax
    assert len(np.unique(found.features[:, 0])) == 20
    assert np.array_equal(found.labels, load("digits").labels[:20])
    run("image_features", "--model", model, "--data", "digits[7:9]", *sizes, "--out", tmp_path / "two.npz")
    assert np.array_equal(load(str(tmp_path / "two.npz")).features, found.features[7:9])


TEXTS = {
    "The striker scored twice in the second half of the match": 0,
    "The goalkeeper saved a penalty and the team won the cup": 0,
    "The coach praised his players after the football game": 0,
    "Shares fell on Monday as the bank reported a loss": 1,
    "The central bank raised interest rates to curb inflation": 1,
    "Investors sold stocks after the company's weak earnings": 1,
}


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_texts(tmp_path, kind):
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    from pyarrow import csv, parquet, table

    package = folder_of("wordllama")
    (tmp_path / "model").mkdir()
    shutil.copy(package / "weights" / "l2_supercat_256.safetensors", tmp_path / "model")
    shutil.copy(package / "tokenizers" / "l2_supercat_tokenizer_config.json", tmp_path / "model" / "tokenizer.json")
    texts, data = table({"headline": list(TEXTS), "topic": list(TEXTS.values())}), tmp_path / f"texts{kind}"
    (csv.write_csv if kind == ".csv" else parquet.write_table)(texts, data)
    names = ["--model", tmp_path / "model", "--data", data, "--text", "headline", "--label", "topic"]
    run("text_features", *names, "--out", tmp_path / "texts.npz")
    found = load(str(tmp_path / "texts.npz"))
    assert found.features.shape == (6, 256)
    assert found.labels.tolist() == list(TEXTS.values())
    unit = found.features / np.linalg.norm(found.features, axis=1, keepdims=True)
    alike = unit @ unit.T - 2 * np.eye(6)
    assert np.array_equal(found.labels[alike.argmax(axis=1)], found.labels)  # the nearest text is about the same


def test_texts_by_a_transformer(tmp_path):
    """A network of one layer stands for one: it has the inputs and the output of those that are exported."""
    onnx = pytest.importorskip("onnx")
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: i for i, word in enumerate(["[UNK]", "[CLS]", *sorted({w for text in TEXTS for w in text.split()})])}
    vectors = np.random.default_rng(0).normal(size=(len(words), 7)).astype(np.float32)
    make, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        make.make_node("Gather", ["table", "input_ids"], ["rows"]),
        make.make_node("Cast", ["attention_mask"], ["shown"], to=kinds.FLOAT),
        make.make_node("Unsqueeze", ["shown", "last"], ["column"]),
        make.make_node("Mul", ["rows", "column"], ["last_hidden_state"]),
    ]
    tensors = [onnx.numpy_helper.from_array(vectors, "table"), onnx.numpy_helper.from_array(np.array([2]), "last")]
    entries = [make.make_tensor_value_info(n, kinds.INT64, [1, "n"]) for n in ("input_ids", "attention_mask")]
    output = make.make_tensor_value_info("last_hidden_state", kinds.FLOAT, [1, "n", 7])
    graph = make.make_graph(nodes, "network", entries, [output], tensors)
    folder = tmp_path / "model"
    folder.mkdir()
    made = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (tmp_path / "texts.csv").write_text("\n".join(["text", *TEXTS]))
    run(
        "text_features",
        "--model",
        folder,
        "--data",
        tmp_path / "texts.csv",
        "--longest",
        5,
        "--out",
        tmp_path / "t.npz",
    )
    found = np.load(tmp_path / "t.npz")
    assert found.files == ["features"]
    wanted = [vectors[[words[word] for word in text.split()[:5]]].mean(axis=0) for text in TEXTS]
    np.testing.assert_allclose(found["features"], wanted, rtol=1e-5, atol=1e-6)


@pytest.fixture(params=["image_features", "text_features"])
def recipe(request, tmp_path, monkeypatch):
    """A recipe as a module, with an encoder that needs no model, and `main` on two records."""
    (tmp_path / "texts.csv").write_text("text\none\ntwo\n")
    for package in ("onnxruntime", "tokenizers"):
        stand_in = ModuleType(package)
        stand_in.Tokenizer = None
        monkeypatch.setitem(sys.modules, package, stand_in)
    spec = importlib.util.spec_from_file_location(request.param, RECIPES / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.data = "digits[0:2]" if request.param == "image_features" else str(tmp_path / "texts.csv")
    monkeypatch.setattr(module, "make_encoder", lambda *arguments: lambda record: np.ones(3))

    def write(out):
        monkeypatch.setattr(sys, "argv", [request.param, "--model", "none", "--data", module.data, "--out", str(out)])
        module.main()

    module.write = write
    return module


def test_a_write_that_ends_early_leaves_the_old_file(recipe, tmp_path, monkeypatch):
    out = tmp_path / "features.npz"
    recipe.write(out)
    before = out.read_bytes()

    def fail(stream, **arrays):
        if isinstance(stream, Path):
            stream.write_bytes(before[:10])
        else:
            stream.write(before[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(KeyboardInterrupt):
        recipe.write(out)
    assert out.read_bytes() == before
    assert np.load(out)["features"].shape == (2, 3)


def test_another_ending_is_refused_before_anything_is_encoded(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "make_encoder", lambda *arguments: pytest.fail("encoded"))
    with pytest.raises(SystemExit, match=r"--out .*features\.txt.*; accepted: a file ending in \.npz"):
        recipe.write(tmp_path / "features.txt")


def test_what_is_read_is_not_replaced(recipe, tmp_path):
    recipe.data = str(tmp_path / "data.npz")
    np.savez(recipe.data, features=np.ones((2, 3)))
    with pytest.raises(SystemExit, match="would replace"):
        recipe.write(recipe.data)
