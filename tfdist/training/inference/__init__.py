"""What the workers of `tfdist predict`, `evaluate`, `quantize` and `prune` do with a trained model.

`inference_run` is what a worker does, as a request says: it opens the data, loads the model, and evaluates it, or
predicts by `prediction_run`. That tells how far it is, and keeps what the model gives in a `prediction_store`, in
parts: files that are whole or not there, with a manifest by which a later start goes on. At the end the parts become
one file, in one of the formats in `outputs/`, or a folder of kept outputs. `pruned_model_run` measures what a pruning
has come to, and what is left of each layer.
"""
