r"""Averages over a Gaussian vector of what is divided by its length.

Enters: the eigenvalues λ_i of G = HKH on one batch of B points. For z ~ N(0, G), r = |z|² and any f homogeneous
of degree 2,

    E f(z)/r = ∫₀^∞ E f(z) e^{−sr} ds = ∫₀^∞ det(I + 2sG)^{−½} E f(z_s) ds,      z_s ~ N(0, G_s),  G_s = G (I +
    2sG)^{−1},

because e^{−sr} times the density of z is, but for its weight, the density of z_s. So BN → φ with a homogeneous φ
is an integral of the rule without norm over s. f = 1 gives E 1/r (Labatie 2019's δ_BN), and 1/√r takes ds/√(πs).

In x = log s the trapezoid rule converges like e^{−2π²/h}, but needs a hundred nodes. They are compressed to the
few of the Gauss rule for the same measure in τ = 1/(1 + 2sλ_1), where G_s is smooth; the compressed rule is
accepted once it reproduces the full one for every eigenvalue of E ẑẑᵀ and for the square roots of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LengthRule", "inverse_square_length", "length_rule"]

Array = NDArray[np.float64]

_STEP = 0.4
_AGREEMENT = 1e-11
_MOST = 40


@dataclass(frozen=True)
class LengthRule:
    """Nodes for E f(z)/r.

    Attributes:
        nodes: s.
        weights: Including the determinant; E f/r = Σ w E f(z_s).
        fine_nodes: The full trapezoid rule, for what costs little.
        fine_weights: Its weights.
        error: Disagreement of both, relative.
    """

    nodes: Array
    weights: Array
    fine_nodes: Array
    fine_weights: Array
    error: float


def inverse_square_length(eigenvalues: Array) -> float:
    """E 1/r; infinite for fewer than three directions.

    >>> round(inverse_square_length(np.ones(5)), 12)  # 1/(5 − 2)
    0.333333333333
    """
    if np.count_nonzero(eigenvalues > 1e-14 * eigenvalues.max(initial=0.0)) < 3:
        return math.inf
    return float(_trapezoid(eigenvalues)[1].sum())


def length_rule(eigenvalues: Array, *, agreement: float = _AGREEMENT) -> LengthRule:
    """Nodes and weights for functions of degree 2, compressed to this relative agreement."""
    s, weights = _trapezoid(eigenvalues)
    share = weights * eigenvalues.max()  # what a node adds at most to an average of degree 2
    share = share / (1 + 2 * s * eigenvalues.max())
    kept = share > 1e-16 * share.sum()
    s, weights = s[kept], weights[kept]
    tau = 1 / (1 + 2 * s * eigenvalues.max())
    some = eigenvalues[np.unique(np.linspace(0, len(eigenvalues) - 1, 64).astype(int))]
    spectra = some[:, None] / (1 + 2 * np.multiply.outer(some, s))
    tests = np.concatenate([spectra, np.sqrt(spectra[:1] * spectra), spectra**2 / spectra[:1]])
    exact = tests @ weights
    measure = weights / (1 + 2 * s * eigenvalues.max())  # finite for two directions too
    for count in range(4, min(_MOST, len(s)) + 1, 2):
        at, compressed = _gauss(tau, measure, count)
        nodes = (1 / at - 1) / (2 * eigenvalues.max())
        compressed = compressed / at
        spectra = some[:, None] / (1 + 2 * np.multiply.outer(some, nodes))
        tests = np.concatenate([spectra, np.sqrt(spectra[:1] * spectra), spectra**2 / spectra[:1]])
        error = float(np.abs(tests @ compressed / exact - 1).max())
        if error <= agreement:
            return LengthRule(nodes, compressed, s, weights, error)
    return LengthRule(s, weights, s, weights, 0.0)


def _trapezoid(eigenvalues: Array) -> tuple[Array, Array]:
    """Nodes s = e^x/tr G and weights s·Π(1 + 2sλ)^{−½}·h, from where s is nothing to where the determinant is."""
    scale = 1 / eigenvalues.sum()
    x = np.arange(-42.0, 120.0, _STEP)
    s = scale * np.exp(x)
    log_determinant = np.zeros_like(s)
    for start in range(0, len(eigenvalues), 512):
        log_determinant += np.log1p(2 * np.multiply.outer(s, eigenvalues[start : start + 512])).sum(axis=1)
    return s, np.exp(np.log(s) - 0.5 * log_determinant) * _STEP


def _gauss(points: Array, weights: Array, count: int) -> tuple[Array, Array]:
    """The Gauss rule of a discrete measure: Lanczos on diag(points) from √weights."""
    total = weights.sum()
    basis = [np.sqrt(weights / total)]
    on, off = [], []
    for step in range(count):
        image = points * basis[-1]
        on.append(float(image @ basis[-1]))
        stacked = np.array(basis)
        image = image - stacked.T @ (stacked @ image)
        image = image - stacked.T @ (stacked @ image)
        norm = float(np.linalg.norm(image))
        if step + 1 == count or norm < 1e-14:
            break
        off.append(norm)
        basis.append(image / norm)
    values, vectors = np.linalg.eigh(np.diag(on) + np.diag(off, 1) + np.diag(off, -1))
    return np.maximum(values, 1e-300), total * vectors[0] ** 2
