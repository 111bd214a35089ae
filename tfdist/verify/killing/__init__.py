"""Verification under kills: one run untouched, one killed again and again and resumed, compared to the bit.

    kill_plan               the options, and which worker is killed after which step
    trace_comparison        where the traces of both runs part; training/probes writes them
    kill_report             what came of it, for people and for programs

`kill_verification` calls them in this order.
"""
