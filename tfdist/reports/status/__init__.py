"""Status of a run.

status_reader    reads the run directory and looks for the processes
run_status       judges what was read
status_table     the picture for people, status_json for programs
live_display     redraws the picture for --watch
"""
