"""Mean squares in log scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight.measurement.observables import noise


@given(st.integers(-100, 100), st.integers(-5000, 5000), st.integers(0, 2**32 - 1))
def test_any_scale(inner, outer, seed):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal(50)).float()
    expected = float(np.log((values.double() ** 2).mean().item())) + 2 * (inner + outer) * np.log(2)
    state = noise.update(noise.init(), values * 2.0**inner, outer)
    assert noise.finalize(state) == pytest.approx(expected, abs=1e-5)


def test_no_tangent_counts_as_zeros():
    state = noise.update(noise.update(noise.init(), torch.ones(4)), None, count=4)
    assert noise.finalize(state) == pytest.approx(np.log(0.5))
    assert noise.finalize(noise.update(noise.init(), torch.zeros(3))) == -np.inf


def test_merge_is_the_whole():
    values = torch.arange(1.0, 9.0)
    merged = noise.merge(noise.update(noise.init(), values[:3]), noise.update(noise.init(), values[3:]))
    assert noise.finalize(merged) == pytest.approx(noise.finalize(noise.update(noise.init(), values)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_squared_in_float32(dtype):
    """2⁻¹² squared is below all of float16, and so are squares beyond 2¹⁶."""
    for exponent in (-12, 10):
        state = noise.update(noise.init(), torch.full((5,), 2.0**exponent, dtype=dtype))
        assert noise.finalize(state) == pytest.approx(2 * exponent * np.log(2))
