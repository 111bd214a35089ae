"""The data plan of a run, made from sizes alone: no data is read, and nothing is trained.

`plan_inputs` holds the sizes, which the caller looks up; `plan` makes the plan of them, with what each worker reads
(`worker_reads`). `plan_warnings` says what is slow, wasteful or not reproducible in it; `random_calls` finds random
numbers in a function's source. `plan_table` and `plan_json` show the plan. `memory/` plans what a
device will hold of the model. `fit/` is the plan of a script, of which a few steps are tried.
"""
