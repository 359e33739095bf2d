"""``flwr run "$(python -m mechanisms.flower)" CONNECTION``, and ``python -m mechanisms.flower check NODE-CONFIG``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import accountant as ac
from mechanisms.flower import APP

USAGE = "accepted: nothing, for the app's directory; or check and a node configuration"


def main(arguments: Sequence[str]) -> int:
    """Print the app's directory; or check a node's configuration, for its operator alone."""
    if not arguments:
        print(APP)
        return 0
    if len(arguments) != 2 or arguments[0] != "check":
        print(f"arguments {' '.join(arguments)!r}; {USAGE}", file=sys.stderr)
        return 2
    from flwr.common.config import parse_config_args

    from mechanisms.flower.client import open_client
    from mechanisms.flower.options import NodeOptions

    try:
        client = open_client(NodeOptions.of(parse_config_args([arguments[1]])), 1)
    except ac.AccountantError as error:
        print(error, file=sys.stderr)
        return 1
    records, columns = client.shape
    print(f"{records} records of {columns} columns; spent so far: {client.spent_!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
