r"""The diffusion law of vanilla nets: how widely log ν2(x^l) and log μ2(dx^l) scatter over initializations.

Enters: the cosines of the inputs and their mean squares, width and depth; the net is a linear map of variance
1/fan_in, then linear → ReLU layers with variance 2/fan_in. Leaves: s² by layer, to leading order in 1/width. A mean
square keeps its mean and is log-normal, so its logarithm is N(−s²/2, s²).

One layer of width N multiplies a mean square over points by a mean of N independent terms. With weights w_a = q_a/Σq
of the points and c_ab the cosine of their pre-activations,

.. math:: δs² = κ/N,\quad κ = Σ_{ab} w_a w_b\, [4\, E\, ReLU(u_a)² ReLU(u_b)² − 1],\quad
          E\, ReLU(u_a)² ReLU(u_b)² = \frac{3 \sin θ \cos θ + (π − θ)(1 + 2 \cos² θ)}{2π},

which grows from 0 at cosine 0 to 5 at cosine 1, whence N(−5l/2N, 5l/N) as points become alike (theory.md, section 6).
Noise has a direction of its own at each point: with x_ab the mean squared cosine of two points' noises, and P_ab = ½ −
θ/2π the chance that a unit is active for both,

.. math:: κ = ⟨4 P_{ab} (1 + 2 x_{ab})⟩ − 1,\quad
          x'_{ab} = \frac{4 P_{ab}² (1 − 1/N) x_{ab} + 4 P_{ab} (1 + 2 x_{ab})/N}{1 + [4 P_{ab} (1 + 2 x_{ab}) − 1]/N}.

Cosines of ReLU layers: Cho & Saul 2009. Fluctuations of the cosines themselves are left out, as are all terms of order
depth/width².
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["noise_diffusion", "signal_diffusion"]

Array = NDArray[np.float64]


def signal_diffusion(gram: Array, *, width: int, depth: int) -> Array:
    """s² of log ν2(x^l) − log ν2(x⁰) for l = 1 … ``depth``.

    Args:
        gram: Inner products of the inputs, (point, point).
        width: N.
        depth: Layers after the first linear map.

    >>> signal_diffusion(np.ones((1, 1)), width=100, depth=2)  # one point: 2/N at the linear map, then 5/N a layer
    array([0.07, 0.12])
    """
    cosine, weights = _cosines(gram), _weights(gram)
    total = 2 * float((weights * cosine**2).sum()) / width
    found = []
    for _ in range(depth):
        angle = np.arccos(cosine)
        joint = 3 * np.sin(angle) * cosine + (np.pi - angle) * (1 + 2 * cosine**2)
        total += float((weights * (2 * joint / np.pi - 1)).sum()) / width
        found.append(total)
        cosine = _behind_relu(cosine)
    return np.array(found)


def noise_diffusion(gram: Array, *, inputs: int, width: int, depth: int) -> Array:
    """s² of log μ2(dx^l) − log μ2(dx⁰), for i.i.d. noise on ``inputs`` coordinates; else as for the signal.

    >>> noise_diffusion(np.ones((1, 1)), inputs=10**9, width=100, depth=2)  # one point has one noise: as the signal
    array([0.07, 0.12])
    """
    cosine = _cosines(gram)
    own = np.eye(len(gram), dtype=bool)
    aligned = np.where(own, 1.0, 1 / inputs)
    total = 2 * float(aligned.mean()) / width
    aligned = np.where(own, 1.0, (aligned + (1 + aligned) / width) / (1 + 2 * aligned / width))
    found = []
    for _ in range(depth):
        active = 0.5 - np.arccos(cosine) / (2 * np.pi)
        scatter = 4 * active * (1 + 2 * aligned) - 1
        total += float(scatter.mean()) / width
        found.append(total)
        grown = 4 * active**2 * (1 - 1 / width) * aligned + (scatter + 1) / width
        aligned = np.where(own, 1.0, grown / (1 + scatter / width))
        cosine = _behind_relu(cosine)
    return np.array(found)


def _cosines(gram: Array) -> Array:
    scale = np.sqrt(np.diag(gram))
    cosine: Array = np.clip(gram / np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def _weights(gram: Array) -> Array:
    share = np.diag(gram) / np.trace(gram)
    return np.asarray(np.outer(share, share))


def _behind_relu(cosine: Array) -> Array:
    """Cosine of ReLU(u_a) and ReLU(u_b), which is that of the next pre-activations."""
    angle = np.arccos(cosine)
    return np.clip((np.sin(angle) + (np.pi - angle) * cosine) / np.pi, -1.0, 1.0)
