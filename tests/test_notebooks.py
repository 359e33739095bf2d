"""Notebooks and tutorials run from top to bottom, each in a kernel of its own, and hold no outputs."""

from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"

STRICT = "import warnings; warnings.filterwarnings('error', module='accountant|mechanisms|__main__')"
"""First of all: what warns in a notebook or in the library fails."""

# the longest first, so that two processes end at about the same time
ORDER = [
    "papers/private_knn_costs.py",
    "papers/reverse_knn.py",
    "papers/individual_knn.py",
    "guides/plan_your_experiment.py",
]
WRITTEN = [path for path in NOTEBOOKS.rglob("*.md") if "{code-cell}" in path.read_text("utf-8")]
PAGES = sorted(path.relative_to(NOTEBOOKS).as_posix() for path in WRITTEN)


def read(name):
    path = NOTEBOOKS / name
    return jupytext.read(path, fmt="py:percent" if path.suffix == ".py" else "md:myst")


def test_every_notebook_is_here():
    found = {path.relative_to(NOTEBOOKS).as_posix() for path in NOTEBOOKS.rglob("*.py")}
    assert set(ORDER) == found - {"conf.py"}
    assert not list(NOTEBOOKS.rglob("*.ipynb")), "outputs are not stored"


@pytest.mark.notebook
@pytest.mark.parametrize("name", [*ORDER, *PAGES])
def test_notebook_runs(name, tmp_path, monkeypatch):
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell
    from traitlets.config import Config

    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOKS.parent))
    notebook = read(name)
    assert [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells.insert(0, new_code_cell(STRICT))
    # sockets are files in the working directory: no port is taken, and nobody else can listen
    monkeypatch.chdir(tmp_path)
    config = Config({"KernelManager": {"transport": "ipc"}})
    NotebookClient(notebook, kernel_name="python3", timeout=600, config=config).execute()
    said = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert said
    errors = [output.text for output in said if output.output_type == "stream" and output.name == "stderr"]
    assert not errors
    if name in ORDER:
        assert any("image/svg+xml" in output.get("data", {}) for output in said)
