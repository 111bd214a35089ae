"""A run of a user's script, which may know nothing of tfdist.

`run_script` is the run, from its first line on. Before it executes the script, `strategy_adoption` gives scripts that
make a strategy the session's, and settings of devices that come too late are to warn instead of fail; eager
execution cannot be switched off on several workers.
"""
