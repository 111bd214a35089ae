"""The formats of data; `tfdist.data.format_registry` names the module of each.

The module of a format has `open_source(section, key)`, which returns the samples, and `measure(section, key)`, which
returns their sizes and does not load TensorFlow. Modules named `*_files` read files as arrays; those named `*_samples`
make tensors: `reader_samples` of whatever is read as arrays, the others where TensorFlow parses, decodes or maps.
"""
