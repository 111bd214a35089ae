"""Selftest: shows an owner of any machine that the promise holds there. `selftest` calls the others, in this order.

    layouts               one device, all devices, one worker a device
    rows                  what can be tried, by the options, over how many jobs, and what came of each
    row_jobs              jobs that run rows, and the end of all when the time is up
    matrix/, row_log      the rows themselves, in the workers, and their notes for the launcher
    killed_row            what verify makes of a training that is killed
    copy_judgement        whether copies arrive, and a way around those that do not
    selftest_report       all that was found, with the machine and the times, and the exit code
    report_texts          the table for terminals, and the files report.md and report.json

A floor of its own, above the two that it puts together and that do not know each other: `verify` runs trainings,
compares and judges, `doctor` tells of the machine. The rows are in the package, as owners of machines have no tests.
"""
