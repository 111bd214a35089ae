"""What people fit with Keras: one function a feature, each an ordinary script that knows nothing of replicas."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from tests.exactness import (
    batch_norm_cases,
    building_cases,
    callback_cases,
    coupling_cases,
    data_cases,
    distillation_cases,
    fit_cases,
    guide_step_cases,
    layer_cases,
    layer_coupling_cases,
    log_cases,
    loss_cases,
    metric_cases,
    optimizer_cases,
    outside_cases,
    own_predict_cases,
    own_state_cases,
    own_step_cases,
    precision_cases,
    random_cases,
    random_layer_cases,
    sharing_cases,
    small_batch_cases,
    stateless_random_cases,
    step_cases,
    trial_cases,
    write_cases,
)
from tests.exactness.table import CASES, Case, outcome

Job = TypeVar("Job", bound=Hashable)

__all__ = ["BY_DEFAULT", "CASES", "SECTIONS", "SLOW", "cases_of", "is_evaluated_by_default", "names_by_default",
           "outcome"]  # fmt: skip

SECTIONS = {
    "Fit, evaluate, predict": fit_cases,
    "Data": data_cases,
    "Losses": loss_cases,
    "Losses over the batch": coupling_cases,
    "Layers and models over the batch": layer_coupling_cases,
    "What trials find out": trial_cases,
    "Metrics": metric_cases,
    "Optimizers and gradients": optimizer_cases,
    "Outside of the step": outside_cases,
    "Steps": step_cases,
    "What the first step builds": building_cases,
    "Steps of one's own": own_step_cases,
    "Steps and optimizers of which no part is exact": sharing_cases,
    "Steps of guides and repositories": guide_step_cases,
    "Distillation": distillation_cases,
    "What steps of one's own keep": own_state_cases,
    "Steps of `predict`, decorated steps, ragged rows": own_predict_cases,
    "Logs of steps of one's own": log_cases,
    "What steps write": write_cases,
    "Fewer samples than replicas": small_batch_cases,
    "Layers": layer_cases,
    "Batch statistics": batch_norm_cases,
    "Random layers": random_layer_cases,
    "Random numbers": random_cases,
    "Random numbers of TensorFlow": stateless_random_cases,
    "Callbacks": callback_cases,
    "Precision": precision_cases,
}
"""The modules of the cases, in the order of the documentation."""


_ON_WORKERS = ["Fit, evaluate, predict", "Data", "Callbacks"]
BY_DEFAULT = {
    "devices": [section for section in SECTIONS if section not in _ON_WORKERS],
    "workers": _ON_WORKERS,
}
"""The sections that are compared in the default tests: where workers differ from devices, on workers, the others on
devices. The slow tests compare all on both.
"""

SLOW = {
    *("logged_score_of_metrics_of_several_steps", "logged_values_eagerly"),
    *("model_that_adds_a_sum", "operations_that_move_the_batch"),
    *("scalar_declared_sum_loss", "loss_of_valid_labels"),
    *("momentum_contrast", "bootstrapped_latent", "mixed_samples_and_focal_loss", "reinforced_actions"),
    *("scheduled_divergence", "own_predict_step_that_draws", "own_step_with_a_mean_teacher"),
    # Other layers that draw as the default rows do.
    *("kinds_of_noise", "recurrent_dropout", "dropout_of_attention"),
    *("geometric_augmentation", "augmentation_of_colors", "dropout_of_time_steps"),
    *("draws_of_other_dimensions", "dropout_of_every_call", "dropout_and_accumulation", "dropout_and_several_steps"),
    *("dropout_that_runs_eagerly", "dropout_of_fixed_batches", "dropout_in_float32"),
    *("noise_shapes_that_run_eagerly", "means_of_classes_eagerly", "xla_of_probabilities_given_to_a_layer"),
    *("stateless_draws_of_other_dimensions", "seeded_shuffles"),
    *("gradients_of_numpy_accumulated", "scaled_gradients_in_a_function"),
    "metrics_made_in_a_replica",
    # Optimizers whose updates know nothing of replicas, by the path that others of the table take.
    *("adafactor", "adadelta", "adagrad", "adamax", "ftrl", "lamb", "lion", "nadam", "rmsprop"),
    *("constraints", "gradient_accumulation_by_nadam", "gradient_accumulation_and_averages"),
    # More of what a faster row shows.
    *("metrics_of_classes", "metrics_of_regression", "metrics_of_two_classes", "top_k"),
    *("metric_functions_that_are_no_means", "own_metrics_everywhere"),
    *("mean_with_sample_weight_and_no_weight", "reduction_sum", "scalar_loss_function"),
    *("two_outputs_with_different_masks", "added_losses_around_synchronized_statistics"),
    *("attention_and_layer_normalization", "recurrent_layers"),
    *("default_precision", "default_precision_of_tokens", "mixed_float16_and_accumulation"),
    *("static_loss_scale", "static_loss_scale_and_accumulation"),
    *("xla_and_steps_per_execution", "xla_in_a_step_of_ones_own", "xla_with_masks_and_added_losses"),
    *("steps_per_execution_of_a_dataset_that_repeats", "steps_per_execution_of_unknown_size"),
    *("two_fits_and_changed_layers", "several_outputs_and_masks_of_losses", "mask_and_sample_weight", "convolution"),
    "gradients_of_places_in_a_loop",
    *("gradient_accumulation_of_an_embedding", "gathered_metrics", "sparse_gradients_by_adagrad"),
    *("own_step_with_a_declared_sum", "mean_with_sample_weight", "mask_of_an_embedding", "metrics_inside_a_layer"),
    *("layers_that_xla_compiles", "layers_that_xla_compiles_with_a_loss", "layers_that_run_eagerly"),
    *("max_pooling_in_float32", "transposed_convolution_in_float32", "run_eagerly"),
    *("batches_of_one_in_a_step_of_ones_own", "batches_of_two_accumulated", "batches_of_one_by_xla"),
    *("operations_that_take_no_row_eagerly", "own_step_with_metrics_of_one"),
    *("batch_norm_of_a_known_architecture", "synchronized_batch_normalization", "batch_renormalization"),
    *("synchronized_statistics_of_masked_inputs", "batch_norm_in_mixed_bfloat16", "batch_norm_by_xla_of_masked_inputs"),
    *("batch_norm_that_runs_eagerly", "gradient_penalty"),
    *("adam_with_amsgrad", "nesterov_momentum", "muon"),
    *("circle_loss_with_weights", "dice_loss_along_the_samples", "tversky_loss", "dice_loss_of_masked_steps"),
    *("cosine_similarity_along_the_samples", "clip_loss_under_xla", "clip_loss_run_eagerly", "simclr_loss_function"),
    *("clip_loss_in_mixed_float16", "pair_ranking_loss", "layer_that_subtracts_the_mean", "layer_that_mixes_samples"),
    *("coupling_layers_run_eagerly", "gathered_function_as_loss_and_metric", "dice_loss"),
    *("adversaries_with_noise_of_two_batches", "logged_score_of_metrics_eagerly", "gathered_draws_that_xla_compiles"),
    *("loss_scaling", "clipvalue", "mixed_bfloat16", "own_step_of_triplets", "model_that_subtracts_the_mean"),
    *("schedule_free_of_a_model_to_build", "pipeline_of_batches_of_one"),
    *("distillation_of_probabilities", "distillation_of_directions", "distillation_with_weights"),
    *("distillation_with_weights_of_classes", "distillation_of_a_config_by_xla"),
    "distillation_of_a_config_with_weights",
    # What tests of their own show, too, or another row of the section by the same path.
    *("add_loss_of_a_declared_sum", "coupled_losses_of_several_outputs", "contrastive_loss_in_a_step_of_ones_own"),
    *("coupling_layers_under_xla", "gathered_function_in_a_layer", "mixup_and_cutmix", "metrics"),
    *("metrics_of_ones_own", "moving_average_of_the_weights", "own_step_with_renamed_metrics"),
    *("own_step_with_a_loss_a_sample", "dropout_that_xla_compiles"),
    *("distillation_of_features", "own_step_that_counts", "own_steps_on_ragged_rows", "logs_of_single_batches"),
    *("loss_function_of_ones_own", "scalar_sum_loss", "own_moving_mean", "add_loss_of_a_sum_that_is_tried_out"),
    *("metric_of_valid_labels", "means_of_classes", "weight_decay_with_exclusions", "predictions_of_a_fixed_size"),
    *("own_step_with_a_gathered_contrast", "logged_score_of_metrics", "batches_of_one", "batch_norm_far_from_zero"),
    *("batch_norm_in_a_step_of_ones_own", "noise_of_sparse_rows", "variational_autoencoder"),
    *("validation_split", "class_weight", "frozen_layer", "dict_inputs_and_outputs", "dataset_that_shuffles"),
    *("mean_with_sample_weight_of_zero_on_a_replica", "py_dataset_with_threads", "sparse_arrays", "ragged"),
    *("unwatched_steps", "dataset_that_repeats", "steps_per_epoch", "py_dataset"),
    *("subclassed_model_built_by_fit", "shared_layers_and_nested_models", "dataset_of_unknown_size"),
    *("stopped_inside_an_epoch", "layer_called_in_two_ways", "adamw_and_schedule", "batch_norm_by_xla"),
    *("adversaries_with_two_optimizers", "layer_that_draws", "add_loss_of_a_covariance"),
    *("ctc_loss", "branches_that_xla_compiles", "frozen_batch_normalization", "batch_norm_in_mixed_float16"),
    *("draws_in_loops_and_branches", "draws_that_run_eagerly", "rows_in_the_second_dimension"),
    # By the same paths as faster rows of what steps write.
    *("written_rows", "written_maximum", "written_mean_of_a_layer", "written_maxima_of_a_loss_and_a_metric"),
    *("activity_regularizers_under_xla", "gathered_loss_of_a_softmax_of_tensorflow", "more_rows_in_one_tensor"),
    *("states_of_a_built_model", "states_of_scaled_losses", "layer_that_the_loss_builds"),
    *("strided_shortcut", "own_step_of_tokens_that_divides_by_a_size", "own_step_with_two_methods_that_couple"),
    # By default on workers, in `test_callbacks`.
    *("reduced_learning_rate", "scheduled_learning_rate", "early_stopping", "swapped_averages", "validation_data"),
    # By default on workers, over NCCL's paths or with a step that XLA compiles.
    *("ragged_inputs", "dataset", "add_loss_of_a_mean_and_of_a_vector", "moving_mean_in_a_tf_variable"),
    *("compiled_again_inside_of_fit", "validation_frequency_and_initial_epoch", "sharpness_aware_step"),
    "sparse_gradients_of_an_embedding",
    # By the paths of `sample_weight_of_zero_on_a_replica`, `xla` and `states_of_a_step_that_calls_layers`.
    *("sample_weight", "xla_of_very_large_logits", "states_of_a_subclassed_model"),
    # By default `losses.Circle` of `keras_classes`, and the step of this one that XLA compiles on workers; `clipnorm`.
    *("circle_loss", "global_clipnorm"),
}
"""Cases that the slow tests alone compare."""

EVALUATED = {
    *("Fit, evaluate, predict", "Data", "Metrics", "Layers and models over the batch", "Batch statistics"),
    *("Steps of `predict`, decorated steps, ragged rows", "Fewer samples than replicas", "Logs of steps of one's own"),
}
"""Sections of which the default tests evaluate and predict with each case."""

EVALUATED_CASES = {
    *("regularizers", "circle_loss", "own_train_step_and_test_step", "own_compute_loss", "own_step_with_nested_logs"),
    *("distillation_of_a_config", "steps_per_execution", "xla", "states_of_a_step_that_calls_layers"),
    *("clip_loss_with_a_temperature", "every_draw_that_runs_eagerly", "mixed_float16"),
}
"""Cases of other sections of which they do: those that evaluate or predict in a way of their own, one a way."""


def is_evaluated_by_default(name: str) -> bool:
    """Returns whether the default tests evaluate and predict with a case; the slow tests do with each.

    The features of the others are of the training, and two more functions take as long to trace as it does.
    """
    return name in EVALUATED_CASES or any(case.name == name for section in EVALUATED for case in cases_of(section))


def names_by_default(strategy: str) -> list[str]:
    """The cases that the default tests compare on "devices" or "workers"."""
    return [case.name for section in BY_DEFAULT[strategy] for case in cases_of(section) if case.name not in SLOW]


def cases_of(section: str) -> list[Case]:
    """The cases of one section, in the order of its module."""
    module = SECTIONS[section].__name__
    return [case for case in CASES.values() if case.make.__module__ == module]


def in_turns(jobs: Sequence[Job], names: Sequence[str]) -> dict[Job, list[str]]:
    """Rows for each of several jobs that are much alike: each row in one of them, and neighbours in different ones.

    Neighbours in the table are of a kind, so that every job has rows of all kinds.
    """
    return {job: list(names[place :: len(jobs)]) for place, job in enumerate(jobs)}
