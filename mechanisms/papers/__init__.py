"""Every table and figure of the five papers, declared in one file each, run by one runner.

``PAPER/ITEM.toml`` says what the paper prints, which price or run stands beside it, and why the two differ.
"""

from mechanisms.papers.catalogue import list_items, load_item
from mechanisms.papers.item import Figure, Item, ItemError, Row
from mechanisms.papers.runner import Request, Result, reproduce
from mechanisms.papers.writing import write_result

__all__ = [
    "Figure",
    "Item",
    "ItemError",
    "Request",
    "Result",
    "Row",
    "list_items",
    "load_item",
    "reproduce",
    "write_result",
]
