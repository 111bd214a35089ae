"""A copy of the run directory in a bucket: `tfdist train --copy-to s3://BUCKET/RUN`.

`copied_files` decides which files are copied when, and in which order. `copy_store` reads and writes the copy, and
`run_copy` keeps it up while the job runs, by a thread of the chief's launcher.
"""
