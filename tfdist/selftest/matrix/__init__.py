"""The rows as workers run them: `python -m tfdist.selftest.matrix ORDER`, a script like any other of `tfdist train`.

`row_runner` runs the rows of an order one after the other, each from the same fresh state. `training_rows` has one
training a feature, which is recorded, and compared by the launcher, and those that are saved, loaded, killed and
resumed; `device_rows` copies between devices and sums over all of them, checked to the bit, and takes the times of a
step.
"""
