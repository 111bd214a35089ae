"""A run from a config.

`run_config` is the run, of the objects that `config_objects` makes: `run_resume` decides where it starts.
`progress_callback` prints each epoch, with `metric_texts`, and measures the `input_wait`; the launcher is told of the
`running_epoch`, with the time that is left. `run_summary` prints start and end, with the best epoch and the
`input_remedy` for the input that `input_description` describes, by its `input_place`. `model_from_checkpoint` builds
the model of a finished or running run again, to export it.
"""
