"""What a device will hold in each mode of `--shard`, before a run. No TensorFlow.

`step_sizes` are the sizes of a model, its optimizer and a step, as another process tells them; `memory_plan` shares
them out; `memory_table` and `memory_json` show it.
"""
