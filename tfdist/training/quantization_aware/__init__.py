"""Training that knows of a quantization to come: `quantization_aware_callback` is the callback of a `fit`, and
rounds what its layers compute with.
"""
