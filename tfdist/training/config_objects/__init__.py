"""The objects that a config describes: made for a run, and checked with all mistakes at once before it.

`objects` makes all of them: `model_builder` the model, `object_maker` the optimizer, losses and metrics by the names of
`keras_names`, each once `call_arguments` has checked what it is called with, and `callback_maker` the callbacks.
`distillation_maker` gives the model the teacher of `teacher_maker`, or what a `kept_teacher` has said, once the
kinds of outputs of both are known.
A `trained_model` is made of the config of its run.
`sample_shapes` compares the data with the model. What is wrong is one of the `problems`. In the process `check_worker`,
an `answering_process`, `tfdist config check` does all that.
"""
