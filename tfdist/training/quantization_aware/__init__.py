"""Training that knows of a quantization to come: `quantization_aware_callback` is the callback of a `fit`, and
`fake_quantization` rounds what its layers compute with.
"""
