"""Runs that are only rehearsed: a few steps, and nothing of them is kept.

`rehearsal_request` is what the workers are told, and `rehearsed_job` runs the job in a folder that is removed at its
end: `tfdist train --fast-dev-run`, and `tfdist plan` of a script.
"""
