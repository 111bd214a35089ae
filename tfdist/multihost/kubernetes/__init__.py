"""Manifests for Kubernetes: what `tfdist manifest` writes. Nothing here talks to a cluster.

    manifest_options     what a job is to be like: options that check themselves
    accepted_values      what Kubernetes takes as a name, a label, a quantity; the names of pods, by which they meet
    pod_template         the pods, which are the same in every kind, and their network
    manifest             its objects as YAML, by kind: a Job of Kubernetes itself, a JobSet, which restarts all pods
                         together, a TrainJob of Kubeflow Trainer; which exit codes are worth another start
"""
