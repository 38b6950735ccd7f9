r"""Shape every activation so that theory predicts a chosen γ at the output.

Enters: a model that theory can read, data and the wanted γ. Leaves: the model in which every activation φ is one of

.. math:: φ_λ(u) = s_λ\,\bigl((1 - λ)\,φ(u) + λ\,u\bigr) \qquad\text{or}\qquad
          φ_t(u) = s_t\,\bigl(φ(u) - t\,E\,φ(z)\bigr),

the leak λ or the share t of the mean the same in all layers, and s such that
:math:`E\,φ_λ(z)^2 = E\,φ(z)^2` for a standard Gaussian z, so that the scale of the signal stays what it was. λ = 1 is a
linear network, whose γ is that of the data; λ = 0 is φ; λ = −1 makes ReLU the modulus. t = 1 takes the mean away
altogether. γ as a function of λ (or t) is dataset theory on these data, and the value is found by bisection between it
and 0; the least change that meets γ is taken.

After the rewriting the new model is read again, and theory must find the same γ in it: else it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from scipy.optimize import brentq
from torch import nn

from firstlight.architecture.activations import ActivationFunction
from firstlight.architecture.blueprint import Blueprint
from firstlight.architecture.layers import Activation, Layer, Residual
from firstlight.architecture.shaped_activations import ShapedActivation, shaped
from firstlight.errors import CouldNotError, UsageError, one_of
from firstlight.remedies.activation_sites import Sites, activation_sites, in_place_of_each
from firstlight.remedies.duplicating import duplicate, require_ordinary
from firstlight.remedies.foreseeing import fitting, foreseen_gamma, points_of, readable
from firstlight.results.change import Edit, Edits
from firstlight.theory.kernels.kernel import kernel_of

__all__ = ["activation_shaping"]

_BY = {"leak": (-1.0, 1.0), "shift": (-8.0, 1.0)}
"""What is chosen, and between which values it is looked for."""
_AGREEMENT = 1e-4
"""Relative difference that rounding of the buffers to single precision may make to γ."""


def activation_shaping(
    model: nn.Module,
    data: Any,
    *,
    gamma: float | None = 0.2,
    by: str = "leak",
    amount: float | None = None,
    layers: str | Iterable[str] | None = None,
    mode: str = "train",
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Shape every activation so that γ of the output is the wanted one, by theory.

    Args:
        model: The model; a copy is changed.
        data: Whatever ``measure`` takes, with one floating-point input.
        gamma: γ of the output that is wanted.
        by: ``"leak"`` mixes each activation with the identity, ``"shift"`` subtracts a share of its mean.
        amount: λ or t itself, instead of ``gamma``.
        layers: Names or patterns of the activations (``"~…"`` excludes); all by default. With ``amount`` only.
        mode: Takes no part: theory speaks of the statistics of the data.
        in_place: Work on the model itself; the module that is returned is the one to use.

    Returns:
        The new model, and one edit for each activation.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> leaky, _ = activation_shaping(net, torch.zeros(2, 3), amount=0.5)
    >>> round(float(leaky[1](torch.tensor(-1.0)) / leaky[1](torch.tensor(1.0))), 6)
    -0.5
    """
    require_ordinary(model, "activation_shaping")
    if by not in _BY:
        raise one_of("activation_shaping(by)", by, _BY)
    if amount is None:
        if gamma is None or not gamma > 0:
            raise UsageError(f"activation_shaping(gamma): expected a number above 0, got {gamma!r}")
        if layers is not None:
            raise UsageError(
                "activation_shaping(layers): γ is solved for all activations together; pass amount= too"
            )
    sites = activation_sites(model, layers, data, "activation_shaping", lambda call: "")
    notes: list[str] = []
    solved = amount
    blueprint = points = None
    total = 0
    if solved is None:
        assert gamma is not None
        points, total = points_of(data, "activation_shaping")
        blueprint = readable(model, points, "activation_shaping")
        points = fitting(blueprint, points, "activation_shaping")
        solved, before = _solved(blueprint, points, total, gamma, by)
        if len(points) < total:
            notes.append(f"theory looked at {len(points)} of {total} points")
        notes.append(
            f"{'λ' if by == 'leak' else 't'} = {solved:.4g}: γ of the output by theory {before:.4g} → {gamma:.4g}"
        )
    rehearsed, made = in_place_of_each(duplicate(model, "activation_shaping"), sites)
    _fill(made, sites, solved, by)
    if points is not None:
        assert gamma is not None
        _verified(rehearsed, points, total, gamma)
    if in_place:
        rehearsed, made = in_place_of_each(model, sites)
        _fill(made, sites, solved, by)
    edits = tuple(
        Edit(site.address, "shaped", site.told, f"{site.told} with {made[site.name].extra_repr()}")
        for site in sites.found
    )
    return rehearsed, Edits(
        edits,
        tuple(sites.left),
        tuple(dict.fromkeys([*notes, *sites.notes])),
        settled={"amount": solved, "gamma": None},
    )


def _numbers(function: ActivationFunction, amount: float, by: str) -> dict[str, float]:
    """Shift, leak and scale of one activation."""
    plain = kernel_of(function)
    numbers = {"leak": amount} if by == "leak" else {"shift": amount * float(plain.mean(1.0))}
    square = float(kernel_of(shaped(function, **numbers)).mean_square(1.0))
    if not square > 0:
        raise CouldNotError(f"activation_shaping: nothing is left of {function.name} at {by} {amount:g}")
    return {"shift": 0.0, "leak": 0.0, **numbers, "scale": math.sqrt(float(plain.mean_square(1.0)) / square)}


def _fill(made: dict[str, ShapedActivation], sites: Sites, amount: float, by: str) -> None:
    for site in sites.found:
        for name, value in _numbers(site.function(), amount, by).items():
            buffer = getattr(made[site.name], name)
            with torch.no_grad():
                buffer.fill_(value)


def _solved(
    blueprint: Blueprint, points: torch.Tensor, total: int, wanted: float, by: str
) -> tuple[float, float]:
    """The amount nearest 0 that gives the wanted γ, and γ without any."""
    where = "activation_shaping"
    memory: dict[float, float] = {}

    def gamma_of(amount: float) -> float:
        if amount not in memory:
            changed = replace(blueprint, layers=_shaped_layers(blueprint.layers, amount, by))
            memory[amount] = foreseen_gamma(changed, points, total, where)
        return memory[amount]

    before = gamma_of(0.0)
    lowest, highest = _BY[by]
    end = highest if wanted < before else lowest
    steps = [end * share for share in (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)]
    for near, far in pairwise(steps):
        if (gamma_of(near) - wanted) * (gamma_of(far) - wanted) <= 0:
            found = brentq(
                lambda amount: gamma_of(amount) - wanted, min(near, far), max(near, far), xtol=1e-7
            )
            return float(found), before
    reached = f"{gamma_of(end):.4g} at {'λ' if by == 'leak' else 't'} = {end:g}"
    raise CouldNotError(
        f"{where}(gamma): by theory γ of the output goes from {before:.4g} to {reached}, got gamma={wanted:g}; nothing "
        "was changed; centre the data, move the norms, or choose by='"
        f"{'shift' if by == 'leak' else 'leak'}'"
    )


def _shaped_layers(layers: tuple[Layer, ...], amount: float, by: str) -> tuple[Layer, ...]:
    found: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Activation):
            numbers = _numbers(layer.function, amount, by)
            layer = replace(layer, function=shaped(layer.function, **numbers))
        elif isinstance(layer, Residual):
            layer = replace(
                layer,
                body=_shaped_layers(layer.body, amount, by),
                shortcut=_shaped_layers(layer.shortcut, amount, by),
            )
        found.append(layer)
    return tuple(found)


def _verified(model: nn.Module, points: torch.Tensor, total: int, wanted: float) -> None:
    """Theory must find the wanted γ in the new model itself."""
    where = "activation_shaping"
    found = foreseen_gamma(readable(model, points, where), points, total, where)
    if abs(found - wanted) > _AGREEMENT * wanted:
        raise CouldNotError(
            f"{where}: in the rewritten model theory finds γ = {found:.6g} instead of {wanted:.6g}, because not every "
            "activation that it reads could be shaped; nothing was changed"
        )
