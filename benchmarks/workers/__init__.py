"""Programs that are timed, each a worker process; those for PyTorch need nothing of TensorFlow, Keras or tfdist.

    loop_spec               what a loop is told: model, place among the workers, steps; and what it tells
    tensorflow_loop         a hand-written TensorFlow loop, under a strategy or by itself
    torch_models            the models of `benchmarks.models` in PyTorch
    torch_loop              PyTorch's DistributedDataParallel
    gpu_fit                 Keras `fit` on a GPU: its start and its rate, by itself, under tfdist, on JAX
    gpu_torch               PyTorch's DistributedDataParallel on GPUs
    first_fit               the first steps of Keras `fit`, moment by moment
    turn_taking             how a job's process learns that it is the job's turn, and answers
    all_reduce_spec         what a worker that times sums is told, and how it times
    tensorflow_all_reduce   the sum of gradients over the workers under tfdist, alone
    torch_all_reduce        gloo's, alone
"""
