"""`tfdist verify`: compares runs of a training.

    verify_verb     the verb: its options, and the comparison that it calls
    verify_modes    its three ways, and which option belongs to which
"""
