"""Whatever bytes come from outside: readers answer with an error of tfdist's, within bounds of time and memory.

Each property is tried with the same few examples in every run, and by hand with as many as fit into a time:

    TFDIST_FUZZ_MINUTES=2 pytest -s tests/fuzz

for two minutes each. What it finds becomes a test of its own beside the tests of the module.

- `properties`: how a property is tried, its bounds, and how many examples it had.
- `hostile_values`: values, texts and bytes as they should not be, and valid ones that were changed.
- `chunks`: bytes on their way through a socket, in pieces.
- `valid_files`: files as tfdist writes them, to be changed.
- `contents`: what a folder holds, to see that nothing is lost.
"""
