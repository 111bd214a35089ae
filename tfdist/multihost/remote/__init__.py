"""A host on which a training is launched.

    remote_end      reads one specification, checks, runs `tfdist train`, and stops it when its stdin closes
    host_checks     what is checked here
"""
