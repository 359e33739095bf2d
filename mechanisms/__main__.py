"""``python -m mechanisms``."""

import sys

from mechanisms.cli.command import main

sys.exit(main())
