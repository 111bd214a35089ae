"""Verification of an elastic job: one run untouched, one that loses hosts and gets them back, on hosts of this machine.

    hosts_spec              the options
    schedule                what happens to which hosts, and after which step; drawn from a seed
    namespace_hosts         the hosts, which are network namespaces
    host_process            one host: its launcher, which is a process of host_launcher and is told by a host_request
    hosts_run               one run on all hosts, through what happens to them; hosts_traces reads what it leaves
    rounded_comparison      where both runs part: to the bit until the number of workers changes, then up to rounding
    hosts_results           what came of it
    hosts_table             the report for people, hosts_json for programs

`hosts_verification` calls them in this order.
"""
