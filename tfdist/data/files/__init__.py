"""Data files, wherever they lie.

`file_patterns` finds the files that a pattern matches, `file_facts` what they lie on, and by which stamp a change
is noticed; `missing_files` looks for those of a config before its run begins; `remote_files` opens files on any file
system.
`image_folder` lists a folder of images, class by class.
`parquet_footers` finds files of Parquet that must not be read.
"""
