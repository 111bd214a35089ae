"""Export of a model, as `tfdist export` has a process of its own do it: `export_process`, by an `export_request`.

`export_steps` are what it does. A `serving_function` has inputs and outputs by name, and `sample_inputs` are what it is
tried with. It is written by `saved_model_writer` (and OpenVINO), `onnx_writer` (and TensorRT), or `litert_writer`; what
a format lacks is named by its layer with `unsupported_layers`. `artifact_judgement` compares with Keras's outputs.
"""
