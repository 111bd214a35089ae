"""`tfdist manifest`: writes the manifest of a training for Kubernetes.

    manifest_group     the verb, with one command a kind: job, jobset, trainjob
    manifest_verb      a command of it: which options of `tfdist train` it takes as well, and how its help shows them
    manifest_params    its own options, and the types of their values
"""
