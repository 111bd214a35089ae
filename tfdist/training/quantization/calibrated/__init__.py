"""Quantization by samples: weights are rounded by what the layer's inputs are, as GPTQ and AWQ do.

`kernel_layout` says which layers have a matrix of inputs and outputs, and `input_moments` measures the inputs of these
over all workers. `rounding_groups` rounds to the nearest; `calibrated_kernel` chooses better by the moments, and
puts what it chose into a layer of Keras. `kernel_calibration` is the request.
"""
