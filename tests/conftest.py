"""What all tests share."""

from collections import defaultdict

import pytest

from tests.places import empty_folder

try:
    from hypothesis import HealthCheck, settings
    from hypothesis.internal.conjecture import providers
except ImportError:  # the environment with PyTorch has none
    pass
else:
    # A test finds the same examples in every run, and fails for being slow on no machine.
    # `--hypothesis-profile=default` draws others.
    settings.register_profile(
        "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("repeatable")
    # examples would also hold constants of the modules that are loaded, which depend on the tests that ran before
    if hasattr(providers, "_get_local_constants"):
        NO_CONSTANTS = providers.Constants()
        providers._get_local_constants = lambda: NO_CONSTANTS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Cases of a test are audits, but for as many as its mark `each_run` says: these are spread evenly over them."""
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("each_run") and not item.get_closest_marker("audit"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        (count,) = cases[0].get_closest_marker("each_run").args
        kept = {place * len(cases) // count for place in range(count)}
        for place, case in enumerate(cases):
            if place not in kept:
                case.add_marker("audit")


@pytest.fixture
def tmp_path():
    """An empty directory, in memory where there is one."""
    with empty_folder() as place:
        yield place
