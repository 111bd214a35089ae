"""Predictions and evaluations, as `tfdist predict` and `tfdist evaluate` have their workers make them.

`inference_run` is what a worker does, as a request says: it opens the data, gets the model from `inference_model`, and
evaluates it, or predicts by `prediction_run`. That tells how far it is, and keeps what the model gives in a
`prediction_store`, in parts: files that are whole or not there, and a `prediction_manifest`, by which a later start
goes on. At the end the parts become one file, in one of the formats in `outputs/`, or a folder of kept outputs, logits
or probabilities.
"""
