"""Profile: what an untrained network does to signal, noise and gradients, layer by layer, and how it guesses.

Theory and measurement both return it, with the same names on the same axes, so a comparison is a subtraction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Labelled, Variable, variable
from firstlight.results.provenance import Coverage, Provenance
from firstlight.results.quantities import QUANTITIES

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Profile"]


@dataclass(frozen=True, eq=False, repr=False)
class Profile(Labelled):
    """Statistics of an untrained network by layer, with its guesses.

    Every quantity in ``QUANTITIES`` that was computed is an attribute: a ``DataArray`` over ``layer``, in the order in
    which the layers run, the output last. Beside a quantity ``q`` there may be

    - ``log_q``: its natural logarithm, finite where ``q`` itself has outgrown float64;
    - ``q_stderr``: its standard error over initializations (measurement);
    - ``q_median``: the median over initializations of the per-initialization value;
    - ``q_init``: the per-initialization values, ``(init, layer)``.

    ``gamma`` is a ratio of averages (the papers' definition); ``gamma_median`` is the median of the
    per-initialization ratios.
    """

    kind: ClassVar[str] = "profile"

    guesses: Guesses | None = None

    @classmethod
    def from_layers(
        cls,
        layers: Sequence[str],
        quantities: Mapping[str, ArrayLike],
        *,
        provenance: Provenance,
        coverage: Coverage | None = None,
        guesses: Guesses | None = None,
        kinds: Sequence[str] | None = None,
        extra: Mapping[str, Variable] | None = None,
        coordinates: Mapping[str, Variable] | None = None,
    ) -> Profile:
        """Build a profile from arrays over layers.

        Args:
            layers: Addresses in running order, the output last.
            quantities: Arrays of shape (layer,) by name: those of ``QUANTITIES``, their ``log_`` forms (the
                linear form is then added), or ``_stderr``, ``_median`` companions; arrays of shape (init, layer)
                under ``_init`` names.
            provenance: What produced the numbers.
            coverage: What they speak of.
            guesses: The guesses, where the output was reached.
            kinds: Kind of each layer (``"dense"``, ``"norm"`` …), a coordinate.
            extra: Further variables with axes of their own.
            coordinates: Further coordinates.
        """
        arrays: dict[str, Variable] = {}
        for name, values in quantities.items():
            stem = name
            for suffix in ("_stderr", "_median", "_init"):
                stem = stem.removesuffix(suffix)
            stem = stem.removeprefix("log_")
            if stem not in QUANTITIES:
                raise UsageError(
                    f"Profile: {name!r} is no quantity of this project; known: {', '.join(QUANTITIES)}"
                )
            dims = ("init", "layer") if name.endswith("_init") else ("layer",)
            arrays[name] = variable(dims, np.asarray(values, dtype=np.float64))
            linear = name.removeprefix("log_")
            if name.startswith("log_") and linear not in quantities:
                with np.errstate(over="ignore", under="ignore"):
                    arrays[linear] = variable(dims, np.exp(arrays[name].values))
        arrays.update(extra or {})
        labels = {"layer": variable("layer", list(layers)), **(coordinates or {})}
        if kinds is not None:
            labels["kind"] = variable("layer", list(kinds))
        return cls(arrays, labels, provenance, coverage or Coverage(), guesses)

    def quantity(self, name: str) -> xr.DataArray:
        """The quantity of that name over layers; raises with the reason where it was not computed."""
        if name not in self.variables:
            raise CouldNotError(
                f"profile.{name}: not computed by this {self.provenance.engine}; computed: "
                f"{', '.join(sorted(key for key in self.variables if key in QUANTITIES)) or 'nothing'}"
            )
        return self.dataset[name]

    @property
    def layers(self) -> list[str]:
        """Addresses in running order, the output last."""
        return [str(name) for name in self.coordinates["layer"].values]

    @property
    def gamma(self) -> xr.DataArray:
        """γ = C / V."""
        return self.quantity("gamma")

    @property
    def center_variance(self) -> xr.DataArray:
        """C: mean square over units of their centre over the data."""
        return self.quantity("center_variance")

    @property
    def data_variance(self) -> xr.DataArray:
        """V: variance over the data at fixed weights."""
        return self.quantity("data_variance")

    @property
    def mean_square(self) -> xr.DataArray:
        """ν2 = C + V."""
        return self.quantity("mean_square")

    @property
    def kurtosis(self) -> xr.DataArray:
        """μ4 over μ2² (Gaussian: 3)."""
        return self.quantity("kurtosis")

    @property
    def mean_absolute(self) -> xr.DataArray:
        """``ν1(|·|)``."""
        return self.quantity("mean_absolute")

    @property
    def effective_rank(self) -> xr.DataArray:
        """Trace over spectral norm of the covariance of the units."""
        return self.quantity("effective_rank")

    @property
    def noise_variance(self) -> xr.DataArray:
        """Mean square of a first-order perturbation that is 1 at the input."""
        return self.quantity("noise_variance")

    @property
    def noise_effective_rank(self) -> xr.DataArray:
        """Effective rank of that perturbation."""
        return self.quantity("noise_effective_rank")

    @property
    def sensitivity(self) -> xr.DataArray:
        """χ: noise over signal, relative to the input."""
        return self.quantity("sensitivity")

    @property
    def gradient_scale(self) -> xr.DataArray:
        """Mean square gradient with respect to the layer's output."""
        return self.quantity("gradient_scale")

    @property
    def covariance(self) -> xr.DataArray:
        """(layer, sample, sample); dataset theory, on request."""
        if "covariance" not in self.variables:
            raise CouldNotError(
                "profile.covariance: kept by dataset theory on request only; "
                "pass keep_covariance=True to predict(…, data=…)"
            )
        return self.dataset["covariance"]

    def interval(self, name: str, *, level: float = 0.95) -> xr.DataArray:
        """Normal-theory interval over initializations, ``(bound, layer)``; zero width for theory."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise UsageError(f"interval(level): expected a number between 0 and 1, got {level!r}")
        import xarray as xr

        value = self.quantity(name)
        spread = (
            self.dataset[f"{name}_stderr"] if f"{name}_stderr" in self.variables else xr.zeros_like(value)
        )
        reach = float(ndtri(0.5 + level / 2)) * spread
        bound = xr.Variable("bound", ["low", "high"])
        return (
            (value + reach * xr.DataArray([-1.0, 1.0], dims="bound"))
            .assign_coords(bound=bound)
            .transpose("bound", ...)
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row a layer: the quantities with their companions."""
        flat = [name for name, item in self.variables.items() if item.dims == ("layer",)]
        return self.dataset[flat].to_dataframe()

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, guesses included."""
        plain = super().to_dict()
        plain["guesses"] = self.guesses.to_dict() if self.guesses is not None else None
        return plain

    def __repr__(self) -> str:
        from firstlight.results.display import profile_text

        return profile_text(self)

    def _repr_html_(self) -> str:
        from firstlight.results.display import profile_html

        return profile_html(self)
