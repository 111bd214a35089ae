"""Runs a user's own training on one replica and on several, and compares the two step by step."""
