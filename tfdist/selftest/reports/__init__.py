"""Reports of a selftest: a `selftest_report` has all that was found, and the exit code.

The `machine_report` tells of versions, GPUs and their topology; the `speed_table` of the times of a step, and how they
scale. The `selftest_table` is for terminals, a line a result. The `report_folder` is where report.md
goes, for people who have never seen the machine, and report.json.
"""
