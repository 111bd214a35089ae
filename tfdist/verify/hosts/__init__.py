"""Verification of an elastic job: one run untouched, one that loses hosts and gets them back, on hosts of this machine.

    schedule                the options; what happens to which hosts, and after which step, drawn from a seed
    namespace_hosts         the hosts, which are network namespaces
    host_process            one host: its launcher, which is a process of host_launcher
    hosts_run               one run on all hosts, through what happens to them
    rounded_comparison      where both runs part: to the bit until the number of workers changes, then up to rounding
    hosts_report            what came of it, for people and for programs

`hosts_verification` calls them in this order.
"""
