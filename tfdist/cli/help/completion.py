"""`tfdist completion`: what a shell reads to complete verbs, options and their values."""

from __future__ import annotations

import click

from tfdist.cli.verb import Verb

_SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Verb)
@click.argument("shell", type=click.Choice(_SHELLS), metavar=f"[{'|'.join(_SHELLS)}]")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Prints what makes a shell complete verbs, options and their values.

    Put it where your shell reads it when it starts:

    \b
      bash  tfdist completion bash > ~/.local/share/bash-completion/completions/tfdist
      zsh   tfdist completion zsh > ~/.zfunc/_tfdist     with ~/.zfunc in fpath, before compinit
      fish  tfdist completion fish > ~/.config/fish/completions/tfdist.fish

    For this shell alone: eval "$(tfdist completion bash)"
    """
    # Imported here: no other verb needs it.
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Not `source` of bash's class, which starts a bash to ask for its version.
    click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, "tfdist", "_TFDIST_COMPLETE")))
