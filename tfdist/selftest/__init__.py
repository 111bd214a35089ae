"""Selftest: shows an owner of any machine that the promise holds there. `selftest` calls the others, in this order.

    rows, selftest_spec   what can be tried, and the options
    layouts               one device, all devices, one worker a device
    row_jobs, deadline    jobs that run rows, and the end of all when the time is up
    row_runs              how many jobs the rows take, where some fail
    matrix/, row_log      the rows themselves, in the workers, and their notes for the launcher
    killed_row            what verify makes of a training that is killed
    copy_judgement        whether copies arrive, and a way around those that do not
    row_results           what came of each row
    reports/              the machine, the table, and the files

A floor of its own, above the two that it puts together and that do not know each other: `verify` runs trainings,
compares and judges, `doctor` tells of the machine. The rows are in the package, as owners of machines have no tests.
"""
