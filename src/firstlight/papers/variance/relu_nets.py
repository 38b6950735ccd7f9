"""Luther & Seung's fully-connected ReLU nets: Kaiming weights, inputs N(0, 1); measured and predicted.

Enters: width and depth. Leaves: the networks, their Profiles by width (common to figures 1 and 2), and what theory says
of as many inputs as were drawn. A layer's squared sample mean and sample variance are ``center_variance`` (m²) and
``data_variance`` (v²), its mean-std ratio is ``mean_std_ratio``.

Theory is for infinitely many inputs. With T of them, the sample mean of a unit scatters by v/√T, so that

    m² → m² + v²/T,   v² → v² (1 − 1/T),   r → √[(γ + 1/T)/(1 − 1/T)].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_noise
from firstlight.measurement.measuring import measure
from firstlight.models.kaiming import KaimingLinear
from firstlight.papers.chunks import pooled
from firstlight.papers.work import Work
from firstlight.results.profile import Profile
from firstlight.theory.predicting import predict

__all__ = [
    "finite_sample",
    "measured_widths",
    "preactivations",
    "profiles_by_width",
    "relu_net",
    "theory",
    "total",
    "with_read_out",
]

Array = NDArray[np.float64]

QUANTITIES = ("gamma", "center_variance", "data_variance", "mean_square")


def relu_net(width: int, depth: int, *, batch_norm: bool = False) -> nn.Sequential:
    """Linear → (BN →) ReLU, ``depth`` times, as wide as its inputs are many; no read-out.

    >>> [name for name, _ in relu_net(3, 1, batch_norm=True).named_children()]
    ['linear1', 'norm1', 'activation1']
    """
    layers = nn.Sequential()
    for number in range(1, depth + 1):
        layers.add_module(f"linear{number}", KaimingLinear(width, width))
        if batch_norm:
            layers.add_module(f"norm{number}", nn.BatchNorm1d(width))
        layers.add_module(f"activation{number}", nn.ReLU())
    return layers


def with_read_out(net: nn.Sequential, width: int) -> nn.Sequential:
    """Append L = w·x^L, w ~ N(0, 1): one w for all samples, to be measured with ``loss=total``.

    >>> [name for name, _ in with_read_out(relu_net(3, 1), 3).named_children()]
    ['linear1', 'activation1', 'readout']
    """
    net.add_module("readout", KaimingLinear(width, 1, weight_variance=width, bias=False))
    return net


def total(output: Tensor, target: Any) -> Tensor:
    """Σ L over samples, whose gradient at a sample is that of its own L, and of what batch norm makes others of it."""
    return output.sum()


def theory(depth: int) -> Profile:
    """γ, m² and v² of layers 1 … ``depth`` (and an output that nobody looks at), for infinite width."""
    return predict(Blueprint.mlp(depth=depth))


def finite_sample(profile: Profile, samples: int) -> dict[str, Array]:
    """What theory says of ``samples`` i.i.d. inputs: m², v² and r by hidden layer."""
    center, data = (profile.variables[name].values[:-1] for name in ("center_variance", "data_variance"))
    squared, variance = center + data / samples, data * (1 - 1 / samples)
    return {"m2": squared, "v2": variance, "r": np.sqrt(squared / variance)}


def measured_widths(work: Work) -> dict[str, Profile]:
    """One Profile for each width of the settings, over its networks; the inputs are the same for all networks.

    The settings are ``depth``, ``inputs`` (how many input vectors) and ``networks``, (width, networks) pairs.
    """
    found = {}
    for width, networks in work["networks"]:
        made_from = {"depth": work["depth"], "inputs": work["inputs"], "width": width, "data": work.seed}
        found[f"width-{width}"] = pooled(
            work,
            f"relu-{width}",
            networks,
            partial(_measured, made_from),
            chunk=30 if width <= 300 else 2,
            made_from=made_from,
        )
    return found


def _measured(of: Mapping[str, Any], seed: int, networks: int) -> Profile:
    return measure(
        partial(relu_net, of["width"], of["depth"]),
        gaussian_noise(of["inputs"], of["width"], seed=of["data"]).inputs,
        inits=networks,
        seed=seed,
        quantities=QUANTITIES,
        layers=["linear*"],
        progress=False,
    )


def preactivations(profile: Profile, name: str) -> Array:
    """Values (network, layer) of a quantity at layers 1 … depth; the last activation is left out."""
    return np.asarray(profile.variables[f"{name}_init"].values[:, :-1], dtype=np.float64)


def profiles_by_width(results: Mapping[str, Any]) -> dict[int, Profile]:
    """What ``measured_widths`` made, by width, the narrowest first."""
    widths = (int(name.removeprefix("width-")) for name in results if name.startswith("width-"))
    return {width: results[f"width-{width}"] for width in sorted(widths)}
