"""Order of the samples: which make up global batch t, and which of them each replica gets, from sizes and seeds alone.

`epoch_order` orders what can be read in any order, by a permutation, and cuts a global batch into the replicas' slices;
`sequential_order` what is read file after file, shuffled in windows; `per_worker_order` what is already shared out to
the workers, by `interleaved_parts`. `epoch_span` says which steps an epoch takes, and has places in it.
"""
