"""Small reference models of plain Keras layers, for examples, tests, benchmarks and as a start: `classifiers`;
and models that were saved, in `model_file`.

Classifiers end in a softmax, so that losses named in a config, such as
`sparse_categorical_crossentropy`, fit. All train the same on any number of replicas: none has a layer whose result
depends on the other samples of a batch but `tabular`, whose BatchNormalization takes those of the global batch.
"""

from tfdist.models.classifiers import cnn, mlp, tabular, text_classifier, transformer
from tfdist.models.model_file import from_file

__all__ = ["cnn", "from_file", "mlp", "tabular", "text_classifier", "transformer"]
