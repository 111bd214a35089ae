"""A model that learns from a teacher, besides the labels, without being another model.

`distilled_loss` gives a model a teacher for its `fit`, and logs what the student learns from it beside the loss of the
labels; `soft_targets` is the loss of what the teacher says.
"""
