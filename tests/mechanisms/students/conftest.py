"""What tests of convolutional students share."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def torch():
    """One thread: two that wait for each other are slow if tests share the cores."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def digits():
    """500 public images of which 50 are answered, and a test set."""
    bunch = pytest.importorskip("sklearn.datasets").load_digits()
    order = np.random.default_rng(1).permutation(len(bunch.data))
    X, y = (bunch.data[order] / 16).astype(np.float32), bunch.target[order].astype(np.int64)
    return X[:500], np.where(np.arange(500) < 50, y[:500], -1), X[500:], y[500:]
