"""How untrained networks guess on real pictures: measured, beside the law that wide networks of the same γ would have.

Enters: a way to build each network, and pictures. Leaves, by the network's name: the profile ``NAME-measured``, and
``NAME-law``, the guesses by ``GuessLaw`` at the measured γ, counted on as many pictures; their drawing; and what can be
stated of them. The law is no prediction of γ: no rule of theory follows max-pooling over positions. It says what the
fractions would be if the outputs were Gaussian over the data.

The paper compares two variants of a network (appendix I): "without bias", tanh with average-pooling, and "with bias",
ReLU with max-pooling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from firstlight.data.samples import Samples
from firstlight.measurement.measuring import measure
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile
from firstlight.results.reproduction import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "VARIANTS",
    "bias_statement",
    "difference_statement",
    "draw_panels",
    "even_statement",
    "mean_max",
    "measured_guesses",
    "statements_of_variants",
    "variant_of",
]

VARIANTS: Mapping[str, Mapping[str, str]] = {
    "tanh-avg-pool": {"activation": "tanh", "pool": "avg"},
    "relu-max-pool": {"activation": "relu", "pool": "max"},
}

_DRAWS = 2000

Builder = Callable[..., nn.Module]


def variant_of(build: Builder, variant: str, **options: Any) -> Builder:
    """A factory of one variant of a network; in the memory layout in which a CPU convolves and pools fastest."""

    def built() -> nn.Module:
        return build(**VARIANTS[variant], **options).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    built.__qualname__ = f"{getattr(build, '__name__', 'network')} ({variant})"
    return built


def measured_guesses(work: Work, networks: Mapping[str, Builder], data: Samples) -> dict[str, Any]:
    """Guesses of each network, and the law at its γ; the setting ``inits`` says how many are drawn."""
    results: dict[str, Any] = {}
    for name, network in networks.items():
        profile = results[f"{name}-measured"] = work.piece(
            f"{name}-measured",
            partial(
                measure,
                network,
                data,
                inits=work["inits"],
                seed=work.seed,
                quantities=["guesses", "gamma", "center_variance", "data_variance"],
                layers="output",
                progress=work.progress,
            ),
        )
        results[f"{name}-law"] = work.piece(f"{name}-law", partial(_law_of, profile))
    return results


def _law_of(profile: Profile) -> Guesses:
    guesses, seed = _guesses(profile), profile.provenance.seed or 0
    law = GuessLaw(float(profile.gamma[-1]), guesses.labels)
    if guesses.labels == 2:
        return Guesses.from_law(law, samples=guesses.samples, seed=seed)
    # of more labels the law is made of draws; these are kept, so that drawing the figure makes none
    drawn = law.sample(_DRAWS, seed=seed, samples=guesses.samples)
    return Guesses.from_draws(drawn, samples=guesses.samples, seed=seed)


def _guesses(profile: Profile) -> Guesses:
    assert profile.guesses is not None
    return profile.guesses


def draw_panels(results: Mapping[str, Any], titles: Mapping[str, str], *, bins: int = 25) -> Figure:
    """A panel for each network: histogram of the fractions, the law at its γ, a neutral network, the mean of G_0."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(3.5 * len(titles), 3.2), dpi=200, layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, len(titles)), titles.items(), strict=True):
            _draw_panel(axes, results, name, bins)
            axes.set_title(title)
        figure.axes[0].set_ylabel("density over initializations")
    return figure


def _draw_panel(axes: Axes, results: Mapping[str, Any], name: str, bins: int) -> None:
    profile, law = results[f"{name}-measured"], results[f"{name}-law"]
    guesses = _guesses(profile)
    edges = np.linspace(0.0, 1.0, bins + 1)
    first, second, third = series_styles(3)
    neutral = Guesses.from_law(GuessLaw(0.0, guesses.labels), samples=guesses.samples)
    heights = {}
    for key, item in (("measured", guesses), ("law", law), ("neutral", neutral)):
        below = np.concatenate([[0.0], item.cdf(edges[1:])])  # the first bin holds what is 0 too
        heights[key] = np.diff(below) * bins
    axes.stairs(
        heights["measured"],
        edges,
        fill=True,
        color=first.color,
        alpha=0.3,
        label=f"measured, {guesses.draws:,} initializations",
    )
    axes.stairs(
        heights["law"],
        edges,
        color=second.color,
        linewidth=1.3,
        label=f"law at its $\\gamma$ = {float(profile.gamma[-1]):.3g}",
    )
    axes.stairs(heights["neutral"], edges, color="0.45", linestyle=(0, (1, 1.2)), label="no bias")
    mean, error = _mean_of_first(profile)
    axes.axvspan(mean - error, mean + error, color=third.color, alpha=0.35, linewidth=0)
    axes.axvline(mean, color=third.color, linewidth=1.0, label="mean of $G_0$, ± standard error")
    top = max(float(item.max()) for item in (heights["measured"], heights["law"]))
    axes.set(xlim=(0, 1), ylim=(0, 1.55 * top), xlabel="$G_0$" if guesses.labels == 2 else "$G_c$")
    axes.legend(fontsize=6.5, loc="upper right", handlelength=1.5)


def _mean_of_first(profile: Profile) -> tuple[float, float]:
    first = _guesses(profile).fractions.values[:, 0]
    return float(first.mean()), float(first.std(ddof=1)) / math.sqrt(len(first))


def mean_max(profile: Profile) -> tuple[float, float]:
    """Mean of max_c G_c over initializations, and its standard error."""
    greatest = _guesses(profile).max.values
    return float(greatest.mean()), float(greatest.std(ddof=1)) / math.sqrt(len(greatest))


def even_statement(says: str, profile: Profile) -> Statement:
    """The labels are alike over the ensemble: ⟨G_0⟩ = 1/M."""
    labels = _guesses(profile).labels
    return Statement(
        f"{says}: ⟨G_0⟩ over initializations is 1/{labels}", "=", 1 / labels, *_mean_of_first(profile)
    )


def bias_statement(says: str, profile: Profile, *, because: str = "") -> Statement:
    """There is bias: max_c G_c is greater on average than counting noise makes it in a neutral network."""
    neutral = float(_guesses(profile).null.mean_max)
    return Statement(
        f"{says}: mean of max_c G_c above that of a network without bias, counted on as many pictures",
        ">",
        neutral,
        *mean_max(profile),
        because=because,
    )


def difference_statement(says: str, less: Profile, more: Profile) -> Statement:
    """One is more biased than the other: difference of the means of max_c G_c."""
    (low, low_error), (high, high_error) = mean_max(less), mean_max(more)
    return Statement(
        f"{says}: mean of max_c G_c, difference", ">", 0.0, high - low, math.hypot(low_error, high_error)
    )


def statements_of_variants(results: Mapping[str, Any], place: str) -> Sequence[Statement]:
    """What the paper says of each pair of variants."""
    without, with_bias = (results[f"{name}-measured"] for name in VARIANTS)
    return [
        even_statement(f"tanh + average-pool, labels alike over the ensemble ({place})", without),
        even_statement(f"ReLU + max-pool, labels alike over the ensemble ({place})", with_bias),
        bias_statement(f"ReLU + max-pool is biased ({place})", with_bias),
        difference_statement(
            f"ReLU + max-pool is more biased than tanh + average-pool ({place})", without, with_bias
        ),
    ]
