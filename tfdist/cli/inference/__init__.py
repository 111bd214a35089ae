"""The verbs of a trained model: `predict`, `evaluate`, `quantize` and `prune`, by `inference_options`; and `export`."""
