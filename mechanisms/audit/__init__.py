"""Lower confidence bounds on the epsilon of any mechanism, found by running it.

`audit` runs a mechanism many times on two neighbouring data sets; `audit_one_run` runs it once, with many records that
are each included or not. `likelihood` makes scores from what a mechanism promises, and `canaries` data sets on which
it reveals most.
"""

from mechanisms.audit.one_run import OneRunAudit, audit_one_run, one_run_tail
from mechanisms.audit.paired import Audit, Outcomes, Tail, audit

__all__ = ["Audit", "OneRunAudit", "Outcomes", "Tail", "audit", "audit_one_run", "one_run_tail"]
