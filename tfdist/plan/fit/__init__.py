"""The plan of a script's first `fit`, from what a few steps of it have shown.

`fit_plan` holds what the chief has found out, and what follows from it; `fit_plan_table` shows it.
"""
