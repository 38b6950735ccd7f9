"""Gaussian averages of every named activation against reference/reference.json, which the package had no part in.

The integrals there carry 15 digits and more (``make_reference.py`` says how), at γ from 1e-6 to 1e6 and variances from
1e-6 to 1e4. The required error is 1e-8; relative to the averages themselves, even to B and V where they are tiny.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from firstlight.architecture.activations import activation, activation_names
from firstlight.errors import CouldNotError
from firstlight.theory.kernels.kernel import METHODS, kernel_of

TABLE = json.loads(Path(__file__).with_name("reference").joinpath("reference.json").read_text())
REQUIRED = 1e-8


def rows_of(name: str) -> list[dict[str, float]]:
    columns = TABLE["columns"][1:]
    return [dict(zip(columns, row[1:], strict=True)) for row in TABLE["rows"] if row[0] == name]


def test_the_table_covers_what_was_promised() -> None:
    for name in set(activation_names()) - {"celu"}:  # celu is elu where its parameter is 1
        rows = rows_of(name)
        assert {row["gamma"] for row in rows} == {1e-6, 0.1, 1.0, 1e3, 1e6}, name
        assert {row["q"] for row in rows} >= {1e-6, 1e-2, 1.0, 3.0}, name


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", sorted({row[0] for row in TABLE["rows"]}))
def test_every_method_that_answers_is_right(name: str, method: str) -> None:
    try:
        kernel = kernel_of(activation(name), method=method)
    except CouldNotError:
        assert method == "closed_form"
        return
    for row in rows_of(name):
        q, gamma = row["q"], row["gamma"]
        c, rho = gamma / (1 + gamma), 1 / (1 + gamma)
        try:
            mean, spread_slope, data_slope = kernel.transfer(q, c, rho)
        except CouldNotError:
            assert method == "hermite", (
                row
            )  # the series alone may refuse; whatever else was asked for answers
            continue
        assert mean == pytest.approx(row["mean"], rel=REQUIRED, abs=REQUIRED * math.sqrt(row["mean_square"]))
        assert kernel.mean_square(q) == pytest.approx(row["mean_square"], rel=REQUIRED), row
        assert kernel.gain(q) == pytest.approx(row["gain"], rel=REQUIRED), row
        assert c * q * spread_slope == pytest.approx(row["spread"], rel=REQUIRED), row
        assert rho * q * data_slope == pytest.approx(row["fallen"], rel=REQUIRED), row
