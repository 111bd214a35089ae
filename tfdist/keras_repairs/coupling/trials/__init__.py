"""The user's code, tried out on made-up values: does it couple the rows of a batch?

- `trial_scope`: where code is tried out, and leaves no trace
- `kept_state`: what the user's objects hold, as it was before; `likeness`: whether two of them are alike
- `foreign_variables`: what they hold and nobody restores
- `kept_tensors`: what they hold of a step, which each replica has for itself
- `split_comparison`: what a batch gives, compared with what its parts give; `trial_notes`: what is noted of the code,
  and what it writes besides, where nothing is written
- `loss_trial`: losses
- `made_up_inputs`: in which ways layers and models are called, with which inputs and labels
- `call_trial`: layers and models; `recorded_layers`: layers within these
- `replica_trial`: code as on one replica and as on two that are emulated
- `steps/`: the user's steps
"""
