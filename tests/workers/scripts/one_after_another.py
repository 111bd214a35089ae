"""Runs other scripts one after the other, as if each were the one: every argument is the argv of one, as JSON."""

import json
import os
import runpy
import sys

start = os.getcwd()
for argv in map(json.loads, sys.argv[1:]):
    sys.argv = argv
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        assert not end.code, f"{argv[0]} ended with {end.code}"
    os.chdir(start)
