"""Stores of whole objects under URLs, such as `s3://bucket/run`, without TensorFlow.

`object_store` is the interface of all stores; `object_path` looks at one as `pathlib.Path` does. `s3_store` is the
store of s3://, which makes its requests by `s3_requests` (fsspec's s3fs, loaded with the first of them), over
connections of `bounded_session`, with its retries and the errors of `s3_errors`. `conditional_create` makes an object
that is not there, for one of several that try at once.

TensorFlow's file systems (`gs://`) are a store, too: `tfdist.runtime.tensorflow_store`, on its floor.
"""
