"""``python -m accountant``."""

import sys

from accountant.cli import main

sys.exit(main())
