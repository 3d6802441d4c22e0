"""``mirrorlake completion``: what a shell needs to complete our commands, options and tables."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from mirrorlake.errors import ConfigError

_SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print shell completion, for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL needs to complete commands, options, and the tables of the contract file.

    bash 4.4 or newer: `mirrorlake completion bash >
    ~/.local/share/bash-completion/completions/mirrorlake`. zsh: `mirrorlake completion zsh >
    ~/.zfunc/_mirrorlake`, with that folder in fpath. fish: `mirrorlake completion fish >
    ~/.config/fish/completions/mirrorlake.fish`. Then start a new shell.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigError(f"{shell} is not known", next_step=f"Shells: {', '.join(_SHELLS)}")
    made = kind(context.find_root().command, {}, "mirrorlake", "_MIRRORLAKE_COMPLETE")
    click.echo(made.source())
