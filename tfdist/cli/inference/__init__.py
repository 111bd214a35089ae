"""The verbs that use a trained model: `predict`, `evaluate` and `quantize`, by `inference_options`, and `export`."""
