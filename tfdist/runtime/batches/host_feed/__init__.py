"""Global batches that one worker of a host draws for all workers of it, which take their rows from shared memory.

The first worker of the host draws, in a thread of its own. Each iterator has a channel: memory for a few batches, which
the drawing worker makes, and a socket to each worker, by which it says what lies where and hears what has been read.
A socket tells both sides at once when the other one has ended or has abandoned the iterator.

- `batch_notes`: what is said over the sockets, and where the arrays of a batch lie
- `drawing`: the thread that draws, and its end of a channel
- `batch_slicer`: the slices of a worker's replicas, cut out of a batch
- `host_feed`: one worker's channels, with its end of each, in the order in which all workers open them
- `fed_batches`: a channel as a dataset of TensorFlow
"""
