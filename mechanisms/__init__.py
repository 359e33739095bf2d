"""Private labelling runs, each wired to `accountant` end to end.

Mechanisms draw the noise and hand the accountant the composition that they spent; no privacy formula lives
here. None has been built yet.
"""
