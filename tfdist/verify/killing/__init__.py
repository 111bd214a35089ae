"""Runs a user's own training once untouched and once killed again and again, and compares the two to the bit."""
