"""Verification under kills: one run untouched, one killed again and again and resumed, compared to the bit.

    kill_spec               the options
    kill_plan               which worker is killed after which step
    trace_comparison        where the traces of both runs part; training/probes writes them
    kill_results            what came of it
    kill_table              the report for people with its finding_table, kill_json for programs

`kill_verification` calls them in this order.
"""
