"""Dataset theory of convolutional networks: time, peak memory, and memory beside what was estimated.

Pictures of three channels with a falling spectrum. With all pairs of positions: 200 pictures of 8 × 8, four
convolutions, with global average pooling; the same with batch norms; 200 pictures of 32 × 32 at the same position.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
from row import Row
from torch import nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.theory.dataset.image_inputs import held_positions
from firstlight.theory.predicting_data import predict_on

POINTS, DEPTH, CHANNELS = 200, 4, 16


def measure() -> Iterator[Row]:
    """One run of each: they take tens of seconds."""
    for name, side, norm, end in (
        ("all pairs, global average pooling", 8, False, "average"),
        ("all pairs, batch norm before, global average pooling", 8, True, "average"),
        ("same position, flattened", 32, False, "flatten"),
    ):
        label = f"{name}, {POINTS} pictures of {side} × {side}, {DEPTH} convolutions"
        blueprint = Blueprint.read(network(side, norm, end), weight_variance=2.0, bias_variance=0.0)
        data = pictures(side)
        held = held_positions(blueprint.layers, POINTS, (side, side))
        wall, processor = time.perf_counter(), time.process_time()
        tracemalloc.start()  # follows numpy's arrays only: they are few
        predict_on(blueprint, data, draws=1000)
        yield Row(label, time.perf_counter() - wall, "s")
        yield Row(f"{label}, processor time", time.process_time() - processor, "s")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield Row(f"{label}, peak memory", peak / 1e9, "GB")
        yield Row(f"{label}, peak memory over the estimate", peak / 1e9 / held.gigabytes, "", 1.1)


def network(side: int, norm: bool, end: str) -> nn.Module:
    """A stack of 3 × 3 convolutions and a read-out."""
    layers: list[nn.Module] = []
    for channels in (3, *[CHANNELS] * (DEPTH - 1)):
        layers.append(nn.Conv2d(channels, CHANNELS, 3, padding=1))
        layers += [nn.BatchNorm2d(CHANNELS)] if norm else []
        layers.append(nn.ReLU())
    if end == "average":
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 10))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(CHANNELS * side**2, 10))


def pictures(side: int) -> np.ndarray:
    """Fourier amplitudes that fall like 1/frequency, as those of photographs do."""
    generator = np.random.default_rng(0)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side) * side, np.fft.fftfreq(side) * side))
    spectrum = np.fft.fft2(generator.standard_normal((POINTS, 3, side, side))) / np.maximum(frequency, 0.5)
    images = np.fft.ifft2(spectrum).real
    return images / images.std()


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:.3g} {row.unit}")
