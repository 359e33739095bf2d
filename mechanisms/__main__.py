"""``python -m mechanisms``."""

import sys

from mechanisms.cli import main

sys.exit(main())
