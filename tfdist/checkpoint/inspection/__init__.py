"""The operations of `tfdist checkpoints` on the checkpoints of a run, from their files alone and without TensorFlow.

`locations` finds the folder, and `checkpoint_entries` the checkpoints in it, as a list. `stored_variables` reads their
variables; `contents` shows one checkpoint, or the changes between two.
`model_choice` finds the model that a user names: a file, or what a run has.
`removal` removes old ones, `export` copies one to a file for Keras.
"""
