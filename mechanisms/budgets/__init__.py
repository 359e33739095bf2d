"""Files and databases that outlive a process: budgets of records, answers, and journals of runs."""

from mechanisms.budgets.journal import Journal, JournalError, JournalWarning
from mechanisms.budgets.store import Store, StoreError, open_store

__all__ = ["Journal", "JournalError", "JournalWarning", "Store", "StoreError", "open_store"]
