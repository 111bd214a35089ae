"""The user's code, tried out on made-up values: does it couple the rows of a batch?

- `trial_scope`: where code is tried out, and leaves no trace; `trial_notes`: what is noted of it
- `kept_state`: what the user's objects hold, as it was before; `likeness`: whether two of them are alike
- `kept_tensors`: what they hold of a step, which each replica has for itself
- `split_comparison`: what a batch gives, compared with what its parts give; `noted_writes`: what the code writes
  besides, where nothing is written, and what replicas can share out of it
- `loss_trial`: losses
- `ways_of_calling`, `made_up_inputs`: calls of layers and models, and their labels; `call_verdict`: what a trial shows
  of one
- `recorded_layers`, `layer_trial`: layers, and those within them
- `replica_trial`: code as on one replica and as on two that are emulated
- `model_trial`: models; `steps/`: the user's steps
"""
