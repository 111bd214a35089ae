"""`tfdist manifest`: writes the manifest of a training for Kubernetes.

    manifest_group     the verb, with one command a kind (job, jobset, trainjob), which takes options of `tfdist train`
    manifest_params    its own options, and the types of their values
"""
