"""The user's steps, tried out on made-up samples: do two replicas do what one does?

- `step_capture`: what a step would give to optimizers and metrics, of which nothing is applied
- `step_methods`: the methods of the model that its steps call, which may be gathered
- `step_verdict`: what a trial finds; `assigned_variables`, `gradient_slices`, `step_comparison`: how it finds it
- `step_trial`: steps of training, tests and `predict`
- `loop_trial`: what a loop of the user's own runs on each replica
"""
