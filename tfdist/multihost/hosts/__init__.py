"""Hosts that a launch uses: values, without a disk or a connection but for reading the hostfile.

    host_list       hosts in their order, each with its slots; as `--hosts` gives them
    hostfile        reads them from a file: `h1 slots=2`
    chosen_hosts    all of it together: what the options of a launch choose; `--include` and `--exclude`: "h1:0,1@h2"
"""
