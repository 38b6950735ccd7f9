"""Remedies for readers: what each does, and the line to type.

Enters: the names that a finding gives. Leaves: their texts; titles come from the registry of ``remedies``, so that
reports, help and API say the same.
"""

from __future__ import annotations

import shlex

from firstlight.remedies.registry import remedy_named
from firstlight.reporting.document import RemedyText

__all__ = ["Typed", "remedy_text"]

Typed = tuple[str, str]
"""What the user typed as MODEL and as ``--data``; placeholders where nobody typed anything."""


def remedy_text(name: str, typed: Typed = ("MODEL", "DATA")) -> RemedyText:
    """A remedy in words.

    >>> remedy_text("norm_after_activation", ("nets.py:make", "cifar10"))
    RemedyText(name='norm_after_activation', title='move each norm from before its activation to after it', \
command='firstlight repair nets.py:make --data cifar10 --remedy norm_after_activation')
    """
    model, data = (shlex.quote(word) for word in typed)
    return RemedyText(
        name, remedy_named(name).title, f"firstlight repair {model} --data {data} --remedy {name}"
    )
