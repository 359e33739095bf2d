"""A walk through the registry: every event has a price by the route that the documentation says."""

from collections.abc import Callable

import pytest

pytest.importorskip("sklearn")

from accountant.events.registry import event_kinds
from tests import routes


@pytest.mark.each_run(12)
@pytest.mark.parametrize("name", routes.names())
def test_every_event_is_priced_as_the_page_says(name: str) -> None:
    """And what is not tight has a reason, and nothing else has."""
    found = routes.cells(name)
    assert routes.row(name, found) in routes.committed(), "python -m tests.routes"
    for each in (each for each in found if each is not None):
        assert each.price.method in ("tight", "renyi")
        assert (each.price.lower or 0.0) <= each.price.epsilon <= each.bound * (1 + 1e-9)
        if each.price.method == "tight":
            assert each.width is not None
    texts = {each.text() for each in found if each is not None}
    assert (texts != {"tight"}) == (name in routes.REASONS)


def test_the_page_has_every_event_once_and_no_other() -> None:
    head, _, *rows = routes.committed()
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["event", *routes.COLUMNS, "why"]
    kinds: list[Callable[..., object]] = [event_kinds()[name] for name in routes.names()]
    assert [line.split("`")[1] for line in rows] == [kind.__name__ for kind in kinds]
