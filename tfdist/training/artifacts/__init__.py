"""Artefacts of a model for other runtimes, and how much they differ from Keras.

`artifact_formats` says which formats there are and what each needs; no TensorFlow is loaded by it. `artifact_run` runs
an artefact on arrays in its own runtime, in a process of its own, which opens it by `artifact_runtimes` and takes its
times. `output_comparison` compares what came of it with Keras's outputs.
"""
