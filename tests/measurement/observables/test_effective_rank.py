"""Effective rank against numpy's singular values, from rows, from products, in pieces and merged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from firstlight.measurement.observables import effective_rank


def reference(rows):
    values = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
    return values.sum() / values[0]


def correlated(generator, rows, units):
    return generator.standard_normal((rows, units)) * np.geomspace(1, 0.05, units) + 3


@pytest.mark.parametrize(("rows", "units"), [(5, 40), (40, 40), (41, 40), (900, 40), (30, 600), (2000, 600)])
@pytest.mark.parametrize("pieces", [1, 4])
def test_agrees_with_singular_values(rows, units, pieces, seed):
    values = correlated(np.random.default_rng(seed), rows, units)
    state = effective_rank.init(units)
    for part in np.array_split(values, pieces):
        state = effective_rank.update(state, torch.from_numpy(part))
    assert effective_rank.finalize(state) == pytest.approx(reference(values), rel=1e-6)


@pytest.mark.parametrize(("first", "second"), [(5, 5), (5, 100), (100, 5), (100, 80)])
def test_merge(first, second, seed):
    values = correlated(np.random.default_rng(seed), first + second, 20)
    states = [
        effective_rank.update(effective_rank.init(20), torch.from_numpy(part))
        for part in (values[:first], values[first:])
    ]
    merged = effective_rank.finalize(effective_rank.merge(*states))
    assert merged == pytest.approx(reference(values), rel=1e-9)


def test_float32_rows_far_from_zero(seed):
    values = (correlated(np.random.default_rng(seed), 400, 30) + 1000).astype(np.float32)
    state = effective_rank.update(effective_rank.init(30), torch.from_numpy(values))
    assert effective_rank.finalize(state) == pytest.approx(reference(values.astype(float)), rel=1e-3)


@pytest.mark.parametrize("exponent", [-120, -80, -60, 60, 80, 110])
@pytest.mark.parametrize("rows", [20, 400])
def test_any_scale_that_single_precision_holds(rows, exponent, seed):
    values = correlated(np.random.default_rng(seed), rows, 30).astype(np.float32)
    state = effective_rank.update(effective_rank.init(30), torch.from_numpy(values) * 2.0**exponent)
    assert effective_rank.finalize(state) == pytest.approx(reference(values.astype(float)), rel=1e-5)


def test_one_direction_has_rank_one_and_a_constant_has_none():
    line = torch.outer(torch.arange(10.0), torch.tensor([1.0, -2.0, 0.5]))
    assert effective_rank.finalize(effective_rank.update(effective_rank.init(3), line)) == pytest.approx(1.0)
    constant = effective_rank.update(effective_rank.init(3), torch.ones(10, 3))
    assert np.isnan(effective_rank.finalize(constant))


def test_many_units_keep_no_more_rows_than_the_limit():
    units = effective_rank.UNITS_LIMIT + 1
    state = effective_rank.init(units)
    for _ in range(5):
        state = effective_rank.update(state, torch.zeros(effective_rank.ROWS_LIMIT // 3, units))
    assert state.count == effective_rank.ROWS_LIMIT
    assert state.products is None


@pytest.mark.parametrize(("rows", "units"), [(61, 2300), (900, 500), (2300, 61)])
def test_products_block_by_block(rows, units, seed, monkeypatch):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal((rows, units)))
    monkeypatch.setattr(effective_rank, "_LARGE_PRODUCT", 1)
    torch.testing.assert_close(effective_rank._gram(values), values @ values.T)
