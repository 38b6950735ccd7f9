from __future__ import annotations

import numpy as np
import pytest

from firstlight.errors import CouldNotError, UsageError
from firstlight.results.labelled import variable
from firstlight.results.phase_diagram import PHASE_QUANTITIES, PhaseDiagram
from firstlight.results.provenance import Provenance

ORIGIN = Provenance("theory", "tanh, no norm", "i.i.d. inputs")


def diagram(**changed: object) -> PhaseDiagram:
    numbers = {
        name: np.arange(6.0).reshape(3, 2) + place
        for place, name in enumerate(PHASE_QUANTITIES)
        if name != "regime"
    }
    numbers["gamma_star"][0, 0] = np.inf
    regime = np.array([["ordered", "ordered"], ["critical", "chaotic"], ["chaotic", "chaotic"]])
    return PhaseDiagram.from_axes(
        [1.0, 1.5, 2.0], [0.0, 0.1], {**numbers, "regime": regime, **changed}, depth=50, provenance=ORIGIN
    )


def test_every_quantity_is_an_attribute_over_both_axes() -> None:
    found = diagram()
    for name in PHASE_QUANTITIES:
        quantity = getattr(found, name)
        assert quantity.dims == ("weight_variance", "bias_variance")
        assert quantity.shape == (3, 2)
    assert found.depth == 50
    assert int(found.gamma_at_depth.depth) == 50
    assert (
        float(found.slope.sel(weight_variance=1.5, bias_variance=0.1))
        == found.variables["slope"].values[1, 1]
    )
    assert found.regime.sel(weight_variance=1.0).values.tolist() == ["ordered", "ordered"]


def test_an_axis_may_have_one_value() -> None:
    found = PhaseDiagram.from_axes(2.0, [0.0, 0.1], {"slope": [[1.0, 2.0]]}, depth=3, provenance=ORIGIN)
    assert found.slope.shape == (1, 2)
    with pytest.raises(CouldNotError, match=r"phase_diagram\.regime: not computed; computed: slope"):
        _ = found.regime
    assert repr(found).startswith("PhaseDiagram by theory: tanh, no norm")


def test_wrong_shapes_and_names_are_refused() -> None:
    with pytest.raises(UsageError, match=r"PhaseDiagram\(slope\): expected shape \(3, 2\).*got \(2, 3\)"):
        diagram(slope=np.ones((2, 3)))
    with pytest.raises(UsageError, match=r"'slop' is no quantity.*slope"):
        diagram(slop=np.ones((3, 2)))
    with pytest.raises(UsageError, match="expected a coordinate 'depth'"):
        PhaseDiagram(
            {}, {axis: variable(axis, [1.0]) for axis in ("weight_variance", "bias_variance")}, ORIGIN
        )


def test_golden_repr() -> None:
    assert repr(diagram()).splitlines() == [
        "PhaseDiagram by theory: tanh, no norm",
        "  σ_w² 1 … 2 (3 values), σ_b² 0 … 0.1 (2 values)",
        "  regime    points    χ_1    γ(50)     γ*     ξ_c",
        "  ordered        2  3 … 4    8 … 9  3 … ∞   5 … 6",
        "  critical       1      5       10      4       7",
        "  chaotic        3  6 … 8  11 … 13  5 … 7  8 … 10",
    ]
