"""Trains a table with one repair after another out: `python -m tests.workers.embedding_without_repair PATH ...`."""

import json
import sys

from tests.workers import embedding_cases
from tfdist.keras_repairs.registry import repairs

said: list[object] = []
for path in sys.argv[1:]:
    (repair,) = (repair for repair in repairs() if repair.path == path)
    repaired = getattr(repair.owner, repair.name)
    setattr(repair.owner, repair.name, repaired.__wrapped__)
    try:
        said.append(embedding_cases.outcome("momentum_and_clipnorm", 65)["weights"])
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
    finally:
        setattr(repair.owner, repair.name, repaired)
print(json.dumps(said))
