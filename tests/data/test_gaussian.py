"""Gaussian blobs and noise: the papers' centres, seeds, and the classes beyond two."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight.data import gaussian_blobs, gaussian_noise
from firstlight.data.gaussian import blob_centers
from firstlight.errors import UsageError


def test_the_papers_sizes():
    train, test = gaussian_blobs(dimensions=2), gaussian_blobs(dimensions=2, train=False)
    assert train.label_counts == {"0": 10_000, "1": 10_000}
    assert test.label_counts == {"0": 500, "1": 500}
    assert gaussian_blobs(samples=3).shape == (1000,)


def test_centres_are_a_distance_two_apart():
    centers = blob_centers(2, 1000)
    np.testing.assert_allclose(centers[0], -1 / np.sqrt(1000))
    np.testing.assert_allclose(centers[1], 1 / np.sqrt(1000))
    assert np.linalg.norm(centers[1] - centers[0]) == pytest.approx(2)


def test_moments_by_class(seed):
    count, dimensions = 4000, 50
    blobs = gaussian_blobs(samples_per_class=count, dimensions=dimensions, seed=seed)
    for label, sign in ((0, -1), (1, 1)):
        values = blobs.inputs[blobs.labels == label].double()
        # Mean over all coordinates: standard error 1/√(count · dimensions). Five of them: chance 6e-7.
        assert values.mean() == pytest.approx(sign / np.sqrt(dimensions), abs=5 / np.sqrt(count * dimensions))
        # Variance of N numbers of a Gaussian: standard error √(2/N).
        assert values.var(0).mean() == pytest.approx(1, abs=5 * np.sqrt(2 / (count * dimensions)))
        covariance = torch.cov(values.T).fill_diagonal_(0)
        # Largest of 1225 entries, each of standard error 1/√count.
        assert covariance.abs().max() < 6 / np.sqrt(count)


def test_a_draw_begins_any_larger_one():
    small, large = gaussian_blobs(samples=7, dimensions=5), gaussian_blobs(samples=20, dimensions=5)
    assert torch.equal(small.inputs, large.inputs[:7])
    assert torch.equal(small.labels, large.labels[:7])


def test_seeds_and_splits_are_independent_draws():
    draws = [
        gaussian_blobs(samples=50, dimensions=20, seed=seed, train=train).inputs.flatten()
        for seed in (0, 1)
        for train in (True, False)
    ]
    correlations = torch.corrcoef(torch.stack(draws)).fill_diagonal_(0)
    # Signal correlation of the shared centres is 1/(d + 1) ≈ 0.048; noise 1/√1000 ≈ 0.032.
    assert correlations.abs().max() < 0.048 + 5 * 0.032


def test_total_count_is_shared_out():
    assert gaussian_blobs(samples=10, dimensions=8, classes=3).label_counts == {"0": 4, "1": 3, "2": 3}


@given(classes=st.integers(2, 24), extra=st.integers(0, 40))
def test_centres_have_one_norm_and_differ(classes, extra):
    dimensions = classes + extra
    centers = blob_centers(classes, dimensions)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1)
    assert len(np.unique(centers, axis=0)) == classes


@given(classes=st.integers(3, 30))
def test_centres_are_orthogonal_where_the_order_divides(classes):
    order = 1 << (classes - 1).bit_length()
    centers = blob_centers(classes, 3 * order)
    np.testing.assert_allclose(centers @ centers.T, np.eye(classes), atol=1e-12)


def test_own_centre():
    np.testing.assert_allclose(np.abs(blob_centers(5, 16, center=0.25)), 0.25)


def test_noise(seed):
    noise = gaussian_noise(2000, 100, mean=3.0, variance=4.0, seed=seed)
    assert noise.inputs.double().mean() == pytest.approx(3, abs=5 * 2 / np.sqrt(200_000))
    assert noise.inputs.double().var() == pytest.approx(4, abs=5 * 4 * np.sqrt(2 / 200_000))
    assert noise.label_counts == {"noise": 2000}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gaussian_blobs(samples=3, samples_per_class=3), "got both; give one"),
        (lambda: gaussian_blobs(samples=0), r"gaussian_blobs\(samples\): expected at least 1, got 0"),
        (lambda: gaussian_blobs(samples=3, dimensions=0), r"\(dimensions\): expected at least 1, got 0"),
        (lambda: gaussian_blobs(samples=3, classes=1), r"\(classes\): expected at least 2, got 1"),
        (
            lambda: gaussian_blobs(samples=3, classes=5, dimensions=4),
            "expected at most 4, the number of dimensions",
        ),
        (lambda: gaussian_noise(0), r"gaussian_noise\(samples\): expected at least 1"),
        (lambda: gaussian_noise(2, 0), r"gaussian_noise\(dimensions\): expected at least 1"),
        (
            lambda: gaussian_noise(2, 2, variance=-1.0),
            r"gaussian_noise\(variance\): expected a number of at least 0",
        ),
        (lambda: gaussian_noise(2, 2, variance=float("nan")), "got nan"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UsageError, match=message):
        make()
