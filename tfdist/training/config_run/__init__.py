"""A run from a config.

`run_config` is the run, of the objects that `config_objects` makes: `run_resume` decides where it starts.
`epoch_progress` tells the launcher how far it is, and prints each epoch. `run_summary` prints start and end, with the
best epoch and the `input_report` on waits for data.
"""
