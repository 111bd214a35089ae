"""Random access to the records of local files: TFRecord files that are not compressed, lines of text, tars, Parquet.

`tfrecord_scan`, `line_scan` and `tar_scan` find where the records of a file lie (`scan_results`); `record_index` keeps
that in an index file (`index_files`). `numbered_records` numbers the records of several files through, and
`record_reader` reads them by their numbers, many in one call (`linux_aio`) and into `read_buffers`; `record_groups` are
batches of them. `tfrecord_reader` verifies checksums (`crc32c`); `line_reader` cuts lines, `labelled_lines` each into a
label and a text. `parquet_reader` reads row groups, whose `parquet_columns` become arrays.
"""
