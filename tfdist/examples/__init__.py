"""The examples and their configs, and how they come to a user's own folder.

    example_files    which files of a source tree they are: those that the wheel carries
    example_catalog  where they lie, beside this package in a source tree, within it in a wheel; one line about each,
                     and their copies in a folder, over nothing that is there

In a source tree they are the top-level folders `examples/` and `configs/`; setup.py puts those into the wheel as
`files/`. Nothing here is specific to one example.
"""

from tfdist.examples.example_catalog import Copied, Example, catalog, copy_examples

__all__ = ["Copied", "Example", "catalog", "copy_examples"]
