"""Status of a run, and of all runs in a folder.

    status_reader    reads the run directories and looks for the processes; the runs of a folder
    run_status       judges what was read
    status_table     headlines, columns and notes; text for people, also redrawn for --watch, and JSON for programs

Only status_reader reads a disk or a clock.
"""
