r"""Draw initializations until one guesses evenly, or like the labels (the filtering of Francazi et al. 2026).

Enters: a model and data. Leaves: the model with the first weights, drawn by its own law, whose guess fractions are near
the wanted shares :math:`p`,

.. math:: \max_c |G_c - p_c| \le \text{band}.

Of two labels the law of :math:`G_0` is known, :math:`G_0 = Φ(\sqrt{γ} ξ)`, so by theory a draw is within the band of
even shares with probability :math:`2Φ(Φ^{-1}(½ + \text{band})/\sqrt{γ}) - 1`, and the number of draws is geometric:
6.9 on average at γ = 0.467 and a band of 0.05, 43 at γ = 18.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight.errors import CouldNotError, UsageError
from firstlight.measurement.initialization import law_of
from firstlight.remedies.duplicating import duplicate
from firstlight.remedies.label_shares import label_shares
from firstlight.remedies.running import guess_fractions, setting_of
from firstlight.results.change import Edit, Edits

__all__ = ["seed_choice"]

_SHOWN = 4
"""Guess fractions that a message shows."""


def seed_choice(
    model: nn.Module,
    data: Any,
    *,
    shares: str | Sequence[float] = "even",
    band: float = 0.05,
    draws: int = 1000,
    samples: int | None = None,
    redraw: str | Callable[[nn.Module], object] | None = None,
    drawn: Callable[[], nn.Module] | None = None,
    mode: str = "train",
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Draw weights until the guesses are near the wanted shares.

    Args:
        model: The model; a copy is changed. Its present weights are the first draw.
        data: Whatever ``measure`` takes; with targets for ``shares="prior"``.
        shares: ``"even"``, ``"prior"`` (the shares of the labels in ``data``), or one number for each label.
        band: Largest distance of a guess fraction from its share.
        draws: At most so many; where none is within the band, that is an error which tells the best.
        samples: At most so many samples are looked at; all by default.
        redraw: Law of the weights, as for ``measure``; by default the model's own.
        drawn: Makes the model anew with other weights from the global generators, instead of a law; ``repair`` gives
            the factory's.
        mode: Which statistics batch norm uses.
        in_place: Work on the model itself.

    Returns:
        The new model, and one edit that says how many draws it took; 1 where the weights are within the band as they
        are.
    """
    _check(band, draws)
    candidate = duplicate(model, "seed_choice")
    setting = setting_of(candidate, data, mode, samples=samples)
    if setting.label_axis is None:
        raise CouldNotError("seed_choice: the model returns hidden states, no logits: there are no guesses")
    first = guess_fractions(candidate, setting, mode)
    wanted = _wanted(shares, data, len(first))
    best, best_draw, fractions = _distance(first, wanted), 1, first
    if best <= band:
        told = f"G = {_told(first)}"
        kept = Edit("", "kept the weights as they are, 1 draw in all", told, told)
        return model if in_place else candidate, Edits((kept,))
    law = None if drawn is not None else law_of(candidate, redraw)[0]
    for draw in range(2, draws + 1):
        if law is None:
            assert drawn is not None
            candidate = drawn()
        else:
            with torch.no_grad():
                law(candidate)
        found = guess_fractions(candidate, setting, mode)
        distance = _distance(found, wanted)
        if distance < best:
            best, best_draw, fractions = distance, draw, found
        if distance <= band:
            if in_place:
                _carry(candidate, model)
            edit = Edit(
                "",
                f"drew the weights anew, {draw} draws in all",
                f"G = {_told(first)}",
                f"G = {_told(found)}",
            )
            return model if in_place else candidate, Edits((edit,))
    raise CouldNotError(
        f"seed_choice: none of {draws:,} draws guesses within {band:g} of {_told(wanted)}; the best was draw "
        f"{best_draw:,}, off by {best:.3g}: G = {_told(fractions)}; nothing was changed; pass a wider band, more "
        "draws, or change the network by another remedy first"
    )


def _check(band: float, draws: int) -> None:
    if not 0 < band < 1:
        raise UsageError(f"seed_choice(band): expected a number between 0 and 1, got {band!r}")
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise UsageError(f"seed_choice(draws): expected a whole number of at least 1, got {draws!r}")


def _wanted(shares: str | Sequence[float], data: Any, labels: int) -> Tensor:
    if isinstance(shares, str):
        if shares == "even":
            return torch.full((labels,), 1 / labels, dtype=torch.float64)
        if shares != "prior":
            raise UsageError(
                f"seed_choice(shares): expected 'even', 'prior' or one number a label, got {shares!r}"
            )
        return label_shares(data, labels, "seed_choice")
    wanted = torch.as_tensor(np.asarray(shares, dtype=np.float64))
    if wanted.shape != (labels,) or bool((wanted < 0).any()) or abs(float(wanted.sum()) - 1) > 1e-6:
        raise UsageError(
            f"seed_choice(shares): expected {labels} numbers, one a label, that sum to 1, got {list(shares)!r}"
        )
    return wanted


def _distance(fractions: Tensor, wanted: Tensor) -> float:
    return float((fractions - wanted).abs().max())


def _carry(source: nn.Module, target: nn.Module) -> None:
    """All numbers of one model into another of the same structure."""
    with torch.no_grad():
        for mine, theirs in zip(_tensors(target), _tensors(source), strict=True):
            mine.copy_(theirs)


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _told(fractions: Tensor) -> str:
    shown = ", ".join(f"{value:.3g}" for value in fractions[:_SHOWN].tolist())
    return f"({shown}{', …' if len(fractions) > _SHOWN else ''})"
