"""Private labelling by nearest neighbours, priced by `accountant`.

Mechanisms draw the noise and give the accountant the composition of what they spent. This package holds no privacy
formula.
"""

import accountant  # noqa: F401  # first, as it heeds Ctrl-C while a command is imported
from mechanisms.audit import Audit, OneRunAudit, audit, audit_one_run
from mechanisms.budgets.journal import Journal
from mechanisms.federation.ledger import Ledger, MemoryLedger
from mechanisms.federation.messages import MessageError
from mechanisms.federation.server import Client, Server, Shuffler
from mechanisms.forecast import Forecast, Proposal, affordable_queries, gap_votes, plan_labelling, plan_votes
from mechanisms.individual_knn import IndividualKNN
from mechanisms.labelling import Labelling
from mechanisms.noisy_sgd import LinearNoisySGD, TwoLayerNoisySGD
from mechanisms.pate import GNMax, LNMax
from mechanisms.presets import IndividualKNNPreset, individual_knn_preset
from mechanisms.private_knn import PrivateKNN
from mechanisms.reverse_knn import ReverseKNN
from mechanisms.rounds import Rounds, label_in_rounds
from mechanisms.tuning import Tuner, Tuning, TuningError, tune
from mechanisms.vote_chances import answer_probability, expected_answers, pass_probability

__all__ = [
    "Audit",
    "Client",
    "Forecast",
    "GNMax",
    "IndividualKNN",
    "IndividualKNNPreset",
    "Journal",
    "LNMax",
    "Labelling",
    "Ledger",
    "LinearNoisySGD",
    "MemoryLedger",
    "MessageError",
    "OneRunAudit",
    "PrivateKNN",
    "Proposal",
    "ReverseKNN",
    "Rounds",
    "Server",
    "Shuffler",
    "Tuner",
    "Tuning",
    "TuningError",
    "TwoLayerNoisySGD",
    "affordable_queries",
    "answer_probability",
    "audit",
    "audit_one_run",
    "expected_answers",
    "gap_votes",
    "individual_knn_preset",
    "label_in_rounds",
    "pass_probability",
    "plan_labelling",
    "plan_votes",
    "tune",
]
