"""Status of a run, and of all runs in a folder.

    status_reader    reads the run directories and looks for the processes
    run_status       judges what was read; run_list has the runs of a folder
    status_summary   headlines, columns and notes, which all renderers share
    status_table     text for people, run_list_table that of a folder; status_json for programs
    live_display     redraws the text for --watch

Only status_reader reads a disk or a clock.
"""
