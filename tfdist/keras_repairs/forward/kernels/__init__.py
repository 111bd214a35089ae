"""Computations for which the kernels of TensorFlow's libraries are not to be relied on.

- `strided_convolutions`: a gradient with which oneDNN overwrites memory where rows are odd
"""
