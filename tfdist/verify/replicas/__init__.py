"""Verification on one replica and on several.

    variants                the options, and which runs they ask for, as far as this machine has them
    recording_comparison    where two recordings part, and what rounding alone does to this training, the tolerance
    likely_causes           what explains a difference, from what is recorded of the model
    verification_report     the verdicts, for people and for programs

`verification` runs each variant as a job, recorded by training/probes, and calls them in this order.
"""
