"""A module that is run with -m: its package's members are found, and its exit is text."""

import json
import sys

from . import sibling

print(json.dumps({"argv": sys.argv, "name": __name__, "package": __package__, "path": sys.path[0]}))
sys.exit(sibling.TEXT)
