"""Brings batches to the replicas.

- `dataset_description`: what a pipeline tells `fit` about its dataset
- `replica_batches`: one dataset a worker, whose elements go to its replicas in turn, and what TensorFlow puts between
  it and the devices
- `mapped_rows`: pipelines of which a host or a worker maps those samples alone that it needs
- `continued_batches`: parts of a dataset, one after another, of which none is read that one device would not read
- `host_feed/`: batches that one worker of a host draws for all of them
"""
