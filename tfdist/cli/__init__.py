"""The command line: one verb a file; each parses, calls one function below and prints."""
