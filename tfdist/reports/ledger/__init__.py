"""Account of a run's wall time.

account_reader     reads the ledger of a run directory
account_builder    lays its lines on the wall time
account            the outcome: attempts, their spans and sums
recovery           what each restart took, part by part
account_summary    headlines and labels, which all renderers share
account_table      text for people; html_chart, of chart_columns, a picture; account_json for programs
"""
