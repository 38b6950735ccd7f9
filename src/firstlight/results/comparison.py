"""Comparison: two Profiles of one network set side by side, in units of their own uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firstlight.results.labelled import Labelled

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Comparison"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Labelled):
    """How a reference (usually theory) and a measurement differ, layer by layer and in the law of the guesses.

    For every quantity ``q`` that both have: ``q_reference``, ``q_measured``, ``q_stderr`` and ``q_z``, the
    difference in standard errors, over the layers that both name.

    Attributes:
        distance: Kolmogorov–Smirnov distance between the laws of the guesses, or NaN where one of the two has none.
        p_value: Probability of a distance at least this large if the reference is right.
        critical_distance: The distance that a true reference exceeds once in a hundred times.
        compared: What the distance is of: ``"fraction of label 0"`` or ``"largest fraction"``.
        unmatched: Layers that only one of the two names.
    """

    kind: ClassVar[str] = "comparison"

    distance: float = float("nan")
    p_value: float = float("nan")
    critical_distance: float = float("nan")
    compared: str = ""
    unmatched: tuple[str, ...] = ()

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities that both have."""
        return tuple(name.removesuffix("_z") for name in self.variables if name.endswith("_z"))

    def z(self, name: str = "gamma") -> xr.DataArray:
        """Difference in standard errors, by layer."""
        return self[f"{name}_z"]

    @property
    def largest_z(self) -> float:
        """The largest ``|z|`` of γ over the layers."""
        values = np.abs(self.variables["gamma_z"].values) if "gamma_z" in self.variables else np.array([])
        finite = values[np.isfinite(values)]
        return float(finite.max()) if finite.size else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, the distance of the guesses included."""
        guesses = {
            "compared": self.compared,
            "distance": self.distance,
            "p_value": self.p_value,
            "critical_distance": self.critical_distance,
        }
        return {**super().to_dict(), "guesses": guesses, "unmatched": list(self.unmatched)}

    def __repr__(self) -> str:
        lines = [f"<Comparison: {self.provenance.model}>"]
        for name in self.quantities:
            z = self.variables[f"{name}_z"].values
            finite = np.abs(z[np.isfinite(z)])
            if finite.size:
                within = int((finite <= 3).sum())
                lines.append(
                    f"  {name}: {within} of {finite.size} layers within 3 standard errors, "
                    f"largest |z| {finite.max():.2f}"
                )
        if np.isfinite(self.distance):
            lines.append(
                f"  {self.compared}: Kolmogorov–Smirnov distance {self.distance:.4f}, p = {self.p_value:.3g} "
                f"(1 % critical value {self.critical_distance:.4f})"
            )
        if self.unmatched:
            more = " …" if len(self.unmatched) > 6 else ""
            lines.append(f"  in only one of the two: {', '.join(self.unmatched[:6])}{more}")
        lines.extend(f"  {note}" for note in self.provenance.notes)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"
