"""Account of a run's wall time.

    account_reader     reads the ledger of a run directory, and lays its lines on the wall time
    account            the outcome: attempts, their spans and sums, what each restart took; in words
    account_table      text for people, JSON for programs
    html_chart         a picture, with a loss_chart

Only account_reader reads a disk.
"""
