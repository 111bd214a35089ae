"""Checkpoints of which each worker writes its part.

The workers that hold parts of a model each write a file `weights.worker-I-of-N` with theirs; the chief writes the rest
of the file of weights, and which bytes of it are where. Together they are, byte for byte, the `model.weights.h5` of one
device, as which `parted_file` reads them.

- `part_names`: the names of the files
- `parted_file`: the whole, read piece by piece
- `staging_folder`: the folder in which a checkpoint is made; `folder_agreement`: which workers reach it
- `part_job`: a worker writes its part, in the background; `part_receipts`: what it says of it to the chief
- `part_streams`: the parts of workers that do not reach the folder, sent to the chief
- `chiefs_parts`: what the chief adds to a checkpoint
- `part_saving`: all of that, together
"""
