"""Checks for `tfdist doctor`: this machine, what a run here would use, and whether the workers reach one another.

    machine/         facts about this machine and the checks of them
    mesh/            connections between the hosts, found and measured from both ends
    examination      runs the checks of this machine and, with a worker list, the mesh
    check_result     what one check comes to: ok, warn or fail
    doctor_report    everything that was found, as a table and as JSON

TensorFlow is never loaded here: a process of its own is asked.
"""
