"""Trains a table with one repair taken out: `python -m tests.workers.embedding_without_repair Embedding.call`."""

import json
import sys

from tests.workers import embedding_cases
from tfdist.keras_repairs.registry import repairs

(repair,) = (repair for repair in repairs() if repair.path == sys.argv[1])
setattr(repair.owner, repair.name, getattr(repair.owner, repair.name).__wrapped__)
try:
    said = embedding_cases.outcome("momentum_and_clipnorm", 65)["weights"]
except Exception as error:
    said = f"{type(error).__name__}: {error}"
print(json.dumps(said))
