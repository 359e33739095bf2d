"""Certificates against exact prices of random runs: five hundred in every test run, any number by ``make soak``."""
