"""Order of the samples: which make up global batch t, and which of them each replica gets, from sizes and seeds alone.

`epoch_order` orders what can be read in any order, by the `permutation`; `sequential_order` what is read file after
file, by the `windowed_shuffle`; `per_worker_order` what is already shared out to the workers, by the
`proportional_split`. `batch_split` cuts a global batch into the replicas' pieces; `position` is a place in a training.
"""
