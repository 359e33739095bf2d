"""Ctrl-C during a prediction says how many answers there are, and what keeps them."""

import numpy as np
import pytest

from mechanisms.budgets.store import open_store
from mechanisms.datasets import Dataset
from mechanisms.experiment.prediction import PredictionSetting, Serving, predict


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("no", "3 queries were answered, and nothing keeps the answers"),
        ("cost", "3 queries were answered; the store keeps what they cost, and nothing keeps the answers"),
        ("all", "3 answers are kept in the store; the same command goes on, and pays for none of them again"),
    ],
)
def test_what_is_kept(tmp_path, kept, said):
    rng = np.random.default_rng(0)
    private = Dataset("private", rng.normal(size=(50, 3)), np.arange(50) % 2)
    public = Dataset("public", rng.normal(size=(10, 3)), None)

    def stop(done):
        if done == 3:
            raise KeyboardInterrupt

    with open_store(str(tmp_path / "budgets.db")) as store:
        run = "one" if kept == "all" else None
        serving = Serving(None, None, None, stop) if kept == "no" else Serving(store, "digest", run, stop)
        setting = PredictionSetting(1.0, 1e-5)
        with pytest.raises(KeyboardInterrupt, match=f"^{said}$"):
            predict(setting, private, public, n_classes=2, nominal=50, serving=serving)
        if kept == "all":
            assert (
                predict(setting, private, public, n_classes=2, nominal=50, serving=Serving(store, "digest", run)).kept
                == 3
            )
