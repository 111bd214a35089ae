"""Random access to the records of local files: TFRecord files that are not compressed, lines of text, tars, Parquet.

`tfrecord_scan` and `file_scans`, of lines and of tars, find where the records of a file lie; `record_index` keeps that
in an index file (`index_files`). `numbered_records` numbers the records of several files through, and `record_reader`
reads them by their numbers, many in one call (`linux_aio`). `tfrecord_reader` verifies checksums (`crc32c`);
`line_reader` cuts lines, and labelled ones into a label and a text. `parquet_reader` reads row groups, whose
`parquet_columns` become arrays.
"""
