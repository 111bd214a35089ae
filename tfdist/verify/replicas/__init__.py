"""Verification on one replica and on several.

    verify_spec             the options
    variants                which runs they ask for, as far as this machine has them
    recorded_runs           each as a job, recorded by training/probes
    rounding_effects        what rounding does to this training, which makes the tolerance
    tolerance
    recording_comparison    where two recordings part
    judgement               whether that is rounding, and if not the likely_causes, from recorded_facts of the model, in
                            the words of cause_texts
    comparison_results      what came of all comparisons
    verification_table      the report for people, verification_json for programs

`verification` calls them in this order.
"""
