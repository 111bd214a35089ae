"""Checkpoints of a training while it runs: when they are made, what is in them, and how a `fit` resumes.

`checkpoint_callback` saves and restores a training, by its schedule, with the `callback_state` of its callbacks. For
scripts, `checkpoint_options` says what was asked for, `fit_registry` which `fit` resumes from which checkpoint, and
`fit_checkpoint_callback` saves and restores one `fit`, where it may. `resume_files` notes each resume, and keeps the
files of CSVLoggers. Files are those of `tfdist.checkpoint`.
"""
