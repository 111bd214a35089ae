"""TensorFlow as a worker uses it: the first floor that imports it.

In the order of a start: `tested_versions`, `tensorflow_probe` and `kernel_speed` (what is installed here, and how fast
its kernels are), `devices`, `nccl_version`, `strategy` and `strategy_settings` (what a run settles for it), `offload/`
(what is kept elsewhere than on the device). Then, for all floors above:

- `workers`: the workers of a strategy and their replicas, and what one of them does alone; `batches/`: how batches
  reach these
- `collectives/`: decisions between steps, and what scripts exchange; `transport/`: how tensors and files travel;
  `tensor_buckets`: which tensors are sent together
- `free_memory`: what was freed, given back to the system; `thread_frames`: where other threads are
- `replica_values`, `random_state`: values of which each replica or worker has its own
- `step_meter`: samples and waiting time of the steps
- `object_stores`: which store a URL lies in; `tensorflow_store`: that of TensorFlow's file systems, such as `gs://`
"""
