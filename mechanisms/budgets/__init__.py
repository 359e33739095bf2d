"""Files and databases that outlive a process: budgets of records, answers, and journals of runs."""

from mechanisms.budgets.journal import Journal, JournalError
from mechanisms.budgets.store import Store, StoreError, open_store

__all__ = ["Journal", "JournalError", "Store", "StoreError", "open_store"]
