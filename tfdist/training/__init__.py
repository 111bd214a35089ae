"""A worker process: from its start by a launcher, or a script's first call, to the end of its training.

`worker` is the main of a process that `tfdist train` starts; `api` and `collectives_api` have the functions that a
script calls. They make a `session/`, which opens the link of `supervision/` to the launcher, sets up devices and
strategy, and installs the repairs of Keras. Then `config_objects/` makes what a config describes and `config_run/`
trains it, `script_run/` executes a script, or `inference/` predicts, evaluates and, with `quantization/`, quantizes;
`pruned_model/` measures what a pruning has come to: as `requests/` say, of the `model_outputs/`.
While they train, `pruning/` takes weights away and `quantization_aware/` rounds them where a callback asks for it,
`checkpoints/` saves and resumes, `supervision/` reports and stops, `results/` are what a script leaves behind,
`probes/` record for `tfdist verify`, and `rehearsal/` has a run only tried. In a process of its own and without a
session, `export/` writes a model for other runtimes, in which `artifacts/` runs it, and `step_memory/` tells what a
step would hold.

A room imports only from earlier ones: `supervision/`; `probes/` and `checkpoints/`; `rehearsal/` and `results/`;
`session/`; `pruning/` and `quantization_aware/`; `model_outputs/`; `config_objects/`; `requests/`; the two runs,
`inference/` with `quantization/` and `pruned_model/`, and `artifacts/`; `export/` and `step_memory/`.

Of both kinds of run: `refused_breakpoint` (where a worker has no input), `libraries` (versions, seeds, and Keras 2,
which is refused), `weights_file` (weights that the chief reads), `announcements` (what a run says of itself),
`provenance` (what was run), and on disk loss and metrics of each epoch: `run_record_callback` with `metric_values`.
"""
