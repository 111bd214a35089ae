"""`tfdist`: the group of verbs; each is imported when it is used, so that `tfdist --help` is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli.standard_streams import mask_text, open_closed_streams
from tfdist.cli.verb import Mistake, VerbGroup
from tfdist.versions import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED = 130

VERBS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "train": ("tfdist.cli.train:train", "Trains a config, a script or a module on every device and worker."),
        "launch": (
            "tfdist.cli.launch.launch_verb:launch",
            "Starts `tfdist train` on many hosts, by one command, and ends all of it together.",
        ),
        "predict": (
            "tfdist.cli.inference.predict:predict",
            "Predicts every sample of some data once, in the order of the data, over all workers, into one file.",
        ),
        "evaluate": (
            "tfdist.cli.inference.evaluate:evaluate",
            "Prints a model's loss and metrics on some data: over all workers, and the numbers of one device.",
        ),
        "quantize": (
            "tfdist.cli.inference.quantize:quantize",
            "Makes a model of 8 or 4 bits a weight, and measures what it costs in accuracy.",
        ),
        "prune": (
            "tfdist.cli.inference.prune:prune",
            "Prunes a trained model while it is fine-tuned, and measures what that costs in accuracy.",
        ),
        "export": (
            "tfdist.cli.inference.export:export",
            "Writes a model for a server or a device, and compares it there with Keras.",
        ),
        "verify": (
            "tfdist.cli.verify:verify",
            "Compares a training on one replica with the same on several, or one that is killed with an untouched one.",
        ),
        "selftest": (
            "tfdist.cli.selftest:selftest",
            "Shows that several devices and workers of this machine give the numbers of one device.",
        ),
        "plan": ("tfdist.cli.plan:plan", "Shows what a run will do, before it starts."),
        "data": ("tfdist.cli.data.data_group:data", "Makes, checks and indexes files of samples."),
        "status": (
            "tfdist.cli.status:status",
            "Shows what every worker of a run is doing, the slowest first, or lists the runs in a folder.",
        ),
        "stop": (
            "tfdist.cli.launch.stop_verb:stop",
            "Stops a run whose launcher is on this host, all its workers after the same step, and waits for its end.",
        ),
        "ledger": ("tfdist.cli.ledger:ledger", "Shows where the wall time of a run went, over all its restarts."),
        "runs": ("tfdist.cli.runs:runs", "Lists the runs of a folder, and compares runs."),
        "board": (
            "tfdist.cli.board:board",
            "Shows the runs of a folder on a page for the browser, live, and compares them.",
        ),
        "checkpoints": (
            "tfdist.cli.checkpoints:checkpoints",
            "Lists, inspects, verifies, prunes and exports the checkpoints of a run.",
        ),
        "doctor": ("tfdist.cli.doctor:doctor", "Checks this machine and its connections before a job needs them."),
        "tf-config": ("tfdist.cli.tf_config:tf_config_command", "Prints the TF_CONFIG of one worker of a cluster."),
        "manifest": (
            "tfdist.cli.manifest:manifest",
            "Writes the manifest of a training for Kubernetes.",
        ),
        "examples": (
            "tfdist.cli.examples_group:examples",
            "Lists the examples and their configs, and copies them.",
        ),
        "config": ("tfdist.cli.config:config", "Shows, checks or starts a config."),
        "completion": (
            "tfdist.cli.help.completion:completion",
            "Prints what makes a shell complete verbs, options and their values.",
        ),
    }
)
"""Verb -> where its command is, and what it does in one line."""

HEADINGS: Mapping[str, str] = MappingProxyType(
    {
        "train": "Train",
        "predict": "Use a trained model",
        "verify": "Check that it is exact",
        "plan": "Before a run",
        "status": "During and after a run",
        "doctor": "Machines and clusters",
        "examples": "To begin with",
    }
)
"""Verb -> the heading above it in `tfdist --help`, and above those that follow it in `VERBS`."""


class Verbs(VerbGroup):
    """A group that imports a command only to run it or to show its own help."""

    def main(self, *args: Any, **options: Any) -> Any:
        open_closed_streams()
        mask_text()
        return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*args, **options)
        except click.UsageError as error:
            raise Mistake.of(error) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), attribute)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns what a word may become, without an import of all verbs."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=text) for name, (_, text) in VERBS.items() if name.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def hint(self, ctx: click.Context, name: str) -> str:
        if name.endswith((".py", ".yaml", ".yml")):
            return f" To train it: tfdist train {name}"
        return super().hint(ctx, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise Mistake.of(error) from None
        except KeyboardInterrupt:
            # A command that has workers handles signals itself.
            click.echo("stopped: Ctrl-C, SIGINT", err=True)
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        below: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name, (_, help_line) in VERBS.items():
            heading = HEADINGS.get(name, heading)
            below.setdefault(heading, []).append((name, help_line))
        widest = max(map(len, VERBS))
        for heading, rows in below.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), help_line) for name, help_line in rows])


# As wide as the terminal is, up to what a line of text may be to be read with ease.
@click.group(
    cls=Verbs,
    epilog="Say `tfdist COMMAND --help` for the options of a command.",
    context_settings={"max_content_width": 110},
)
@click.version_option(VERSION, prog_name="tfdist", message="%(prog)s %(version)s")
def main() -> None:
    """Trains Keras models over many GPUs and many machines with the numbers of one device."""
