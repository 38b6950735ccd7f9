"""The quantities of the project: one name, one symbol, one definition for theory and measurement alike.

A statistic of a layer is taken over the data at fixed weights, per unit, and then averaged over units and
initializations. For a unit with values ``u`` over the data, mean ``m`` and central moments ``μ_p``::

    center_variance  C  = ⟨m²⟩            mean square of the units' centres (of pre-activations: their variance)
    data_variance    V  = ⟨μ_2⟩           variance over the data at fixed weights
    gamma            γ  = C / V
    mean_square      ν2 = C + V

``QUANTITIES`` is the registry that the attributes of ``Profile``, the notation page and the reports read.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AXES", "QUANTITIES", "Quantity"]

AXES = ("init", "sample", "layer", "unit", "label", "step")
"""The axis vocabulary, one for the whole project."""


@dataclass(frozen=True)
class Quantity:
    """One statistic of a layer.

    Attributes:
        name: Attribute of ``Profile`` and variable in its dataset.
        symbol: As written in the formulas.
        meaning: One sentence.
        logarithm: Whether ``log_<name>`` is kept beside it because the value outgrows float64 in deep networks.
        papers: The names that the four papers use.
    """

    name: str
    symbol: str
    meaning: str
    logarithm: bool = False
    papers: str = ""


QUANTITIES: dict[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity("gamma", "γ", "ratio of centre variance to data variance", True, "γ(A, χ); (r^l)²; c/(1−c)"),
        Quantity(
            "center_variance",
            "C",
            "mean square over units of the centre over the data",
            True,
            "Var_W(μ_c); (m^l)²; q·c",
        ),
        Quantity(
            "data_variance",
            "V",
            "variance over the data at fixed weights, averaged over units",
            True,
            "Var_χ(O_c); (v^l)²; μ2",
        ),
        Quantity("mean_square", "ν2", "mean square over data and units, C + V", True, "ν2; (σ^l)²; q"),
        Quantity(
            "kurtosis", "μ4", "fourth central moment over the squared variance (Gaussian: 3)", False, "μ4(z)"
        ),
        Quantity("mean_absolute", "ν1(|·|)", "mean absolute value over data and units", False, "ν1(|z|)"),
        Quantity(
            "effective_rank",
            "r_eff",
            "trace over spectral norm of the units' covariance",
            False,
            "r_eff(x^l)",
        ),
        Quantity(
            "noise_variance",
            "μ2(dx)",
            "mean square of a first-order input perturbation, 1 at the input",
            True,
            "μ2(dx^l)",
        ),
        Quantity(
            "noise_effective_rank",
            "r_eff(dx)",
            "effective rank of the propagated perturbation",
            False,
            "r_eff(dx^l)",
        ),
        Quantity(
            "sensitivity",
            "χ",
            "noise over signal, relative to the input: √((μ2(dx)/μ2(x))/(input's))",
            True,
            "χ^l",
        ),
        Quantity("sensitivity_increment", "δχ", "χ of this layer over χ of the layer before", False, "δχ^l"),
        Quantity(
            "sensitivity_increment_norm",
            "δ_norm",
            "the factor of δχ owed to the normalization",
            False,
            "δ_BN χ^l",
        ),
        Quantity(
            "sensitivity_increment_activation",
            "δ_φ",
            "the factor of δχ owed to the activation",
            False,
            "δ_φ χ^l",
        ),
        Quantity(
            "gradient_scale",
            "⟨(∂L/∂u)²⟩",
            "mean square gradient of a random linear read-out of the output",
            True,
            "⟨(∂L/∂x^l)²⟩",
        ),
        Quantity(
            "dead_units",
            "dead",
            "share of units of the activation behind the layer that are constant over all data",
            False,
        ),
    )
}
