"""Data files, wherever they lie.

`file_patterns` finds the files that a pattern matches, `file_systems` what they lie on; `file_stamps` notices changes;
`remote_files` opens files on any file system.
"""
