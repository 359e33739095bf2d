"""What a release holds, and that it works where it is installed: `python -m build`, without network."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import accountant as ac

pytest.importorskip("build")

ROOT = Path(__file__).parent.parent
MADE = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", ".?*")
"""What is made from the sources, and hidden files."""

ASSETS = [
    "accountant/py.typed",
    "accountant/plans/private-knn-mnist.toml",
    "accountant/report/page/frame.html",
    "accountant/report/page/report.html",
    "accountant/report/page/report.css",
    "accountant/report/page/page.js",
    "mechanisms/py.typed",
    "mechanisms/flower/pyproject.toml",
    "mechanisms/papers/private-knn/table-1.toml",
]


def run(*command, cwd, cache=None):
    """Output of a command that must succeed, in an environment that does not name this repository.

    Kernels are compiled only where a directory to keep them in is given: for most prices that takes longer than a test.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"NUMBA_DISABLE_JIT": "1"} if cache is None else {"ACCOUNTANT_CACHE_DIR": str(cache)}
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Names of all source files, path of the source distribution, and path of the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("release")
    source = shutil.copytree(ROOT, folder / "source", ignore=MADE)
    names = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source), cwd=folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return names, sdist, wheel


@pytest.fixture(scope="module")
def commands(release, tmp_path_factory):
    """Folder of the commands of a new environment, which has the wheel, and everything else from this one."""
    return install(release[2], tmp_path_factory.mktemp("environment"))


def install(wheel, home):
    """Folder of the commands of a new environment in `home`, which has the wheel, and everything else from this one."""
    run(sys.executable, "-m", "venv", "--without-pip", str(home), cwd=home)
    run(*pip_of(home), "install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel), cwd=home)
    (packages,) = home.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others))
    return home / "bin"


def pip_of(home):
    return [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--disable-pip-version-check"]


def test_wheel_holds_both_packages_and_nothing_else(release):
    sources, _, wheel = release
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {name for name in sources if name.startswith(("accountant/", "mechanisms/"))}
    assert set(ASSETS) <= held


def test_source_distribution_holds_every_source(release):
    """Tests, notebooks, benchmarks and CHANGELOG too, so that it can be tested and documented."""
    sources, sdist, _ = release
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert sources - held == set()
    made = {name for name in held - sources if not name.startswith("knn_accountant.egg-info/")}
    assert made == {"PKG-INFO"}


def test_metadata(release):
    archive = zipfile.ZipFile(release[2])
    (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    metadata = message_from_string(archive.read(f"{folder}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("knn-accountant", ac.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    needed = {re.split(r"[^\w-]", each)[0] for each in metadata.get_all("Requires-Dist") if "extra ==" not in each}
    assert needed == {"numpy", "scipy", "numba", "platformdirs", "rich", "tomli-w"}
    assert metadata.get_payload().startswith("# "), "README"
    assert archive.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_address_of_a_release_is_in_its_metadata(tmp_path):
    """With the address that whoever publishes it gives: project links, and no relative link or picture in README."""
    source = shutil.copytree(ROOT, tmp_path / "source", ignore=MADE)
    make = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('made')"
    address = "https://example.org/owner/knn-accountant"
    (source / "made").mkdir()
    environment = os.environ | {"PROJECT_URL": f"{address}/"}
    subprocess.run([sys.executable, "-c", make], cwd=source, env=environment, check=True, capture_output=True)
    (file,) = (source / "made").rglob("METADATA")
    metadata = message_from_string(file.read_text("utf-8"))
    links = dict(each.split(", ") for each in metadata.get_all("Project-URL"))
    assert links["Source"] == address
    assert links["Changelog"] == f"{address}/blob/v{ac.__version__}/CHANGELOG.md"
    text = metadata.get_payload()
    assert f"]({address}/raw/v{ac.__version__}/notebooks/pictures/releases.svg)" in text
    assert not re.search(r"\]\((?!https?:|#)", text)


def test_changelog_begins_with_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert first[1] == ac.__version__


def test_version_is_written_in_one_place():
    places = [path for path in ROOT.glob("*") if path.suffix in (".cfg", ".toml")]
    places += [path for package in ("accountant", "mechanisms") for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in places if f'"{ac.__version__}"' in path.read_text("utf-8")] == ["__init__.py"]


@pytest.mark.audit
def test_installed_commands_work_in_any_folder(commands, tmp_path):
    """Built-in plans and the assets of the page are found, and what runs is what was installed."""
    # the route whose kernels also run where nothing is compiled
    command = ["epsilon", "private-knn-mnist", "--method", "renyi", "--json"]
    priced = json.loads(run(commands / "accountant", *command, cwd=tmp_path))
    assert priced["epsilon"] == pytest.approx(0.952755, rel=1e-6)
    (tmp_path / "plan.toml").write_text('delta = 0\n[[release]]\nevent = "pure-dp"\nepsilon = 0.5\n')
    run(commands / "accountant", "report", "plan.toml", "--out", "report.html", cwd=tmp_path)
    assert "<script" in (tmp_path / "report.html").read_text("utf-8")
    assert run(commands / "mechanisms", "--version", cwd=tmp_path).split() == ["mechanisms", ac.__version__]
    code = "import accountant, mechanisms; print(accountant.__file__, mechanisms.__file__)"
    for place in run(commands / "python", "-c", code, cwd=tmp_path).split():
        assert Path(place).is_relative_to(commands.parent)


@pytest.mark.audit
def test_an_editable_installation_works_after_a_price_and_an_uninstallation(release, tmp_path):
    """Nothing that is compiled stays in site-packages, where it would hide the sources."""
    home, source = tmp_path / "home", tmp_path / "source"
    home.mkdir()
    commands = install(release[2], home)
    (packages,) = home.glob("lib/python*/site-packages")
    plan = tmp_path / "plan.toml"
    plan.write_text('delta = 1e-5\n[[release]]\nevent = "laplace"\nscale = 2\n')
    priced = run(commands / "accountant", "epsilon", str(plan), "--json", cwd=tmp_path, cache=tmp_path / "cache")
    assert json.loads(priced)["epsilon"] == pytest.approx(0.5, abs=1e-4)
    assert list(tmp_path.glob("cache/kernels/*/*/*.nbc")), "a kernel was compiled"
    assert not list(packages.rglob("*.nb[ic]"))
    run(*pip_of(home), "uninstall", "--quiet", "--yes", "knn-accountant", cwd=tmp_path)
    assert not list(packages.glob("accountant*")) + list(packages.glob("mechanisms*"))
    for package in ("accountant", "mechanisms"):
        shutil.copytree(ROOT / package, source / package, ignore=MADE)
    (packages / "editable.pth").write_text(str(source))  # what `pip install -e` does
    code = "import accountant.events.event as event; print(event.__file__)"
    place = run(commands / "python", "-c", code, cwd=tmp_path).strip()
    assert Path(place).is_relative_to(source)
