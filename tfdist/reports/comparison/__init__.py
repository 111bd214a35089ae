"""Comparison of runs: how each ended, its metrics, and what differs between their configs.

    compared_run      one run as it is compared, read from its directory
    run_comparison    the rows of the table: no clock, no disk
    comparison_table  the table in a terminal, and for programs

Only compared_run reads a disk.
"""
