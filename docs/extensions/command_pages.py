"""Write ``generated/commands.md``: what each verb of the command line answers to ``--help``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from firstlight.cli.main import program

HEAD = """# Command line

One command per verb. The result goes to stdout and nothing else does; progress and complaints go to stderr.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a policy was not met (verbs that judge) |
| 2 | the command makes no sense as it was written |
| 3 | a sensible command that could not be carried out |
| 130 | interrupted by Ctrl-C |
| 141 | whoever read stdout has gone away |

With `--json` the result is one JSON object in the strict sense of RFC 8259, which knows neither NaN nor infinities:
NaN (not defined, or not computed) is `null`; infinities are the strings `"Infinity"` and `"-Infinity"`. The object
opens with `"schema": "firstlight/<kind>"` and a `"schema_version"` that grows when a reader would have to change.

Wherever a network is expected, one line of text describes it: `mlp:depth=20,norm=layer,placement=before,pool=max/2`,
with the argument names of `Blueprint.mlp`. `measure` also takes code and Hugging Face configurations; see
[measuring](../measuring.md), and [data](../data.md) for what `--data` takes.
"""


def commands() -> str:
    """The page as MyST Markdown."""
    context = click.Context(program, info_name="firstlight")
    parts = [HEAD, block("firstlight", ["--help"])]
    parts += [block(f"firstlight {verb}", [verb, "--help"]) for verb in program.list_commands(context)]
    return "\n".join(parts)


def block(title: str, arguments: list[str]) -> str:
    """One heading with what the program prints."""
    done = CliRunner().invoke(program, arguments, prog_name="firstlight", terminal_width=96)
    if done.exit_code != 0:
        raise RuntimeError(f"{title}: {done.output}")
    return f"## `{title}`\n\n```text\n{done.output}```\n"


def write(app: Any) -> None:
    """Write the page beside the others, if it has changed."""
    target = Path(app.srcdir) / "generated" / "commands.md"
    target.parent.mkdir(exist_ok=True)
    text = commands()
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
