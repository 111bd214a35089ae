"""A member of the package."""

TEXT = "no more to do"
