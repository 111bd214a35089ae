"""`tfdist.ray.Trainer`: Ray Train starts the workers, and they train as those of `tfdist train` do.

`trainer` is the trainer, with the `train_options` of its workers. Before the training function `backend` forms the job:
each worker takes a port, the chief makes the run directory in Ray's storage, and all get their assignments. Around the
function it starts the session, and ends it. `report_callback` reports each epoch to Ray. Ray restarts the workers after
a failure; they resume from tfdist's own checkpoints.
"""
