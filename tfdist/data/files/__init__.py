"""Data files: which ones a pattern matches, which file system they lie on, and how remote ones are opened."""
