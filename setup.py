"""What setup.cfg cannot say: the address of the project, known to whoever publishes it (`make dist URL=...`)."""

import os
import re
from pathlib import Path

from setuptools import setup

HOME = Path(__file__).parent
RELATIVE = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s]+)\)")


def describe(address: str) -> dict[str, object]:
    """Project addresses, and README with absolute links: pages and pictures as they are at the tag of this version."""
    version = re.search(
        r'^__version__ = "(.+)"', (HOME / "accountant" / "__init__.py").read_text("utf-8"), re.MULTILINE
    )

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({address}/{kind}/v{version[1]}/{link[3]})"

    return {
        "url": address,
        "project_urls": {
            "Source": address,
            "Documentation": f"{address}/blob/v{version[1]}/notebooks/index.md",
            "Changelog": f"{address}/blob/v{version[1]}/CHANGELOG.md",
            "Issues": f"{address}/issues",
        },
        "long_description": RELATIVE.sub(absolute, (HOME / "README.md").read_text("utf-8")),
    }


given = os.environ.get("PROJECT_URL", "").rstrip("/")
setup(**(describe(given) if given else {}))
