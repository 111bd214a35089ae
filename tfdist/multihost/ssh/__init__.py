"""Many hosts by the user's own ssh.

    ssh_command     how ssh is called, and what its failures mean
    ssh_link        the link to one host, by an ssh process
"""
