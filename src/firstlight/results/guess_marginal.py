r"""The law of one label's fraction among three labels or more, smooth and without empirical steps.

Enters: √γ and the number of labels M. Leaves: a table from which ``cdf``, ``pdf`` and ``quantile`` are
read, with its error.

Fractions depend on differences of centres only. Split the own centre's lead :math:`d = \mu_0 -
\bar\mu_{rivals}` from the shape of the rivals :math:`r_c = \mu_c - \bar\mu_{rivals}`: the two are
independent, :math:`d \sim N(0, C M/(M-1))`, and at a fixed shape

.. math:: G_0 = H_r(d) = \int \varphi(t - d) \prod_c \Phi(t - r_c)\, dt \quad (\text{in units of } \sqrt{V})

increases with d. So :math:`P(G_0 \le g) = E_r\, \Phi(H_r^{-1}(g) / s)` with :math:`s^2 = \gamma M/(M-1)`:
only the shape is drawn, the lead is integrated exactly (conditional Monte Carlo), and the density is the
average of smooth densities. For two labels the shape is nothing and the formula is the closed form. The
standard error over shapes is part of the table; it vanishes as γ → 0. Table and inversion add less than
10⁻⁶ (tested against refinement); fractions within 10⁻¹⁵ of 0 or 1 are extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MarginalTable", "tabulate"]

Array = NDArray[np.float64]

_STEP = 0.125  # of the winning level: quadrature error below 1e-10 up to 1e5 labels
_LEADS = 129  # nodes of the lead, each draw
_NODES = 257  # nodes of the table
_SMALL, _LARGE = 1e-6, 1e7  # of √γ; beyond, w is linear in √γ and u in 1/√γ, to that relative accuracy
_EDGE = 8.2  # Φ(−8.2) = 1e-16: no float64 fraction lies nearer to one


@dataclass(frozen=True, eq=False)
class MarginalTable:
    """u = Φ⁻¹(P(G_0 ≤ g)) against w = Φ⁻¹(g), with slopes: a straight line for two labels, nearly one else.

    Attributes:
        centre: The probit from which w is measured.
        w: Equally spaced nodes.
        u: Values at the nodes, measured from ``origin``.
        slope: du/dw at the nodes.
        stderr: Standard error of P(G_0 ≤ g) at the nodes.
        draws: Shapes averaged over.
        origin: The probit of a probability from which u is measured.
    """

    centre: float
    w: Array
    u: Array
    slope: Array
    stderr: Array
    draws: int
    origin: float = 0.0

    def cdf(self, g: Array) -> Array:
        """P(G_0 ≤ g)."""
        from scipy.special import ndtr, ndtri

        return np.asarray(
            ndtr(
                self.origin
                + self._at(np.nan_to_num(ndtri(g) - self.centre, posinf=np.inf, neginf=-np.inf))[0]
            )
        )[()]

    def logpdf(self, g: Array) -> Array:
        """Log density: that of u by the change of variables."""
        from scipy.special import ndtri

        z = np.asarray(ndtri(g))
        finite = np.where(np.isfinite(z), z, 0.0)
        u, slope = self._at(finite - self.centre)
        density = 0.5 * (finite * finite - (self.origin + u) ** 2) + np.log(slope)
        ends = np.where(
            self.slope[np.where(z < 0, 0, -1)] < 1, np.inf, -np.inf
        )  # as the straight continuation says
        return np.asarray(np.where(np.isfinite(z), density, ends))[()]

    def quantile(self, p: Array) -> Array:
        """The inverse of ``cdf``, to rounding."""
        from scipy.special import ndtr, ndtri

        u = np.asarray(ndtri(p)) - self.origin
        place = np.clip(np.searchsorted(self.u, u) - 1, 0, len(self.u) - 2)
        low, high = self.w[place], self.w[place + 1]
        for _ in range(60):
            middle = (low + high) / 2
            below = self._at(middle)[0] < u
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        w = (low + high) / 2
        w = np.where(u < self.u[0], self.w[0] + (u - self.u[0]) / self.slope[0], w)
        w = np.where(u > self.u[-1], self.w[-1] + (u - self.u[-1]) / self.slope[-1], w)
        return np.asarray(ndtr(self.centre + w))[()]

    def stderr_at(self, g: Array) -> Array:
        """Standard error of ``cdf``."""
        from scipy.special import ndtri

        return np.asarray(np.interp(ndtri(g) - self.centre, self.w, self.stderr))[()]

    def _at(self, w: Array) -> tuple[Array, Array]:
        """U and du/dw by cubic Hermite interpolation, straight beyond the ends."""
        inside = np.clip(w, self.w[0], self.w[-1])
        place = np.clip(((inside - self.w[0]) / (self.w[1] - self.w[0])).astype(np.intp), 0, len(self.w) - 2)
        u, slope = _hermite(inside, self.w, self.u, self.slope, place)
        beyond = w - inside
        with np.errstate(invalid="ignore"):
            return np.where(beyond == 0, u, u + beyond * slope), slope


def tabulate(root_gamma: float, labels: int, *, draws: int | None = None, seed: int = 0) -> MarginalTable:
    """Average over shapes of the rivals.

    Args:
        root_gamma: √γ, positive and finite.
        labels: M, at least 2.
        draws: Shapes; by default 2,048, fewer where draws · labels would exceed 10⁶ (many rivals average
            themselves).
        seed: Names the draws.
    """
    from scipy.special import ndtr, ndtri

    solved = min(max(root_gamma, _SMALL), _LARGE)
    narrower, flatter = min(1.0, root_gamma / _SMALL), min(1.0, _LARGE / root_gamma)
    count = max(64, min(2048, 1_000_000 // labels)) if draws is None else draws
    shapes = np.random.default_rng(seed).standard_normal((count, labels - 1))
    shapes = solved * (shapes - shapes.mean(axis=1, keepdims=True))
    spread = solved * np.sqrt(labels / (labels - 1))
    parts = [_tabulate_shape(rows, spread) for rows in np.array_split(shapes, max(1, count // 64))]
    leads, probits, slopes = (np.concatenate([part[i] for part in parts]) for i in range(3))

    w = np.linspace(max(-_EDGE, probits[:, 0].min()), min(_EDGE, probits[:, -1].max()), _NODES)
    scaled = np.empty((count, _NODES))  # d/s where H_r(d) = Φ(w)
    rates = np.empty((count, _NODES))  # its derivative by w
    for row in range(count):
        place = np.clip(np.searchsorted(probits[row], w) - 1, 0, _LEADS - 2)
        inside = np.clip(w, probits[row, 0], probits[row, -1])
        lead, rate = _hermite(inside, probits[row], leads[row], 1 / slopes[row], place)
        scaled[row], rates[row] = (lead + (w - inside) * rate) / spread, rate / spread
    with np.errstate(under="ignore"):
        below, above = ndtr(scaled), ndtr(-scaled)
        density = (np.exp(-0.5 * scaled * scaled) * rates).mean(axis=0)
        u = np.where(below.mean(axis=0) < 0.5, ndtri(below.mean(axis=0)), -ndtri(above.mean(axis=0)))
        slope = density / np.exp(-0.5 * u * u)
    centre = float(ndtri(1 / labels)) if root_gamma < _SMALL else 0.0
    origin = float(u[_NODES // 2]) if root_gamma > _LARGE else 0.0
    return MarginalTable(
        centre,
        (w - centre) * narrower,
        (u - origin) * flatter,
        slope * flatter / narrower,
        below.std(axis=0, ddof=1) / np.sqrt(count),
        count,
        origin,
    )


def _tabulate_shape(shapes: Array, spread: float) -> tuple[Array, Array, Array]:
    """For each shape: leads d, probits of H_r(d) and their derivatives, where H_r moves and d may lie."""
    from scipy.special import log_ndtr, ndtri

    greatest = shapes.max(axis=1, keepdims=True)
    behind = shapes - greatest
    levels = np.arange(-9.0, 10.0, _STEP)
    log_product = np.stack(
        [log_ndtr(level - behind).sum(axis=1) for level in levels], axis=1
    )  # (draw, level)
    product, missing = np.exp(log_product), -np.expm1(log_product)
    low = np.maximum(-9 * spread - greatest, -12.0)
    high = np.maximum(np.minimum(9 * spread - greatest, 14.0), low + min(spread, 1.0))  # never empty
    ahead = low + (high - low) * np.linspace(0, 1, _LEADS)  # lead over the greatest rival, (draw, lead)
    weight = _STEP / np.sqrt(2 * np.pi)
    distance = levels - ahead[:, :, None]  # (draw, lead, level)
    with np.errstate(under="ignore"):
        bell = weight * np.exp(-0.5 * distance * distance)
        wins = np.einsum("dal,dl->da", bell, product)
        fails = np.einsum("dal,dl->da", bell, missing)
        rise = np.einsum("dal,dl->da", bell * distance, product)
        fall = np.einsum("dal,dl->da", bell * distance, missing)
        left = ahead < 0.5  # either integral is cut off by the ends of the levels on the other side
        probit = np.where(left, ndtri(wins.clip(0, 1)), -ndtri(fails.clip(0, 1)))
        slope = np.where(left, rise, -fall) * np.sqrt(2 * np.pi) / np.exp(-0.5 * probit * probit)
    return greatest + ahead, probit, slope


def _hermite(
    x: Array, nodes: Array, values: Array, slopes: Array, place: NDArray[np.intp]
) -> tuple[Array, Array]:
    """Cubic Hermite interpolation in the intervals ``place``, and its derivative."""
    width = nodes[place + 1] - nodes[place]
    t = (x - nodes[place]) / width
    rise = values[place + 1] - values[place]
    left, right = slopes[place] * width, slopes[place + 1] * width
    square, cubic = 3 * rise - 2 * left - right, left + right - 2 * rise
    value = values[place] + t * (left + t * (square + t * cubic))
    return value, (left + t * (2 * square + 3 * t * cubic)) / width
