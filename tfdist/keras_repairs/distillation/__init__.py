"""A model that learns from a teacher, besides the labels, without being another model.

`distilled_loss` gives a model a teacher for its `fit`, `soft_targets` is the loss of what the teacher says, and
`distillation_metrics` logs it beside that of the labels.
"""
