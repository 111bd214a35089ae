"""Verification of a user's own training: runs it several times and compares the runs.

    replicas/   one replica against several, step by step and up to rounding: `tfdist verify`
    killing/    an untouched run against one that is killed again and again, to the bit: `tfdist verify --kill`
    hosts/      one that loses hosts and gets them back, in network namespaces of this machine

All start their `runs` as ordinary jobs of one target, and compare numbers by their `relative_difference`.
"""
