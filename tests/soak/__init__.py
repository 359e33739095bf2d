"""Certificates against exact prices of random runs: a thousand in every test run, any number by ``make soak``."""
