"""Gaussian data: the blobs on which the theory is exact, and plain noise.

Enters: sizes and a seed. Leaves: ``Samples``. Two blobs (Francazi et al. 2024, 2026)::

    x ~ N(−μ, I) with label 0,  x ~ N(+μ, I) with label 1,   μ = (1/√d)·(1, …, 1), d = 1000

so that the centres are a distance 2 apart whatever the dimension.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from firstlight.data.samples import Samples
from firstlight.errors import UsageError

__all__ = ["blob_centers", "gaussian_blobs", "gaussian_noise"]


def gaussian_blobs(
    *,
    samples_per_class: int | None = None,
    samples: int | None = None,
    dimensions: int = 1000,
    classes: int = 2,
    center: float | None = None,
    train: bool = True,
    seed: int = 0,
) -> Samples:
    """Draw one unit-variance Gaussian blob for each class.

    Labels run 0, 1, …, 0, 1, … so that any beginning is balanced; n samples begin any larger draw of the same seed.

    Args:
        samples_per_class: Defaults to the papers' 10,000 (500 when ``train=False``).
        samples: Total count instead; the first classes get one more where it does not divide.
        dimensions: d.
        classes: Two as in the papers. For more, see ``blob_centers``.
        center: Size of each coordinate of a centre; defaults to 1/√d.
        train: The training or the test draw of this seed: same centres, independent noise.
        seed: Names the draw.

    >>> blobs = gaussian_blobs(samples=4, dimensions=3)
    >>> blobs.labels.tolist(), blobs.shape
    ([0, 1, 0, 1], (3,))
    """
    if samples is not None and samples_per_class is not None:
        raise UsageError("gaussian_blobs: expected samples or samples_per_class, got both; give one")
    if samples is None:
        per_class = (10_000 if train else 500) if samples_per_class is None else samples_per_class
        samples = per_class * classes
    if samples < 1:
        raise UsageError(f"gaussian_blobs(samples): expected at least 1, got {samples}")
    centers = blob_centers(classes, dimensions, center=center)
    size = float(np.abs(centers[0, 0]))
    labels = np.arange(samples) % classes
    values = _standard_normal(samples, dimensions, seed=seed, stream=0 if train else 1)
    values += centers.astype(np.float32)[labels]
    return Samples.from_tensors(
        torch.from_numpy(values),
        torch.from_numpy(labels),
        label_names=[str(label) for label in range(classes)],
        name="gaussian",
        title=f"Gaussian blobs {'train' if train else 'test'} (seed {seed}, {classes} classes, centres ±{size:.6g})",
    )


def gaussian_noise(
    samples: int = 1000, dimensions: int = 1000, *, mean: float = 0.0, variance: float = 1.0, seed: int = 0
) -> Samples:
    """Draw i.i.d. N(mean, variance) coordinates, all with the label 0 (Luther & Seung take 100 samples of N(0, 1)).

    >>> gaussian_noise(5, 2, mean=3.0, variance=0.0).inputs[0].tolist()
    [3.0, 3.0]
    """
    if samples < 1:
        raise UsageError(f"gaussian_noise(samples): expected at least 1, got {samples}")
    if dimensions < 1:
        raise UsageError(f"gaussian_noise(dimensions): expected at least 1, got {dimensions}")
    if not variance >= 0:
        raise UsageError(f"gaussian_noise(variance): expected a number of at least 0, got {variance}")
    values = _standard_normal(samples, dimensions, seed=seed, stream=0)
    values *= np.float32(np.sqrt(variance))
    values += np.float32(mean)
    return Samples.from_tensors(
        torch.from_numpy(values),
        torch.zeros(samples, dtype=torch.int64),
        label_names=["noise"],
        name="noise",
        title=f"Gaussian noise (mean {mean:g}, variance {variance:g}, seed {seed})",
    )


def blob_centers(classes: int, dimensions: int, *, center: float | None = None) -> NDArray[np.float64]:
    """Centres of the blobs, (label, coordinate).

    Two classes: −c·(1, …, 1) and +c·(1, …, 1). More: c times the rows of a Hadamard matrix, repeated along the
    coordinates. All are then equally far from the origin (c√d) and, where the order of that matrix divides d,
    orthogonal, hence equally far from each other. They depend on no seed, so that training and test data share them.

    >>> blob_centers(4, 4, center=1.0).astype(int).tolist()
    [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    if dimensions < 1:
        raise UsageError(f"gaussian_blobs(dimensions): expected at least 1, got {dimensions}")
    if classes < 2:
        raise UsageError(f"gaussian_blobs(classes): expected at least 2, got {classes}")
    size = 1 / np.sqrt(dimensions) if center is None else center
    if classes == 2:
        return size * np.array([[-1.0], [1.0]]) * np.ones((1, dimensions))
    if classes > dimensions:
        raise UsageError(
            f"gaussian_blobs(classes): expected at most {dimensions}, the number of dimensions, so that the centres "
            f"differ, got {classes}"
        )
    from scipy.linalg import hadamard

    order = 1 << (classes - 1).bit_length()
    rows = hadamard(order, dtype=np.float64)[:classes]
    return np.asarray(size * rows[:, np.arange(dimensions) % order])


def _standard_normal(samples: int, dimensions: int, *, seed: int, stream: int) -> NDArray[np.float32]:
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
    return generator.standard_normal((samples, dimensions), dtype=np.float32)
