"""The output of workers, on its way to their log files and to the launcher's terminal.

`output_pump` reads the pipes of one worker. Every byte goes to its log, in the background, as disks may not answer;
what is shown passes the `TfLogFilter`, which takes TensorFlow's own messages out, to the `terminal` that all workers
share, above the live lines at its bottom. `line_splitter` says where a stream may be cut. With `--log-format json`,
`log_records` makes records of the lines, and of what the launcher prints.
"""
