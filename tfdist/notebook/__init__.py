"""Training from a notebook: a function of the notebook runs in the workers of a job.

The notebook's own process (its kernel) cannot become a worker: TensorFlow may be loaded in it, holds its devices and
must not be forked, and a job has several workers. In the order of a run:

- `notebook_launcher`: what is called in the notebook; it waits for the job and returns or raises what came of it
- `launch_options`: what of `tfdist train` can be said there
- `call_folder`: the private folder by which the kernel, the launcher and the workers hand things on
- `function_call`: the function and its arguments, pickled by value (`cell_pickler`), with what they need of the
  kernel's state
- `launcher_process`: the launcher of the job, a process that ends with the kernel
- `job_outcome`: how the job ended, from the launcher to the kernel
- `call_in_worker`: what every worker runs
"""
