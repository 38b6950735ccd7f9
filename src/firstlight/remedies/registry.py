"""The remedies as data: what each is called, what it changes, which findings it answers, and where its function is.

Enters: a name. Leaves: its ``Remedy``. Nothing here imports torch, so that help may list them. Which findings a remedy
answers is said once, by the checks of ``diagnosis``.

The function of a remedy is ``(model, …) → (new model, Edits)``::

    def norm_after_activation(model, *, in_place=False, …): …           a remedy of the structure
    def lsuv_initialization(model, data, *, mode="train", in_place=False, …): …   one that looks at data

- It works on ``duplicate(model)`` unless ``in_place=True``; either way it decides everything before it changes
  anything, and raises ``ModelError`` naming each address and reason where it must refuse.
- Data is whatever ``measure`` takes (``as_batches`` reads it); ``mode`` says which statistics batch norm uses.
- An option named ``drawn`` is given what draws such a model with other weights, an option named ``example`` the data.
  What a remedy works out from the law alone and not from these weights, it puts into ``Edits.settled``, and every
  initialization of a measurement is given that.
- What it draws comes from torch's global generator: ``repair`` seeds that generator, and applies the remedy anew after
  each redrawing, so a data-dependent initialization is part of the law that is measured.
- A remedy of the data (centring) puts its transform in front of the model as a module, so that the repaired model takes
  the data as they are.
- It leaves modes, hooks, ``requires_grad`` and all random state that it did not draw from as they were.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from firstlight.errors import one_of

__all__ = ["REMEDIES", "Remedy", "remedy_named"]


@dataclass(frozen=True)
class Remedy:
    """One remedy.

    Attributes:
        name: What API, command line and findings call it; also the name of its function.
        title: One line for people.
        changes: ``"structure"``, ``"parameters"``, ``"data"`` or ``"seed"``.
        home: The module of its function.
        needs_data: Whether the function takes ``data`` (and ``mode``).
        reference: Where it comes from.
    """

    name: str
    title: str
    changes: str
    home: str
    needs_data: bool
    reference: str

    @property
    def function(self) -> Callable[..., Any]:
        """The plain function; imports its module."""
        found: Callable[..., Any] = getattr(import_module(self.home), self.name)
        return found

    @property
    def answers(self) -> tuple[str, ...]:
        """Ids of the findings that name it."""
        from firstlight.diagnosis.checks.every import CHECKS

        subjects = [subject for check in CHECKS for subject in check.subjects]
        return tuple(subject.id for subject in subjects if self.name in subject.remedies)

    @property
    def options(self) -> dict[str, Any]:
        """Options of its own with their defaults."""
        shared = ("model", "data", "mode", "in_place")
        return {
            name: item.default
            for name, item in inspect.signature(self.function).parameters.items()
            if name not in shared
        }


_PLACEMENT = "firstlight.remedies.norm_placement"
_DATA_DEPENDENT = "firstlight.remedies.data_dependent"

_ALL = (
    Remedy(
        "norm_after_activation",
        "move each norm from before its activation to after it",
        "structure",
        _PLACEMENT,
        False,
        "Francazi et al. 2026",
    ),
    Remedy(
        "norm_before_activation",
        "move each norm from after its activation to before it",
        "structure",
        _PLACEMENT,
        False,
        "Ioffe & Szegedy 2015",
    ),
    Remedy(
        "convert_norm",
        "replace norms of one type by norms of another",
        "structure",
        "firstlight.remedies.norm_types",
        False,
        "Francazi et al. 2026",
    ),
    Remedy(
        "activation_shift",
        "subtract from every activation its mean",
        "structure",
        "firstlight.remedies.activation_shift",
        True,
        "Francazi et al. 2024",
    ),
    Remedy(
        "activation_shaping",
        "shape every activation so that theory predicts a chosen bias",
        "structure",
        "firstlight.remedies.activation_shaping",
        True,
        "Francazi et al. 2024",
    ),
    Remedy(
        "data_centering",
        "subtract the mean of the data, or the constant that gives a chosen bias",
        "data",
        "firstlight.remedies.centering",
        True,
        "Francazi et al. 2026",
    ),
    Remedy(
        "seed_choice",
        "draw initializations until one guesses evenly, or like the labels",
        "seed",
        "firstlight.remedies.seed_choice",
        True,
        "Francazi et al. 2026",
    ),
    Remedy(
        "output_bias_to_prior",
        "set the bias of the read-out to the logarithm of the labels' shares",
        "parameters",
        "firstlight.remedies.output_bias",
        True,
        "Lin et al. 2017",
    ),
    Remedy(
        "scale_initialization",
        "scale each layer until its pre-activations have mean square 1 on data",
        "parameters",
        _DATA_DEPENDENT,
        True,
        "Luther & Seung 2019",
    ),
    Remedy(
        "scale_bias_initialization",
        "centre each unit and scale each layer until its pre-activations have mean 0 and variance 1 on data",
        "parameters",
        _DATA_DEPENDENT,
        True,
        "Luther & Seung 2019",
    ),
    Remedy(
        "lsuv_initialization",
        "draw orthogonal weights and scale each layer until its output has variance 1 on data",
        "parameters",
        _DATA_DEPENDENT,
        True,
        "Mishkin & Matas 2016",
    ),
    Remedy(
        "orthogonal_initialization",
        "draw orthogonal weights",
        "parameters",
        "firstlight.remedies.orthogonal",
        False,
        "Saxe et al. 2014",
    ),
)

REMEDIES: Mapping[str, Remedy] = MappingProxyType({remedy.name: remedy for remedy in _ALL})
"""Every remedy by its name, in the order in which they are listed."""


def remedy_named(name: str) -> Remedy:
    """The remedy of that name, or the error that lists them all.

    >>> remedy_named("norm_after_activation").changes
    'structure'
    """
    if name not in REMEDIES:
        raise one_of("remedy", name, REMEDIES)
    return REMEDIES[name]
