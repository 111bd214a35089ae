"""Starts the workers of a job on this machine and brings them to one end, without TensorFlow."""
