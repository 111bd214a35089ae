"""Verification of a user's own training: runs it several times and compares the runs.

    replicas/   one replica against several, step by step and up to rounding: `tfdist verify`
    killing/    an untouched run against one that is killed again and again, to the bit: `tfdist verify --kill`
    hosts/      one that loses hosts and gets them back, in network namespaces of this machine

Both are told of their target by a `target_spec`, start every run as an ordinary job in a `work_folder`, compare numbers
by their `relative_difference`, quote the `log_tail` of a run that failed, and end at an `interruption`; `exit_codes`
are theirs.
"""
