"""Manifests for Kubernetes: what `tfdist manifest` writes. Nothing here talks to a cluster.

    manifest_options     what a job is to be like: options that check themselves
    accepted_values      what Kubernetes takes as a name, a label, a quantity
    pod_naming           how the pods of each kind are called, and the pattern by which they find one another
    pod_template         the pods, which are the same in every kind
    failure_rules        which exit codes of tfdist are worth another start
    network_objects      names for the pods, and who may reach their ports
    indexed_job          the kinds: a Job of Kubernetes itself,
    jobset               a JobSet, which restarts all pods together,
    trainjob             and a TrainJob of Kubeflow Trainer with its runtime
    manifest_text        the objects as YAML
"""
