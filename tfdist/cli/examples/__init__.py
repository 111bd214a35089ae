"""The verbs of `tfdist examples`, one a file: `list_examples` and `copy_examples`, in `examples_group`."""
