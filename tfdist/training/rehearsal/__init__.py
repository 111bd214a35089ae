"""Rehearsals: a run makes a few steps, and nothing of it is kept.

`rehearsal` connects it to the repairs of Keras: with a limit of steps in each `fit` and `evaluate`, and the callbacks'
files elsewhere; or with a `fit_planner`, which ends the process once it has described the first `fit`.
"""
