"""A copy of the run directory in a bucket: `tfdist train --copy-to s3://BUCKET/RUN`.

`copy_store` decides which files are copied when, and in which order, and reads and writes the copy; `run_copy` keeps it
up while the job runs, by a thread of the chief's launcher.
"""
