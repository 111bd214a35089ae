"""A module beside the scripts, which they import as python lets them."""

VALUE = 42
