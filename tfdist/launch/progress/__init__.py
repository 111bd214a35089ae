"""The progress of a run from a config, as the launcher of the chief's host shows it.

The chief tells it a few times a second: a `run_progress`. `progress_fields` puts that into words; `progress_bar` makes
a bar of one line or two of them. `progress_display` makes a line, or the fields of a record, and decides which of them
is shown, and when.
"""
