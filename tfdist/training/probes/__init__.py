"""Probes of a training for `tfdist verify`.

A `step_observer` is called before and after every execution of steps. There are two: the `recorder`, set up by
`recording_setup`, writes loss, metrics, gradients and `weight_samples` to a `recording_file`, and may begin with
weights that are perturbed; the `tracer` writes the data of each step to a `trace_file`, and kills its worker at a given
step, or waits there. Both read `step_fingerprints`, and write arrays to an `array_file`.
"""
