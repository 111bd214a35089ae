"""A host on which a training is launched.

    remote_end      reads one specification, checks, runs `tfdist train`, and stops it when its stdin closes
    host_checks     what is checked here
    remote_child    the process of `tfdist train`, and its end
    control_input   lines of stdin, and when they end
"""
