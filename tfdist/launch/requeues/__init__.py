"""Decides whether a scheduler may start a run again that it has terminated.

`requeue_policy` decides from the starts that the run has had, which `run_starts` reads from its directory.
"""
