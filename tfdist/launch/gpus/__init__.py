"""GPUs of this machine, and how many workers a job has that leaves this open.

- `usable_gpus`: how many GPUs the workers of this machine will find, and those that tests have on CPUs;
  `cuda_device_count` is the program that asks CUDA's driver
- `worker_choice`: one worker for each of them, or one process on all; and what a job asks for that is not here
"""
