"""PhaseDiagram: where signals settle in a deep network, over weight variance and bias variance.

Enters: what theory found at each pair (σ_w², σ_b²). Leaves: one noun with axes ``weight_variance`` ×
``bias_variance``, either of which may have length one. Iterating (C, V) to its fixed point gives q* = C +
V, c* = C/(C + V) and γ* = c*/(1 − c*). The slope χ_1 = σ_w² E φ'(u)² of the correlation map at c = 1 parts
the ordered phase (χ_1 < 1: γ* = ∞, one guess for all inputs) from the chaotic one (χ_1 > 1: γ* finite);
correlations approach c* as exp(−l/ξ_c), ξ_c = −1/log(slope at c*).

Poole et al., NeurIPS 2016; Schoenholz et al., ICLR 2017, where γ = c/(1 − c) is the ratio of variances of
initial guessing bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.labelled import Labelled, Variable, variable
from firstlight.results.provenance import Provenance

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["PHASE_QUANTITIES", "PhaseDiagram"]

PHASE_QUANTITIES: dict[str, tuple[str, str]] = {
    "mean_square_star": ("q*", "mean square at the fixed point"),
    "correlation_star": ("c*", "correlation of two inputs at the fixed point"),
    "gamma_star": ("γ*", "c*/(1 − c*)"),
    "slope": ("χ_1", "slope of the correlation map at c = 1, σ_w² E φ'(u)²"),
    "correlation_slope": ("χ_c*", "slope of the correlation map at c*"),
    "depth_scale": ("ξ_c", "layers in which the correlation comes e times nearer to c*"),
    "variance_depth_scale": ("ξ_q", "layers in which the mean square comes e times nearer to q*"),
    "regime": (
        "regime",
        "ordered, critical or chaotic; divergent or dead where the mean square has no fixed point that lives",
    ),
    "gamma_at_depth": ("γ(depth)", "γ after the number of layers in the coordinate depth"),
}
"""Symbol and meaning of each variable."""

_AXES = ("weight_variance", "bias_variance")


@dataclass(frozen=True, eq=False, repr=False)
class PhaseDiagram(Labelled):
    """Fixed points, slopes, depth scales and regimes over the variances of weights and biases.

    Each name of ``PHASE_QUANTITIES`` that was computed is an attribute: a ``DataArray`` over
    (weight_variance, bias_variance).
    """

    kind: ClassVar[str] = "phase_diagram"

    def __post_init__(self) -> None:
        super().__post_init__()
        for axis in (*_AXES, "depth"):
            if axis not in self.coordinates:
                raise UsageError(
                    f"PhaseDiagram: expected a coordinate {axis!r}, got {sorted(self.coordinates)}"
                )
        shape = tuple(len(self.coordinates[axis].values) for axis in _AXES)
        for name, item in self.variables.items():
            if item.dims != _AXES or item.values.shape != shape:
                raise UsageError(
                    f"PhaseDiagram({name}): expected shape {shape} over {_AXES}, "
                    f"got {item.values.shape} over {item.dims}"
                )

    @classmethod
    def from_axes(
        cls,
        weight_variance: ArrayLike,
        bias_variance: ArrayLike,
        quantities: Mapping[str, ArrayLike],
        *,
        depth: int,
        provenance: Provenance,
    ) -> PhaseDiagram:
        """Build a diagram from arrays of shape (weight_variance, bias_variance).

        Args:
            weight_variance: Values of σ_w².
            bias_variance: Values of σ_b².
            quantities: Arrays by the names of ``PHASE_QUANTITIES``.
            depth: Layers behind ``gamma_at_depth``.
            provenance: What produced the numbers.
        """
        unknown = [name for name in quantities if name not in PHASE_QUANTITIES]
        if unknown:
            raise UsageError(
                f"PhaseDiagram: {unknown[0]!r} is no quantity of a phase diagram; known: {', '.join(PHASE_QUANTITIES)}"
            )
        coordinates: dict[str, Variable] = {
            "weight_variance": variable("weight_variance", np.atleast_1d(weight_variance)),
            "bias_variance": variable("bias_variance", np.atleast_1d(bias_variance)),
            "depth": variable((), depth),
        }
        arrays = {name: variable(_AXES, values) for name, values in quantities.items()}
        return cls(arrays, coordinates, provenance)

    def quantity(self, name: str) -> xr.DataArray:
        """The quantity of that name over both axes."""
        if name not in self.variables:
            raise CouldNotError(
                f"phase_diagram.{name}: not computed; computed: {', '.join(sorted(self.variables)) or 'nothing'}"
            )
        return self.dataset[name]

    @property
    def depth(self) -> int:
        """The number of layers behind ``gamma_at_depth``."""
        return int(self.coordinates["depth"].values)

    @property
    def mean_square_star(self) -> xr.DataArray:
        """q*."""
        return self.quantity("mean_square_star")

    @property
    def correlation_star(self) -> xr.DataArray:
        """c*."""
        return self.quantity("correlation_star")

    @property
    def gamma_star(self) -> xr.DataArray:
        """γ* = c*/(1 − c*); infinite in the ordered phase."""
        return self.quantity("gamma_star")

    @property
    def slope(self) -> xr.DataArray:
        """χ_1, the slope at c = 1."""
        return self.quantity("slope")

    @property
    def correlation_slope(self) -> xr.DataArray:
        """The slope at c*."""
        return self.quantity("correlation_slope")

    @property
    def depth_scale(self) -> xr.DataArray:
        """ξ_c, in layers."""
        return self.quantity("depth_scale")

    @property
    def variance_depth_scale(self) -> xr.DataArray:
        """ξ_q, in layers."""
        return self.quantity("variance_depth_scale")

    @property
    def regime(self) -> xr.DataArray:
        """Names: ordered, critical, chaotic; divergent or dead where the mean square has no fixed point that lives."""
        return self.quantity("regime")

    @property
    def gamma_at_depth(self) -> xr.DataArray:
        """γ after ``depth`` layers."""
        return self.quantity("gamma_at_depth")

    def __repr__(self) -> str:
        from firstlight.results.display import phase_diagram_text

        return phase_diagram_text(self)

    def _repr_html_(self) -> str:
        from firstlight.results.display import phase_diagram_html

        return phase_diagram_html(self)
