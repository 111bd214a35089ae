"""What `tfdist data` does with files, in the processes of `process_pool`.

`shard_job` makes TFRecord shards of other formats in a folder: `shard_samples` reads, `shard_writer` writes,
`shard_manifest` keeps what is finished, `shard_config` shows the section that reads them. `data_folder` says which
files of a folder are data; `file_checks`, `line_checks`, `parquet_checks` and `tar_checks` verify them for
`check_report`, and `index_builder` indexes them. `starter/` makes a config of data to start with.
"""
