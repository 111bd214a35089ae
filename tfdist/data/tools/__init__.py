"""What `tfdist data` does with files, in the processes of `process_pool`.

`shard_job` makes TFRecord shards of other formats in a folder: `shard_writer` reads and writes, `shard_manifest` keeps
what is finished, and shows the section that reads them. `data_folder` says which files of a folder are data;
`file_checks` verifies TFRecord files, and reports, `format_checks` the others, and `index_builder` indexes them.
`starter/` makes a config of data to start with.
"""
