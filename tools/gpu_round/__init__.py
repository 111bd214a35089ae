"""A round on a machine with a GPU, in one command of at most eight minutes: `python -m tools.gpu_round`.

First correctness, many jobs side by side: rows of the table of exactness on two workers over NCCL and on two logical
GPUs, compiled and not, cut and offloaded, each compared with one device. Then times, one job after another. What is
worth most comes first; each part has a bound, and what is not run for lack of time is named. Results are written as
they come, and one report at the end.

    __main__           the command
    round_parts        the parts, in the order of their worth
    row_jobs           which rows run in which job
    machine_options    how two workers and two replicas get the GPUs that there are
    part_runner        runs parts, side by side and alone, each within its bound
    result_readers     what a part has left
    row_differences    how far the rows of a job are from those of one device
    round_report       the report

Programs that the parts run: `exact_rows`, `gpu_collectives`. Nothing needs a package that tfdist does not need;
tests/gpu are run where there is pytest.
"""
