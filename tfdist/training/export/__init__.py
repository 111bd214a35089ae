"""Export of a model, as `tfdist export` has a process of its own do it: `export_process`, by an `export_request`.

`export_steps` are what it does. An `input_signature` says what the inputs are, where the model does not. A
`serving_function` has inputs and outputs by name, and `sample_inputs` are what it is tried with. It is written by
`saved_model_writer` with a `warmup_file`, `onnx_writer`, `litert_writer`, `openvino_writer`, or `tensorrt_writer` by
the list of `tensorrt_operators`; what a format lacks is named by its layer with `unsupported_layers`. `full_integer/`
writes LiteRT in integers. `artifact_judgement` compares with Keras's outputs.
"""
