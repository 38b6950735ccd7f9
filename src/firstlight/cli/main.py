"""``firstlight``: the group of all verbs, and the one place where errors become exit codes.

===== ===========================================================
code  meaning
===== ===========================================================
0     done
1     a policy was not met (verbs that judge)
2     the command makes no sense as it was written
3     a sensible command that could not be carried out
130   interrupted by Ctrl-C
141   whoever read stdout has gone away
===== ===========================================================

stdout carries the result and nothing else; stderr carries progress and complaints. A user's mistake never shows a
traceback; a mistake of ours does.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from firstlight import __version__
from firstlight.errors import FirstlightError, UsageError

__all__ = ["main", "program"]

_VERBS = {
    "audit": "firstlight.cli.audit",
    "predict": "firstlight.cli.predict",
    "measure": "firstlight.cli.measure",
    "compare": "firstlight.cli.compare",
    "phases": "firstlight.cli.phases",
    "repair": "firstlight.cli.repair",
    "track": "firstlight.cli.track",
    "reproduce": "firstlight.cli.reproduce",
    "report": "firstlight.cli.report",
    "show": "firstlight.cli.show",
}


class _Program(click.Group):
    """Opens a verb's file when the verb is asked for, and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = getattr(import_module(_VERBS[cmd_name]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from firstlight.errors import one_of

        if args and not args[0].startswith("-") and args[0] not in _VERBS:
            raise click.UsageError(str(one_of("command", args[0], _VERBS)), ctx=ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(
                errors="replace"
            )  # γ is worth a question mark, not a traceback, in a poor locale
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except UsageError as error:
            _fail(ctx, str(error), 2)
        except FirstlightError as error:
            _fail(ctx, str(error), 3)
        except BrokenPipeError:
            # Point stdout at nothing, or the interpreter complains when it flushes on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(141)
        except OSError as error:
            where = f"{os.fspath(error.filename)}: " if error.filename else ""
            _fail(ctx, f"{where}{error.strerror or error}", 3)
        except MemoryError as error:
            _fail(ctx, f"out of memory: {str(error) or 'ask for less at once'}", 3)
        except KeyboardInterrupt:
            ctx.exit(130)
        return result


def _fail(ctx: click.Context, message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    ctx.exit(code)


@click.command(
    cls=_Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="firstlight")
def program() -> None:
    """Tell what a neural network believes before it learns."""


def main() -> None:
    """Run the command line; the console script."""
    program(prog_name="firstlight")
