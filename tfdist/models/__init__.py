"""Small reference models of plain Keras layers, for examples, tests and benchmarks: `image_models`, `text_models`.

Each ends in a softmax (`output_heads`), so that losses named in a config, such as `sparse_categorical_crossentropy`,
fit. None has layers whose result depends on the other samples of a batch: they train the same on any number of
replicas.
"""

from tfdist.models.image_models import cnn, mlp
from tfdist.models.text_models import text_classifier, transformer

__all__ = ["cnn", "mlp", "text_classifier", "transformer"]
