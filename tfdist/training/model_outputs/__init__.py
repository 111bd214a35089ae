"""The outputs of a model, as what comes after training takes them.

`step_outputs` names those of a `predict_step`, and `output_columns` writes them as columns; `output_activations` says
whether they are logits or probabilities.
"""
