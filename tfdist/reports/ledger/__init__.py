"""Account of a run's wall time.

    account_reader     reads the ledger of a run directory
    account_builder    lays its lines on the wall time
    account            the outcome: attempts, their spans and sums
    recovery           what each restart took, part by part
    account_summary    labels and headlines, which all renderers share
    account_table      text for people; account_json for programs
    html_chart         a picture, of chart_columns, with a loss_chart by a loss_scale, in the html_style

Only account_reader reads a disk.
"""
