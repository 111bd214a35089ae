"""Raises from a function, in the way that the first argument says."""

import sys


def fails() -> None:
    raise KeyError("the script's own")


if sys.argv[1] == "syntax":
    compile("1 +", "typed.py", "exec")
fails()
