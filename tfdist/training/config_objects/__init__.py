"""The objects that a config describes: made for a run, and checked with all mistakes at once before it.

`objects` makes all of them, with the callbacks: `model_builder` makes the model, `object_maker` the optimizer, losses
and metrics. `distillation_maker` gives the model one of the `teachers`, once the kinds of outputs of both are known. A
`trained_model` is made of the config of its run. `sample_shapes` compares the data with the model. What is wrong is one
of the `problems`. In the process `check_worker`, an `answering_process`, `tfdist config check` does all that.
"""
