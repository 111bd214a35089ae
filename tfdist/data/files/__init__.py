"""Data files, wherever they lie.

`file_patterns` finds the files that a pattern matches, `file_systems` what they lie on; `missing_files` looks for those
of a config before its run begins; `file_stamps` notices changes; `remote_files` opens files on any file system.
`image_folder` lists a folder of images, class by class.
`parquet_footers` finds files of Parquet that must not be read.
"""
