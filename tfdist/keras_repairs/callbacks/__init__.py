"""The callbacks of `fit`, `evaluate` and `predict` on several workers.

- `callback_list`: the list of each call, made of those that run here and those that tfdist adds; refused are those that
  write where TensorFlow cannot
- `callback_placement`: on which workers a callback runs, and at which batches it acts
- `chief_decisions`: when to stop, and with which learning rate to continue, on all workers alike
- `backup_and_restore`: Keras's callback of that name
"""
