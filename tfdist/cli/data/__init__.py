"""Verbs of `tfdist data`, one a file.

    data_group    the group of the verbs
    shard         makes TFRecord shards of other formats
    check         checks every record of files
    index         writes the index of files
    predict       keeps the outputs of a model for samples

`data_files` has what they share: options, formats by file name, work on files in several processes.
"""
