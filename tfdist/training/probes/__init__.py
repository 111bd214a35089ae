"""Probes of a training for `tfdist verify`.

A `step_observer` is called before and after every execution of steps. There are two: the `recorder` writes loss,
metrics, gradients and weights, and may begin with weights that are perturbed; the `tracer` writes the data of each
step, and kills its worker at a given step, or waits there. Both read `step_fingerprints`, and write `probe_files`.
"""
