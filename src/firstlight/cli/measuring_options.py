"""The options of every verb that measures: data, initializations, mode, batches, law of the weights.

Enters: a click command. Leaves: the command with the options in front of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["measuring_options"]

Command = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--data",
        metavar="NAME[:TASK,OPTIONS]",
        help="gaussian, noise, cifar10, cifar100, mnist, tiny-imagenet, isbi2012, or CODE:NAME of a loader; "
        "1,000 gaussian points where MODEL is a description.",
    ),
    click.option("--inits", type=int, default=100, show_default=True, help="Initializations."),
    click.option("--seed", type=int, default=0, show_default=True, help="Names the initializations."),
    click.option(
        "--layers",
        multiple=True,
        metavar="PATTERN",
        help="Layers by name, '*.bn*', re:…, ~exclusion, standard or output; repeat for more.",
    ),
    click.option(
        "--mode",
        default="train",
        show_default=True,
        metavar="train|eval",
        help="Which statistics batch norm uses.",
    ),
    click.option("--batch-size", type=int, metavar="B", help="Samples in a batch."),
    click.option("--samples", type=int, metavar="D", help="At most so many samples, drawn by the seed."),
    click.option(
        "--precision",
        type=float,
        metavar="SHARE",
        help="Stop when γ of the output is known within this share.",
    ),
    click.option(
        "--redraw",
        metavar="LAW",
        help="Draw weights by kaiming_normal, xavier_uniform, orthogonal …; keep leaves them.",
    ),
)


def measuring_options(command: Command) -> Command:
    """Add the options, in their order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
