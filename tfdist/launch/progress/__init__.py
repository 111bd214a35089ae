"""The progress of a run from a config, as the launcher of the chief's host shows it.

The chief tells it a few times a second: a `run_progress`. `progress_fields` puts that into words; `plain_line` makes a
line of them, `progress_record` the fields of a record, and `progress_bar` a bar of one line or two. `progress_display`
decides which of them is shown, and when.
"""
