"""Collectives between workers.

- `decisions`: decisions and small values of numpy, between steps
"""
