"""What measuring costs over the bare forward passes of the same model and data, in one run; and Labatie's
program.

Overheads are ratios of the time of one initialization, weights as they are, over the forward passes alone.
Both run in turns, so that a busy moment hits both, and the medians of the ratios are reported.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from row import Row
from torch import nn

import firstlight as fl
from firstlight.measurement import ensembles

REPEATS = 5
REFERENCE = 1.7
"""Seconds of one simulation by the Keras program on two cores: width 512, batch 64, depth 200, with ranks."""


def measure() -> Iterator[Row]:
    """Overheads, then whole programs."""
    yield from _perceptron("SHLP", 1)
    yield from _perceptron("MHLP", 20)
    yield from _overheads("ResNet-50", _resnet50(), 16)
    yield from _overheads("ViT-B/16", _vit(), 8)
    yield _labatie()
    yield _small_members()


def _perceptron(name: str, depth: int) -> Iterator[Row]:
    blueprint = fl.Blueprint.mlp(inputs=1000, depth=depth, width=100)
    inputs = torch.randn(20_000, 1000, generator=torch.Generator().manual_seed(0))
    inits = 8

    def two_passes() -> None:
        for index in range(inits):
            model = blueprint.build(seed=index)
            with torch.no_grad():
                torch.bincount(model(inputs).argmax(1), minlength=2)
                outputs = model(inputs)
                outputs.mean(0), outputs.var(0)

    def one_pass() -> None:
        for index in range(inits):
            with torch.no_grad():
                blueprint.build(seed=index)(inputs)

    def measured() -> None:
        fl.measure(
            blueprint, inputs, inits=inits, quantities=["guesses", "gamma"], layers="output", progress=False
        )

    twice, once = _ratio(two_passes, measured), _ratio(measured, one_pass)
    yield Row(f"{name}, 20,000 points: measure over a loop of two passes", 1 / twice, "×", 1 / 1.9)
    yield Row(f"{name}, 20,000 points: guesses and γ at the output over one pass", once, "×", 1.1)


def _overheads(name: str, model: nn.Module, samples: int) -> Iterator[Row]:
    inputs = torch.randn(samples, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    chunks = inputs.split(8)
    model.eval()

    def bare() -> None:
        with torch.no_grad():
            for chunk in chunks:
                model(chunk)

    cases: list[tuple[str, object, str | None, float | None]] = [
        ("guesses and γ at the output", ["guesses", "gamma"], "output", 1.1),
        ("standard statistics", "standard", None, 1.6),
        ("standard statistics with χ", ["standard", "sensitivity"], None, 4.5),
        ("effective rank", ["effective_rank"], None, 2.0),
        ("gradient scale", ["gradient_scale"], None, None),
    ]
    for title, quantities, layers, target in cases:
        ratio = _observed(model, inputs, bare, quantities, layers)
        yield Row(f"{name}, {samples} images: {title} over the forward pass", ratio, "×", target)


def _observed(
    model: nn.Module, inputs: torch.Tensor, bare: Callable[[], None], quantities: object, layers: str | None
) -> float:
    """Time of ``observe`` alone (copying the model and scouting happen once, not for each initialization)."""
    spent: list[float] = []
    observe = ensembles.observe

    def timed(*arguments: object) -> object:
        began = time.perf_counter()
        result = observe(*arguments)
        spent.append(time.perf_counter() - began)
        return result

    ensembles.observe = timed
    ratios = []
    try:
        for _ in range(REPEATS):
            fl.measure(
                model,
                inputs,
                inits=1,
                redraw="keep",
                mode="eval",
                batch_size=8,
                quantities=quantities,
                layers=layers,
                progress=False,
            )
            ratios.append(spent[-1] / _seconds(bare))
    finally:
        ensembles.observe = observe
    return statistics.median(ratios[1:])


def _labatie() -> Row:
    layers: list[nn.Module] = [nn.Linear(3072, 512, bias=False)]
    for _ in range(200):
        layers += [nn.Linear(512, 512, bias=False), nn.BatchNorm1d(512, eps=1e-3, affine=False), nn.ReLU()]
    inputs = torch.randn(64, 3072, generator=torch.Generator().manual_seed(0))
    inits = 6

    def simulate() -> None:
        fl.measure(
            nn.Sequential(*layers),
            inputs,
            inits=inits,
            redraw="kaiming_normal",
            layers=lambda name, module: isinstance(module, nn.ReLU),
            quantities=["sensitivity", "effective_rank", "noise_effective_rank", "kurtosis"],
            progress=False,
        )

    seconds = statistics.median(_seconds(simulate) for _ in range(3)) / inits
    return Row(
        "batch norm, width 512, batch 64, depth 200: χ, ranks of signal and noise, a simulation",
        seconds,
        "s",
        REFERENCE / 3,
    )


def _small_members() -> Row:
    """Small networks, 32 members in one call over one by one."""
    inputs = torch.randn(60, 12, generator=torch.Generator().manual_seed(0))

    def work() -> None:
        fl.measure(
            lambda: nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3)),
            inputs,
            inits=256,
            progress=False,
        )

    def alone() -> None:
        chosen = ensembles.members_at_once
        ensembles.members_at_once = lambda setting: 1
        try:
            work()
        finally:
            ensembles.members_at_once = chosen

    return Row("12 → 20 → 3, 60 points: members together over members alone", _ratio(work, alone), "×", 1.0)


def _ratio(first: Callable[[], None], second: Callable[[], None]) -> float:
    first(), second()
    return statistics.median(_seconds(first) / _seconds(second) for _ in range(REPEATS))


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _resnet50() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig())


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig())
