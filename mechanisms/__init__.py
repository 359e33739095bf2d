"""Private labelling runs, each wired to `accountant` end to end.

Mechanisms draw the noise and hand the accountant the composition that they spent; no privacy formula lives
here.
"""

from mechanisms.audit import Audit, audit
from mechanisms.individual_knn import IndividualKNN
from mechanisms.journal import Journal
from mechanisms.labelling import Labelling
from mechanisms.noisy_sgd import LinearNoisySGD
from mechanisms.pate import GNMax, LNMax
from mechanisms.private_knn import PrivateKNN
from mechanisms.rounds import Rounds, label_in_rounds

__all__ = [
    "Audit",
    "GNMax",
    "IndividualKNN",
    "Journal",
    "LNMax",
    "Labelling",
    "LinearNoisySGD",
    "PrivateKNN",
    "Rounds",
    "audit",
    "label_in_rounds",
]
