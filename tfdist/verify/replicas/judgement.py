"""Judgement of a comparison: passed, or parted with its likely causes."""

from __future__ import annotations

from tfdist.verify.replicas.comparison_results import ComparisonResult, ComparisonVerdict
from tfdist.verify.replicas.likely_causes import likely_causes
from tfdist.verify.replicas.recorded_facts import ModelFacts
from tfdist.verify.replicas.recording_comparison import Comparison
from tfdist.verify.replicas.variants import Variant


def judged(variant: Variant, comparison: Comparison, facts: ModelFacts) -> ComparisonResult:
    """The result of comparing a variant with its reference.

    Args:
        variant: The run that was compared.
        comparison: Both runs, moment by moment.
        facts: Facts of their models.
    """
    if comparison.passed:
        return ComparisonResult(variant.label, variant.reference, ComparisonVerdict.PASSED, comparison)
    causes = likely_causes(comparison, facts, variant.versus, variant.replicas, variant.compression)
    return ComparisonResult(variant.label, variant.reference, ComparisonVerdict.PARTED, comparison, tuple(causes))
