"""The requests of commands: what workers are asked to do with a trained model.

An `inference_request` is one of a prediction, an evaluation, a `quantization_request` or a `pruning_request`; the
`first_samples` of its data are those by which a model is timed.
"""
