"""What makes Keras right under a strategy; the only package that touches Keras internals.

`install()` replaces a handful of Keras functions. Each replacement stands in the file of its subject, takes the
original as its argument and falls back to it wherever one replica trains, so nothing changes there.
"""

from __future__ import annotations

from tfdist.keras_repairs.forward.gathered_metrics import GatheredMetric
from tfdist.keras_repairs.install import install

# A metric is registered with Keras where it is imported; a model that was saved with it must load in any script.
__all__ = ["GatheredMetric", "install"]
