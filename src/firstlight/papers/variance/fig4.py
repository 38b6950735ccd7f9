"""Figure 4: training loss by iteration with scale, scale + bias and batch norm, SGD and Adam, each at its best rate.

A row each network (ALL-CNN-C on CIFAR-10, U-Net on ISBI 2012), a column each optimizer; means over the seeds, bands of
one standard deviation. Section 5. ``scale`` makes the mean square of each layer's pre-activations 1 over five
mini-batches, ``scale + bias`` first takes away each unit's mean by its bias (equations 13 and 14). The loss is over
training samples that stay the same, with batch norm in train mode. The best rate is the one whose mean loss over all
recorded iterations is smallest: the fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from firstlight.data.cifar import cifar10
from firstlight.data.isbi2012_slices import isbi2012
from firstlight.data.samples import Samples
from firstlight.models.all_cnn import all_cnn_c
from firstlight.models.unets import u_net
from firstlight.papers.figure import PaperFigure
from firstlight.papers.variance.augmentation import Moved, cropped, warped
from firstlight.papers.work import Work
from firstlight.plots.style import house_style, series_styles
from firstlight.remedies.data_dependent import scale_bias_initialization, scale_initialization
from firstlight.results.reproduction import Statement
from firstlight.results.run_averages import mean_and_stderr
from firstlight.results.run_times import area_over_steps
from firstlight.results.trajectory import Trajectory
from firstlight.training.recipes import Recipe
from firstlight.training.running import train
from firstlight.training.schedules import every

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE"]

NETWORKS = {"all-cnn-c": "ALL-CNN-C, CIFAR-10", "u-net": "U-Net, ISBI 2012"}
STARTS = {"scale": "scale", "scale-bias": "scale + bias", "batch-norm": "batch norm"}
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
Array = NDArray[np.float64]


def _compute(work: Work) -> dict[str, Any]:
    """Runs by network, start, optimizer and rate."""
    results: dict[str, Any] = {}
    for network in NETWORKS:
        sizes = work[network]
        data = _data(work, network, sizes)
        for start in STARTS:
            made = partial(_network, network, start, sizes, _first_inputs(data, sizes))
            for optimizer in OPTIMIZERS:
                for rate in work["rates"][optimizer]:
                    name = _name(network, start, optimizer, rate)
                    results[name] = work.piece(
                        name, partial(_trained, work, sizes, made, data, optimizer, rate)
                    )
    return results


def _name(network: str, start: str, optimizer: str, rate: float) -> str:
    return f"{network}-{start}-{optimizer}-{rate:g}"


def _trained(
    work: Work,
    sizes: Mapping[str, int],
    made: Callable[[], nn.Module],
    data: Moved,
    optimizer: str,
    rate: float,
) -> Trajectory:
    recipe = Recipe(
        optimizer=optimizer,
        rate=rate,
        momentum=0.9 if optimizer == "sgd" else 0.0,
        batch_size=sizes["batch"],
        steps=sizes["steps"],
    )
    return train(
        made,
        data,
        recipe=recipe,
        runs=work["seeds"],
        seed=work.seed,
        schedule=every(sizes["every"]),
        evaluation_batch=sizes["batch"],
        evaluation_samples=sizes["looked_at"],
        progress=work.progress,
    )


def _network(network: str, start: str, sizes: Mapping[str, int], inputs: Tensor) -> nn.Module:
    """An untrained network; its weights and biases are set by the first mini-batches, unless a norm does that."""
    width = sizes["width"]
    norm = "batch" if start == "batch-norm" else None
    module: nn.Module = (
        all_cnn_c(width=width, norm=norm) if network == "all-cnn-c" else u_net(width=width, norm=norm)
    )
    if start == "batch-norm":
        return module
    initialize = scale_initialization if start == "scale" else scale_bias_initialization
    return initialize(module, inputs, batches=sizes["first"], batch_size=sizes["batch"], in_place=True)[0]


def _first_inputs(data: Moved, sizes: Mapping[str, int]) -> Tensor:
    """Some mini-batches, taken at even distances: neighbours are alike."""
    count = min(len(data), sizes["first"] * sizes["batch"])
    return torch.stack([data[int(index)][0] for index in np.linspace(0, len(data) - 1, count)])


def _data(work: Work, network: str, sizes: Mapping[str, int]) -> Moved:
    """Training pictures, standardized and moved about at random."""
    side, copies = sizes["side"], sizes["copies"]
    if network == "all-cnn-c":
        pictures = cifar10(root=work.data_root)
        if sizes["pictures"]:
            pictures = pictures.subset(sizes["pictures"], seed=work.seed)
        pictures = _halved(pictures.standardize("per-channel"), side)
        move = partial(cropped, margin=side // 8)
        return Moved(pictures, move, copies=copies, seed=work.seed)
    slices = isbi2012(root=work.data_root).standardize("per-channel")
    return Moved(_tiles(slices, side), warped, copies=copies, seed=work.seed)


def _halved(pictures: Samples, side: int) -> Samples:
    """Averages over blocks of pixels, so that ``side`` are left."""
    if pictures.shape[-1] == side:
        return pictures
    smaller = functional.adaptive_avg_pool2d(pictures.inputs, side)
    return _rewrapped(pictures, smaller, pictures.labels, f"averaged to {side} × {side}")


def _tiles(slices: Samples, side: int) -> Samples:
    """Each slice cut into squares, with their labels."""
    if slices.shape[-1] == side:
        return slices

    def cut(maps: Tensor) -> Tensor:
        squares = maps.unfold(-2, side, side).unfold(-2, side, side)  # (…, row, column, side, side)
        return squares.flatten(-4, -3)

    inputs = cut(slices.inputs[:, 0]).flatten(0, 1)[:, None]
    return _rewrapped(slices, inputs, cut(slices.labels).flatten(0, 1), f"cut into {side} × {side}")


def _rewrapped(samples: Samples, inputs: Tensor, labels: Tensor, note: str) -> Samples:
    return Samples.from_tensors(
        inputs,
        labels,
        label_names=samples.label_names,
        name=samples.name,
        title=f"{samples.description}; {note}",
    )


def _mean_losses(runs: Trajectory) -> Array:
    """Mean loss of each run over its iterations; infinite where it diverged."""
    losses = runs.quantity("loss").values
    means = area_over_steps(runs.steps, losses) / (runs.steps[-1] - runs.steps[0])
    return np.where(runs.diverged | ~np.isfinite(losses).all(1), np.inf, means)


def _best(results: Mapping[str, Any], network: str, start: str, optimizer: str) -> tuple[float, Trajectory]:
    """The fastest rate and its runs."""
    head = f"{network}-{start}-{optimizer}-"
    found = {float(name.removeprefix(head)): runs for name, runs in results.items() if name.startswith(head)}
    rate = min(found, key=lambda key: float(_mean_losses(found[key]).mean()))
    return rate, found[rate]


def _draw(results: Mapping[str, Any]) -> Figure:
    """Loss by iteration, a row each network, a column each optimizer."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 5.0), dpi=200, layout="constrained")
        panels = figure.subplots(len(NETWORKS), len(OPTIMIZERS), sharex="row", sharey="row")
        for row, (network, title) in zip(panels, NETWORKS.items(), strict=True):
            for axes, (optimizer, short) in zip(row, OPTIMIZERS.items(), strict=True):
                for (start, label), style in zip(STARTS.items(), series_styles(len(STARTS)), strict=True):
                    rate, runs = _best(results, network, start, optimizer)
                    losses = runs.quantity("loss").values
                    mean, spread = losses.mean(0), losses.std(0, ddof=1)
                    axes.plot(
                        runs.steps,
                        mean,
                        color=style.color,
                        linestyle=style.linestyle,
                        label=f"{label}, rate {rate:g}",
                    )
                    axes.fill_between(
                        runs.steps, mean - spread, mean + spread, color=style.color, alpha=0.2, linewidth=0
                    )
                _finish(axes, f"{title}, {short}")
            row[0].set_ylabel("training loss")
    return figure


def _finish(axes: Axes, title: str) -> None:
    axes.set(title=title, xlabel="iteration")
    axes.legend(fontsize=7)


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What the caption and section 5.3 say of scale + bias against scale."""
    said = []
    for network, title in NETWORKS.items():
        for optimizer, short in OPTIMIZERS.items():
            plain, biased = (
                _best(results, network, start, optimizer)[1] for start in ("scale", "scale-bias")
            )
            said.append(
                _lower(
                    f"Figure 4 (caption): {title}, {short}: scale + bias trains faster than scale; mean loss over the "
                    "iterations, scale − scale + bias",
                    _mean_losses(plain),
                    _mean_losses(biased),
                    _WHY[network],
                )
            )
            ends = [runs.quantity("loss").values[:, -1] for runs in (plain, biased)]
            said.append(
                _lower(
                    f"Section 5.3: {title}, {short}: the loss is still lower at the end; scale − scale + bias",
                    ends[0],
                    ends[1],
                    _WHY[network],
                )
            )
    return said


def _lower(says: str, plain: Array, biased: Array, because: str) -> Statement:
    """That one loss is higher than another on average, compared seed by seed."""
    if not (np.isfinite(plain).all() and np.isfinite(biased).all()):
        return Statement(says, ">", 0.0, np.nan, because=_LOST)
    gaps = np.asarray(plain - biased, dtype=np.float64)
    value, stderr, _ = mean_and_stderr(gaps)
    found = Statement(says, ">", 0.0, float(value), max(float(stderr), 1e-9))
    if found.agrees:
        return found
    levels = "; ".join(", ".join(f"{item:.2f}" for item in values) for values in (plain, biased))
    count = f"scale + bias is lower in {int((gaps > 0).sum())} of {len(gaps)} runs ({levels})"
    return replace(found, because=f"{count}; {because}")


_LOST = "at each of its rates, one of the two lost a run to infinity, so that there is no mean to compare"

_WHY = {
    "all-cnn-c": "when a run from scale leaves the loss of one guess for all, ln 10, is left to chance, and so few "
    "runs then give a wide error",
    "u-net": "within so few iterations the two differ less than their runs do; skip connections go past the depths, "
    "so perhaps there is less to gain; the paper's network is wider, its pictures are whole, and it runs beyond 10,000 "
    "iterations",
}

FIGURE = PaperFigure(
    _compute,
    _draw,
    _statements,
    scales={
        "smoke": {
            "rates": {"sgd": [0.001], "adam": [0.0003]},
            "seeds": 2,
            "all-cnn-c": {
                "side": 16,
                "width": 8,
                "pictures": 32,
                "copies": 1,
                "batch": 2,
                "first": 1,
                "steps": 2,
                "every": 1,
                "looked_at": 2,
            },
            "u-net": {
                "side": 32,
                "width": 2,
                "copies": 1,
                "batch": 2,
                "first": 1,
                "steps": 2,
                "every": 1,
                "looked_at": 2,
            },
        },
        "small": {
            "rates": {"sgd": [0.0003, 0.001, 0.003, 0.01], "adam": [0.00003, 0.0001, 0.0003, 0.001]},
            "seeds": 3,
            "all-cnn-c": {
                "side": 16,
                "width": 24,
                "pictures": 100,
                "copies": 1,
                "batch": 16,
                "first": 5,
                "steps": 200,
                "every": 10,
                "looked_at": 96,
            },
            "u-net": {
                "side": 32,
                "width": 8,
                "copies": 1,
                "batch": 4,
                "first": 5,
                "steps": 120,
                "every": 10,
                "looked_at": 32,
            },
        },
        "paper": {
            "rates": {"sgd": [0.0003, 0.001, 0.003, 0.01], "adam": [0.00003, 0.0001, 0.0003, 0.001]},
            "seeds": 3,
            "all-cnn-c": {
                "side": 32,
                "width": 96,
                "pictures": 0,
                "copies": 20,
                "batch": 128,
                "first": 5,
                "steps": 20_000,
                "every": 200,
                "looked_at": 1280,
            },
            "u-net": {
                "side": 512,
                "width": 64,
                "copies": 500,
                "batch": 1,
                "first": 5,
                "steps": 20_000,
                "every": 200,
                "looked_at": 30,
            },
        },
    },
    departs={
        "small": (
            "ALL-CNN-C with 24 and 48 channels instead of 96 and 192, on 100 pictures averaged to 16 × 16 pixels, one "
            "crop of each: few enough for 200 iterations with batches of 16 to learn them",
            "U-Net with 8 … 128 channels instead of 64 … 1024, on squares of 32 × 32 pixels, one warp of each; 120 "
            "iterations with batches of 4",
        ),
        "paper": (
            "the paper does not say how large its batches are: 128 and 1 are ours",
            "nor on what it takes the training loss: ours is over the same training samples at every look",
        ),
    },
)
