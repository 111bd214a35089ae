"""Quantization, as `tfdist quantize` has its workers do it.

`quantization_run` is what a worker does, as a request says. The chief alone quantizes, on a model of its own outside of
the strategy: `layer_quantization` knows which layers a mode covers, how one is quantized, and which of them a file can
record, and `quantized_files` writes a file for any choice of them. A `calibrated_kernel` is rounded by samples, which
all workers read into `input_moments`. All workers together measure each file by `model_evaluation`: what is measured is
what will be shipped. `layer_choice` decides from what was measured which layers stay in float, by a budget.
"""
