"""``python -m accountant``."""

import sys

from accountant.cli.main import main

sys.exit(main())
