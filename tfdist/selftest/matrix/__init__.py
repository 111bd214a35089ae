"""The rows as workers run them: `python -m tfdist.selftest.matrix ORDER`, a script like any other of `tfdist train`.

`row_runner` runs the rows of an order one after the other, each from the same fresh state. `training_rows` has one
training a feature, which is recorded, and compared by the launcher; `saving_rows` what is saved and loaded, and what is
killed and resumed; `copies_row` copies between devices and sums over all of them, checked to the bit; `speed_row` takes
the times of a step.
"""
