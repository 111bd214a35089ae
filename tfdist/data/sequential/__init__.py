"""Reading in sequence what has no random access: compressed and remote TFRecord files, and generators.

`tfrecord_stream` reads a file from its start to its end, and `sequential_reader` finds samples by their numbers in such
streams. `sequential_tfrecords` joins both, counts a file's records and keeps the count.
It opens files so, or for random access where they allow it.
"""
