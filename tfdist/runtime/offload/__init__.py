"""Keeps an optimizer's state elsewhere than on the device that trains: in host memory, or on disk.

`offloading` is a run's choice; `scratch_file` the nameless file of a worker; `disk_tensor` a variable's value in it,
and the order in which values are read and written.
"""
