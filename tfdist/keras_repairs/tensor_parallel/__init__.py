"""Layers that compute with slices of their weights, as `keras.distribution.ModelParallel` lays them out.

Workers that share a weight have rows of their own, as all replicas have. A product with a slice of the weight takes the
rows of all of them, so what it sends is rows instead of weights (Shoeybi et al., 2019, arXiv:1909.08053; that all
between the products works on a worker's own rows is what Korthikanti et al., 2022, arXiv:2205.05198, do with slices of
a sequence). A product by columns yields slices of the features of all rows. They stay where they are as long as what
follows can compute with them: element by element, head by head, and in a product by rows, whose results are summed. Any
other operation finds the worker's own rows with all features.

- `sliced_tensors`: tensors of a graph of which each worker has a slice, and how others than that find the full one
- `created_operations`: where an operation is created, with slices or with full tensors
- `row_exchanges`: rows of all workers, and back to a worker's own, with their gradients
- `operation_rules`: operations that compute with slices what follows from slices: element by element, and by the others
- `reduction_rules`, `arrangement_rules`, `product_rules`, `image_rules`: sums and means; reshapes and parts; products,
  also with slices of weights; pooling and the like. `rule_results` says what a rule is given, and what it returns
- `matrix_products`: sums of products over labels as one product of matrices
- `vocabulary_rules`: softmax, crossentropy and the largest score over what is cut
- `position_slices`: sequences that `--context` cuts along their positions as they come into a layer;
  `position_products`: products of them, such as attention
- `keras_products`: functions of Keras that take products, look up and convolve with weights that are cut
- `keras_activations`: activations of slices as one compiled operation
"""
