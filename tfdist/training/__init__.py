"""A worker process: from its start by a launcher, or a script's first call, to the end of its training.

`worker` is the main of a process that `tfdist train` starts; `api` and `collectives_api` have the functions that a
script calls. They make a `session/`, which opens the link of `supervision/` to the launcher, sets up devices and
strategy, and installs the repairs of Keras. Then `config_objects/` makes what a config describes and `config_run/`
trains it, `run_script` executes a script, or `inference/` predicts, evaluates and measures a pruned model, or, with
`quantization/`, quantizes: as an `inference_request` says.
While they train, `pruning/` takes weights away and `quantization_aware_callback` rounds them where a callback asks for
it, `checkpoints/` saves and resumes, `supervision/` reports and stops, `script_results` are what a script leaves,
`probes/` record for `tfdist verify`, and `rehearsal/` has a run only tried. In a process of its own and without a
session, `export/` writes a model for other runtimes, in which `artifacts/` runs it, and `step_memory/` tells what a
step would hold.

A room imports only from earlier ones: `supervision/`; `probes/` and `checkpoints/`; `rehearsal/`; `session/`;
`pruning/`; `config_objects/`; the two runs, `quantization/`, `inference/` and `artifacts/`; `export/` and
`step_memory/`.

Of both kinds of run: `refused_breakpoint` (where a worker has no input), `libraries` (versions, seeds, and Keras 2,
which is refused), `weights_file` (weights that the chief reads), `provenance` (what was run), and on disk loss and
metrics of each epoch: `run_record_callback` with `metric_values`.
"""
