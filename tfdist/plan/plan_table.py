"""A plan as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from tfdist.plan.plan import BatchSizes, DataPlan, SourcePlan
from tfdist.plan.plan_inputs import SequentialRead
from tfdist.plan.plan_warnings import PlanWarning, warnings_of
from tfdist.plan.worker_reads import WorkerReads
from tfdist.text import format_bytes, format_count, table, wrap

_LABEL = 15
_GAP = 3
_MOST_FILES = 8
_MOST_WORKERS = 16
_MOST_NAMES = 3


def render(plan: DataPlan) -> str:
    """The whole plan, with its warnings at the end."""
    blocks = ["\n".join(_head(plan)), *("\n".join(_source(plan, source)) for source in plan.sources)]
    warnings = warnings_of(plan)
    if warnings:
        blocks.append("\n".join(_warning(warning) for warning in warnings))
    return "\n\n".join(blocks)


def _head(plan: DataPlan) -> Iterator[str]:
    layout = plan.layout
    yield f"{plan.name}: the plan of its data"
    where = f" on {format_count(layout.hosts, 'host')}" if layout.hosts > 1 else ""
    each = f", {layout.per_worker} each" if layout.workers > 1 else ""
    yield _line("replicas", f"{layout.replicas:,} on {format_count(layout.workers, 'worker')}{where}{each}")
    yield _line("global batch", f"{plan.batch_size:,} samples, {_each(plan.train.batch)}")
    yield _line("learning rate", _rate(plan))
    yield _line("seed", "drawn when the run starts" if plan.seed is None else str(plan.seed))


def _rate(plan: DataPlan) -> str:
    """The global batch is the same on any number of replicas, and so is the learning rate."""
    rate = plan.learning_rate
    number = f"{rate:g}" if isinstance(rate, float | int) else rate
    said = f"the default of {plan.optimizer}" if rate is None else f"{number} ({plan.optimizer})"
    text = f"{said}, for a global batch of {plan.batch_size:,} on any number of replicas"
    if plan.layout.replicas == 1:
        return text
    times = plan.layout.replicas
    grown = f" and {rate * times:g}" if isinstance(rate, float | int) else f" and {times:,} times the rate"
    return (
        f"{text}; {plan.batch_size:,} samples on each replica would be a batch of {plan.batch_size * times:,}{grown} "
        "by the linear rule (Goyal et al. 2017), with a warm-up"
    )


def _source(plan: DataPlan, source: SourcePlan) -> Iterator[str]:
    yield f"{source.key}: {source.sizes.format}, {_what(source)}, {format_bytes(source.sizes.size)}"
    yield _line("samples", f"{source.samples:,}")
    yield _line("steps", _steps(plan, source))
    yield _line("last batch", _tail(source))
    yield _line("shuffle", _shuffle(source))
    if source.sizes.sequence is not None:
        yield _line("in sequence", _sequence(source, source.sizes.sequence))
        yield _line("resume", _resume(source.sizes.sequence))
    yield _line("prefetch", f"{source.prefetched:,} batches of each replica wait for their step")
    yield _line("memory", _memory(source))
    if len(source.sizes.files) > 1:
        yield from _files(source)
    yield from _workers(source)


def _steps(plan: DataPlan, source: SourcePlan) -> str:
    if source is not plan.train:
        return f"{source.steps:,} an epoch"
    all_epochs = f"{plan.steps_per_epoch * plan.epochs:,} in {format_count(plan.epochs, 'epoch')}"
    if plan.steps_per_epoch == source.steps:
        return f"{source.steps:,} an epoch, {all_epochs}"
    return f"{plan.steps_per_epoch:,} an epoch, {all_epochs}; {source.steps:,} for every sample once"


def _shuffle(source: SourcePlan) -> str:
    sequence = source.sizes.sequence
    if sequence is None:
        return "all samples, in a new order every epoch" if source.shuffle else "no, always in the order of the files"
    if not source.shuffle:
        unit = sequence.unit
        return f"no, always the same order, in which each batch takes of all {unit}s that are read at the same time"
    if sequence.whole:
        return f"the {sequence.unit}s, and the samples of each, in a new order every epoch"
    return f"the files, and their samples in windows of {sequence.lanes.window:,}, in a new order every epoch"


def _sequence(source: SourcePlan, sequence: SequentialRead) -> str:
    files = sum(file.samples > 0 for file in source.sizes.files)
    lanes = f"{sequence.lanes.number:,} of {format_count(files, sequence.unit)} at the same time"
    return f"{sequence.why}: {lanes}, {'each as a whole' if sequence.whole else 'from the beginning'}"


def _resume(sequence: SequentialRead) -> str:
    """The cost of resuming within an epoch."""
    largest = max(sequence.lanes.counts)
    if sequence.whole:
        return f"within an epoch, unfinished {sequence.unit}s are read once more"
    return (
        f"within an epoch, unfinished files are read again from their beginnings: up to {largest:,} samples of each of "
        f"{format_count(sequence.lanes.number, 'file')} are skipped"
    )


def _what(source: SourcePlan) -> str:
    files = source.sizes.files
    if len(files) == 1:
        return files[0].name
    unit = "file" if source.sizes.sequence is None else source.sizes.sequence.unit
    return f"{len(files):,} {'classes' if source.sizes.format == 'images' else f'{unit}s'}"


def _each(batch: BatchSizes) -> str:
    if batch.smallest == batch.largest:
        return f"{batch.largest:,} on each replica"
    empty = f", none on {format_count(batch.empty, 'replica')}" if batch.empty else ""
    return f"{batch.smallest:,} or {batch.largest:,} on each replica{empty}"


def _tail(source: SourcePlan) -> str:
    if source.tail is None:
        return "as large as the others"
    return f"{format_count(source.tail.samples, 'sample')}, {_each(source.tail)}"


def _memory(source: SourcePlan) -> str:
    memory = source.memory
    about = "at least" if memory.estimated else "about"
    why = " (a function makes the samples: they are counted as their records)" if memory.estimated else ""
    parts = f"{format_bytes(memory.held)} held, {format_bytes(memory.batches)} in batches"
    return f"{about} {format_bytes(memory.total)} a worker: {parts}{why}"


def _files(source: SourcePlan) -> Iterator[str]:
    shown = source.sizes.files[:_MOST_FILES]
    rows = [("file", "samples", "size"), *((file.name, f"{file.samples:,}", format_bytes(file.size)) for file in shown)]
    yield ""
    yield from table(rows, "lrr", indent="  ", gap=_GAP)
    if more := source.sizes.files[_MOST_FILES:]:
        samples, size = sum(file.samples for file in more), sum(file.size for file in more)
        yield f"  and {len(more):,} more with {samples:,} samples, {format_bytes(size)}"


def _workers(source: SourcePlan) -> Iterator[str]:
    shown = source.worker_reads[:_MOST_WORKERS]
    rows = [("reads", "samples", "bytes", "of")]
    for reading in shown:
        numbers = f"{reading.samples:,}", format_bytes(reading.bytes)
        rows.append((f"worker {reading.worker}", *numbers, _reads(source, reading)))
    yield ""
    yield from table(rows, "lrrl", indent="  ", gap=_GAP)
    if len(source.worker_reads) > len(shown):
        yield f"  and {len(source.worker_reads) - len(shown):,} more workers alike"


def _reads(source: SourcePlan, reading: WorkerReads) -> str:
    names = [PurePath(file.name).name for file in source.sizes.files]
    if source.sizes.whole:
        return "all of it, into memory"
    if source.sizes.shares:
        return "its own data"
    if source.sizes.sequence is not None:
        return _reads_in_sequence(source, reading)
    files = reading.files
    if len(files) == len([file for file in source.sizes.files if file.size]):
        how = ", different records every epoch" if source.shuffle else ", the same records every epoch"
        return f"{'all files' if len(files) > 1 else names[0]}{how}"
    if len(files) <= _MOST_NAMES:
        return ", ".join(names[place] for place in files) or "nothing"
    return f"{len(files):,} files, {names[files[0]]} ... {names[files[-1]]}"


def _reads_in_sequence(source: SourcePlan, reading: WorkerReads) -> str:
    unit = "file" if source.sizes.sequence is None else source.sizes.sequence.unit
    if source.shuffle:
        part = reading.bytes / max(source.sizes.size, 1)
        return f"about {part:.0%} of all bytes, different {unit}s every epoch"
    return f"{format_count(len(reading.files), unit)}, from the beginning to the end"


def _line(label: str, text: str) -> str:
    return wrap(text, f"  {label:{_LABEL}}")


def _warning(warning: PlanWarning) -> str:
    return wrap(f"{warning.key}: {warning.text}", f"warning {warning.name}: ", indent=2)
