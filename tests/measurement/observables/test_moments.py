"""Streaming moments against numpy in float64, whatever the pieces, the layout and the scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight.measurement.layouts import Planes, Rows
from firstlight.measurement.observables import moments


def reference(values):
    """Values of shape (row, unit), in float64."""
    values = np.asarray(values, dtype=np.float64)
    mean, variance = values.mean(0), values.var(0)
    alive = variance > 0
    fourth = ((values - mean) ** 4).mean(0)
    return {
        "center_variance": (mean**2).mean(),
        "data_variance": variance.mean(),
        "gamma": (mean**2).mean() / variance.mean(),
        "mean_square": (values**2).mean(),
        "kurtosis": (fourth[alive] / variance[alive] ** 2).mean(),
        "mean_absolute": np.abs(values).mean(),
    }


def assert_same(state, values, rtol):
    expected = reference(values)
    got = moments.finalize(state)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=rtol), name


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (5000, 130), (3, 300_000)])
def test_rows_agree_with_numpy(shape, seed):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float() * 3 + 1
    if shape[0] == 1:
        state = moments.update(moments.init(1), Rows(values))
        assert state.m2.item() == 0
        return
    assert_same(moments.update(moments.init(shape[1]), Rows(values)), values, 1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 16), (64, 5, 400), (2, 3, 300_000)])
def test_planes_agree_with_rows(shape, seed):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float() ** 3 - 0.5
    rows = values.transpose(1, 2).reshape(-1, shape[1])
    assert_same(moments.update(moments.init(shape[1]), Planes(values)), rows, 1e-5)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.floats(-6, 6),
)
def test_any_cut_gives_the_same(sizes, seed, log_scale):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal((sum(sizes), 4)) * 10.0**log_scale)
    whole = moments.update(moments.init(4), Rows(values))
    state = moments.init(4)
    for part in values.split(sizes):
        state = moments.update(state, Rows(part))
    for name in ("mean", "m2", "m3", "m4", "absolute"):
        scale = 10.0 ** (log_scale * {"mean": 1, "m2": 2, "m3": 3, "m4": 4, "absolute": 1}[name])
        torch.testing.assert_close(getattr(state, name), getattr(whole, name), rtol=1e-9, atol=1e-9 * scale)


@given(st.integers(0, 2**32 - 1))
def test_merging_is_associative_and_commutes(seed):
    generator = np.random.default_rng(seed)
    parts = [
        torch.from_numpy(generator.standard_normal((generator.integers(1, 20), 3)) + 5) for _ in range(3)
    ]
    a, b, c = (moments.update(moments.init(3), Rows(part)) for part in parts)
    left, right = moments.merge(moments.merge(a, b), c), moments.merge(a, moments.merge(c, b))
    assert left.count == right.count
    for name in ("mean", "m2", "m3", "m4", "absolute"):
        torch.testing.assert_close(getattr(left, name), getattr(right, name), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("ratio", [1e-2, 1e-4, 1e-6])
def test_a_collapsed_signal_keeps_its_variance(ratio, seed):
    """float32 values whose spread is a small part of their mean: V is right to what the values themselves resolve."""
    values = torch.from_numpy(1 + ratio * np.random.default_rng(seed).standard_normal((20_000, 8))).float()
    state = moments.update(moments.init(8), Rows(values))
    expected = values.double().var(0, correction=0).mean().item()
    assert moments.finalize(state)["data_variance"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e-9, 1e9, 1e18, 1e30])
def test_powers_outside_float32(scale, seed):
    values = (torch.from_numpy(np.random.default_rng(seed).standard_normal((500, 3))) * scale).float()
    assert_same(moments.update(moments.init(3), Rows(values)), values.double(), 1e-5)


def test_half_precision_is_reduced_in_float32(seed):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal((5000, 3))).to(torch.bfloat16)
    assert_same(moments.update(moments.init(3), Rows(values)), values.double(), 1e-5)


def test_units_that_never_vary_have_no_kurtosis():
    values = torch.tensor([[1.0, 2.0], [1.0, 4.0]])
    assert moments.finalize(moments.update(moments.init(2), Rows(values)))["kurtosis"] == 1.0
    constant = moments.finalize(moments.update(moments.init(1), Rows(torch.ones(4, 1))))
    assert np.isnan(constant["kurtosis"])
    assert constant["gamma"] == np.inf


def test_order_two_skips_what_it_is_not_asked_for():
    state = moments.update(moments.init(2, order=2), Rows(torch.tensor([[1.0, 2.0], [3.0, 4.0]])))
    values = moments.finalize(state)
    assert values["center_variance"] == pytest.approx(6.5)
    assert "kurtosis" not in values
