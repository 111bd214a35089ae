"""Helpers of tests in several folders: what they start, wait for, and take for models and files."""
