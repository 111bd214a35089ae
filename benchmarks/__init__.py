"""Benchmarks: whole processes, in pairs, each on cores of its own; medians and ratios rather than single times."""
