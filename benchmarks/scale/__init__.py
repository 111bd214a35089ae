"""Scale: what launchers cost when there are hundreds of them, on namespaces of one machine.

`command` is `python -m benchmarks scale`. For each number of launchers `measurement` starts one `launcher_process` for
the chief and one for the last worker, each a real launcher with a `stepping_worker`, and one `follower_process` on each
host for all the other launchers there: threads of it that run what a launcher runs, with workers that are objects. What
came of it goes through `report`.
"""
