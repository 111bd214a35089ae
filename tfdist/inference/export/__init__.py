"""Exports, as `tfdist export` starts them; what they do is `training/export`.

`calibration_choice` says by which samples an export in integers is calibrated.
`export_target` says which file or folder is made, `export_job` has a process write it under another name, and gives it
its own when it is whole and the same as Keras. `export_table` is what is printed. Nothing here loads TensorFlow.
"""
