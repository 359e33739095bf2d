"""``python -m accountant``."""

import sys

from accountant.cli import main

if __name__ == "__main__":  # workers of a sweep import this file
    sys.exit(main())
