"""The launcher's work with the run directory.

`run_location` creates or joins it, and `run_lock` keeps other jobs out of it. While the job runs, `run_records` writes
states, phases, failures and the launcher's lines of the ledger; those that a killed one could not write are
`run_location`'s. `closing_report` puts the result into words for the terminal. `epoch_metrics` reads the loss and
metrics of the epochs, which the chief writes. `run_stop` ends a run from outside of it, for `tfdist stop`.
"""
