"""What the plot of an attacker says, against what the attacker does."""

import math
import re

import pytest

import accountant as ac
from accountant import plots


@pytest.mark.parametrize("floor", [1e-12, 1e-9, 3e-9, 1e-8, 7e-5, 1e-3, 0.00117, 0.0127, 0.05])
def test_the_bound_of_the_title_holds_at_the_rate_that_is_said(floor):
    title = plots.attack_risk(ac.PureDP(4.0), fpr_floor=floor).get_title(loc="left").replace("\n", " ")
    said = re.fullmatch(r"(\S+) % false alarms: at most (\S+) % of members found", title)
    alarms, members = map(float, said.groups())
    exact = 100 * min(math.exp(4.0) * alarms / 100, 1 - math.exp(-4.0) * (1 - alarms / 100))
    assert exact <= members <= 1.1 * exact
    assert alarms == pytest.approx(100 * max(floor, 1e-3), rel=0.1)
