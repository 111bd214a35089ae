"""Stores that are reached by a URL.

`object_stores` says which store a URL lies in. `tensorflow_store` is that of TensorFlow's file systems, such as
`gs://`, with a bound on waiting; the others are in `tfdist.storage`.
"""
