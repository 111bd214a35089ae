"""The result of a pruning, as `tfdist prune` has its workers measure it once the model is fine-tuned.

`pruned_model_run` is what a worker does, as a request says, and what is left of each layer.
"""
