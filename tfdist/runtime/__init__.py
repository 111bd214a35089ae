"""TensorFlow as a worker uses it: the first floor that imports it.

In the order of a start: `tested_versions`, `tensorflow_probe` and `kernel_speed` (what is installed here, and how fast
its kernels are), `devices` with `gpu_memory`, `cpu_kernels`, `nccl_version`, `strategy` and `strategy_settings` (what a
run settles for it), `run_seed`, `offload/` (what is kept elsewhere than on the device). Then, for all floors above:

- `workers`: the workers of a strategy and their replicas; `batches/`: how batches reach these
- `collectives/`: decisions between steps, and what scripts exchange; `transport/`: how tensors and files travel;
  `tensor_buckets`: which tensors are sent together
- `replica_values`, `random_state`, `local_variables`: values of which each replica or worker has its own;
  `outside_strategy`: what a worker does alone
- `step_meter`: samples and waiting time of the steps
- `stores/`: what lies under URLs, such as `gs://`
"""
