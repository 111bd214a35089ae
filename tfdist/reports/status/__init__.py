"""Status of a run.

    status_reader    reads the run directory and looks for the processes
    run_status       judges what was read
    status_table     text for people; status_json for programs
    live_display     redraws the text for --watch

Only status_reader reads a disk or a clock.
"""
