"""Which cases of the table show which repair: without it they fail."""

from __future__ import annotations

TRAINER = "TensorFlowTrainer"
OPERATIONS = "tensorflow.python.ops.gen_stateless_random_ops"

TAKEN_OUT = [
    # Keras reduces a batch over the replicas to learn its shape, of whatever kind it is.
    (f"{TRAINER}._maybe_symbolic_build", ["plain", "strings", "dict_inputs_and_outputs", "ragged_inputs"]),
    ("TFDatasetAdapter.__init__", ["class_weight_of_a_distributed_dataset"]),
    ("TFEpochIterator.__init__", ["sparse_arrays", "table_beside_samples"]),
    (f"{TRAINER}._make_function", ["plain", "steps_per_execution", "xla", "own_step_with_means"]),
    ("Trainer._get_metrics_result_or_logs", ["own_step_with_means"]),
    ("Layer.add_loss", ["regularizers"]),
    ("Layer._get_own_losses", ["regularizers"]),
    ("Layer._get_regularization_losses", ["regularizers_that_call_losses"]),
    ("Trainer.compute_loss", ["regularizers", "distillation_of_a_config"]),
    # Without it the gradient of a term of the loss is not that of the replica's summand.
    ("Loss.__call__", ["regularizers", "circle_loss", "distillation_of_a_config_with_weights"]),
    ("keras.src.losses.losses.convert_binary_labels_to_hinge", ["hinge_of_other_labels"]),
    (
        "keras.src.losses.loss.reduce_weighted_values",
        ["plain", "mask_of_an_embedding", "distillation_of_a_config_with_weights"],
    ),
    ("keras.src.losses.loss.unscale_loss_for_distribution", ["plain"]),
    ("Mean.update_state", ["metrics_of_ones_own", "own_step_with_a_total"]),
    ("Metric.add_variable", ["metrics_that_are_no_sums"]),
    ("Metric.__init__", ["metrics_that_are_no_sums", "metric_functions_that_are_no_means"]),
    ("Sum.update_state", ["own_step_with_a_total"]),
    ("tensorflow.python.ops.nn_impl_distribute.compute_average_loss", ["own_step_with_average_losses"]),
    ("tensorflow.python.ops.nn_impl_distribute.scale_regularization_loss", ["own_step_with_average_losses"]),
    ("StrategyBase.num_replicas_in_sync", ["own_step_that_counts_replicas"]),
    ("ReplicaContextBase.num_replicas_in_sync", ["own_step_that_counts_replicas"]),
    ("Equalization._custom_histogram_fixed_width", ["images_equalized_by_their_batch"]),
    ("BatchNormalization._moments", ["batch_norm_of_masked_inputs", "synchronized_statistics_of_masked_inputs"]),
    ("Function.__call__", ["decorated_steps"]),
    ("_MirroredReplicaContext._merge_call", ["own_step_that_remembers", "layer_that_collects_what_it_skips"]),
    ("keras.src.backend.tensorflow.core.shape", ["every_draw_that_runs_eagerly"]),
    # In graphs the operations below find the size of the batch by themselves.
    *[
        (f"keras.src.backend.tensorflow.random.{name}", ["every_draw_that_runs_eagerly"])
        for name in ("uniform", "normal", "truncated_normal", "randint", "dropout", "gamma", "beta", "binomial")
    ],
    ("keras.src.backend.tensorflow.random.categorical", ["every_draw_that_runs_eagerly"]),
    *[
        (f"{OPERATIONS}_v2.stateless_{name}", ["stateless_draws"])
        for name in ("random_uniform_v2", "random_uniform_full_int_v2", "random_uniform_int_v2", "random_gamma_v3")
    ],
    *[(f"{OPERATIONS}_v2.stateless_{name}_normal_v2", ["stateless_draws"]) for name in ("random", "truncated")],
    *[
        (f"{OPERATIONS}.stateless_{name}", ["stateless_draws"])
        for name in ("random_binomial", "random_poisson", "parameterized_truncated_normal", "multinomial")
    ],
    (f"{OPERATIONS}_v2.stateless_shuffle", ["stateless_draws_of_steps"]),
    ("keras.src.backend.tensorflow.random.shuffle", ["shuffled_rows"]),
    # Clipped, distilled and accumulated gradients are reduced first.
    (
        "BaseOptimizer.apply",
        ["clipnorm", "global_clipnorm", "clipvalue", "distillation_of_probabilities", "gradient_accumulation"],
    ),
    # An inf on the last replica.
    ("LossScaleOptimizer.apply", ["loss_scaling_with_an_overflow"]),
    ("LossScaleOptimizer._tf_apply", ["loss_scaling_with_an_overflow"]),
    ("LossScaleOptimizer.check_finite", ["loss_scaling_with_an_overflow_and_accumulation"]),
    ("Variable._initialize", ["metrics_that_begin_with_samples", "variable_of_a_value"]),
    ("Variable._direct_assign", ["loss_scaling", "metrics_by_hand"]),
    *[
        (f"DistributedVariable.scatter_nd_{name}", ["own_step_that_scatters"])
        for name in ("add", "sub", "update")
    ],
    ("TFOptimizer._backend_update_step", ["plain", "gradient_accumulation"]),
    ("ScheduleFreeAdamW.build", ["schedule_free"]),
    ("TFOptimizer._apply_weight_decay", ["gradient_accumulation_and_clipping"]),
    ("TFOptimizer._overwrite_model_variables_with_average_value", ["moving_average_that_overwrites"]),
    ("TFOptimizer._backend_increment_gradient_accumulators", ["gradient_accumulation"]),
    (f"{TRAINER}.train_on_batch", ["on_batch"]),
    (f"{TRAINER}.test_on_batch", ["on_batch"]),
    (f"{TRAINER}.predict_on_batch", ["on_batch"]),
    *[(f"DistributedVariable.__{name}__", ["variables_as_numbers"]) for name in ("int", "float", "array")],
    ("tensorflow.python.ops.script_ops._internal_py_func", ["written_loss"]),
    ("tensorflow.python.ops.gen_data_flow_ops.queue_enqueue_v2", ["queued_loss"]),
    ("tensorflow.python.ops.gen_lookup_ops.lookup_table_insert_v2", ["counted_in_a_table"]),
    # A NaN on the last replica, which the logs of the first do not show.
    ("CallbackList.__init__", ["terminate_on_nan"]),
]
"""The repair to take out, and the cases that show it."""

SHOWING = frozenset(name for _, names in TAKEN_OUT for name in names)
"""All these cases."""
