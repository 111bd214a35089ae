"""The callbacks of `fit`, `evaluate` and `predict` on several workers.

- `callback_list`: the list of each call, made of those that run here and those that tfdist adds
- `callback_placement`: on which workers a callback runs; `library_callbacks`: those of libraries that only write;
  `batch_hooks`: at which batches a callback acts
- `chief_decisions`: when to stop, and with which learning rate to continue, on all workers alike
- `callback_paths`: refuses those that write where TensorFlow cannot
- `backup_and_restore`: Keras's callback of that name
"""
