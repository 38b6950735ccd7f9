"""What a data-dependent initialization costs over one forward pass of its calibration data, at several depths.

The remedy works in place, and runs in turns with the bare pass of the same five mini-batches, so that a busy moment
hits both; the medians of the ratios are reported. A forward pass of the whole network for each layer would cost as many
passes as there are layers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from row import Row
from torch import nn

from firstlight import models
from firstlight.remedies.data_dependent import scale_bias_initialization

REPEATS = 7
BATCHES = 5


def measure() -> Iterator[Row]:
    """Perceptrons of two depths, then networks of pictures."""
    ratios = {}
    for depth in (10, 40):
        net = models.mlp(1000, depth=depth, width=1000, classes=10)
        ratios[depth] = _ratio(net, torch.randn(1280, 1000))
        yield Row(f"perceptron of {depth} layers: initialization over one pass", ratios[depth], "×", 3.0)
    yield Row("the same, 40 layers over 10", ratios[40] / ratios[10], "×", 1.5)
    yield Row(
        "ALL-CNN-C, 5 × 16 pictures: initialization over one pass",
        _ratio(models.all_cnn_c(), torch.randn(80, 3, 32, 32)),
        "×",
        3.0,
    )
    yield Row(
        "U-Net of width 16, 5 × 4 pictures of 64 × 64: initialization over one pass",
        _ratio(models.u_net(width=16), torch.randn(20, 1, 64, 64)),
        "×",
        3.0,
    )
    yield Row(
        "ResNet-9 with batch norm, 5 × 16 pictures: initialization over one pass",
        _ratio(models.resnet9(), torch.randn(80, 3, 32, 32)),
        "×",
        3.0,
    )


def _ratio(net: nn.Module, data: torch.Tensor) -> float:
    batches = [data[number::BATCHES].contiguous() for number in range(BATCHES)]

    def bare() -> None:
        with torch.no_grad():
            for batch in batches:
                net(batch)

    def initialized() -> None:
        scale_bias_initialization(net, batches, in_place=True)

    bare(), initialized()
    return statistics.median(_seconds(initialized) / _seconds(bare) for _ in range(REPEATS))


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
