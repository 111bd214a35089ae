"""Plans what a device will hold in each mode of `--shard`, before a run. No TensorFlow.

`step_sizes` are the sizes of a model, its optimizer and a step, as another process tells them; `memory_plan` shares
them out, by what `model_state` says that workers hold; `memory_table` and `memory_json` show it. `layout_plan` has what
workers hold and send of weights that are cut by layouts, and `layout_table` shows that.

`state_check` refuses a run that has too little memory, of which `host_memory` tells how much a host has.
"""
