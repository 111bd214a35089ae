"""WebDataset: plain tar files whose members are the parts of samples, by their extensions.

`tar_reader` reads the parts of samples as arrays, `webdataset_files` is the module of the format, and
`webdataset_samples` makes tensors of what was read.
"""
