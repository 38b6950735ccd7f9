"""Products at unequal variances, against integrals that do not use the series."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from firstlight.architecture.activation_registry import names
from firstlight.architecture.activations import activation
from firstlight.theory.kernels.automatic import AutomaticKernel
from firstlight.theory.kernels.kernel import kernel_of

NUMERICAL = [name for name in names() if kernel_of(activation(name)).method == "auto"]


def plain_product(function, q_a, q_b, r):
    """Return E φ(u_a) φ(u_b) by nested adaptive integration that knows the kinks."""
    sigma_a, sigma_b, own = math.sqrt(q_a), math.sqrt(q_b), math.sqrt((1 - r) * (1 + r))
    kinks = [kink for kink in function.kinks or () if kink] + [0.0]

    def value(u):
        return float(function.value(np.array([u]))[0])

    def density(z):
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    def inner(z):
        ends = sorted({-9.0, 9.0, *(min(max((kink / sigma_b - r * z) / own, -9), 9) for kink in kinks)})
        pieces = pairwise(ends)
        f = lambda x: value(sigma_b * (r * z + own * x)) * density(x)  # noqa: E731
        return sum(integrate.fixed_quad(np.vectorize(f), low, high, n=40)[0] for low, high in pieces)

    ends = sorted({-9.0, 9.0, -3.0, 3.0, *(kink / sigma_a for kink in kinks)})
    f = lambda z: value(sigma_a * z) * density(z) * inner(z)  # noqa: E731
    return sum(integrate.fixed_quad(np.vectorize(f), low, high, n=40)[0] for low, high in pairwise(ends))


@pytest.mark.parametrize("name", NUMERICAL)
@pytest.mark.parametrize("r", [-0.8, 0.5])
def test_products_meet_plain_integration(name, r):
    kernel = kernel_of(activation(name))
    size = math.sqrt(kernel.mean_square(0.6) * kernel.mean_square(1.9))
    assert kernel.product(0.6, 1.9, r) == pytest.approx(
        plain_product(kernel.function, 0.6, 1.9, r), abs=1e-6 * size
    )


@pytest.mark.parametrize("name", NUMERICAL)
def test_products_at_one_variance_are_the_transfer(name):
    kernel = kernel_of(activation(name))
    c = np.array([0.0, 0.3, 0.9, 0.999, 1 - 1e-9, 1.0])
    transfer = kernel.transfer(2.0, c, 1 - c)
    expected = transfer.mean**2 + transfer.spread_slope * c * 2.0
    np.testing.assert_allclose(kernel.product(2.0, 2.0, c), expected, rtol=1e-10)


@pytest.mark.parametrize("name", NUMERICAL)
def test_products_at_opposite_points_are_one_dimensional(name):
    kernel = kernel_of(activation(name))
    z = (np.arange(-120_000, 120_000) + 0.5) * 1e-4
    weight = 1e-4 * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    for q_a, q_b, r in ((1.0, 1.0, -1.0), (0.5, 3.0, -1.0), (0.5, 3.0, 1.0)):
        values = kernel.function.value(math.sqrt(q_a) * z), kernel.function.value(r * math.sqrt(q_b) * z)
        size = math.sqrt(kernel.mean_square(q_a) * kernel.mean_square(q_b))
        assert kernel.product(q_a, q_b, r) == pytest.approx(weight @ (values[0] * values[1]), abs=1e-7 * size)


def test_a_gram_matrix_is_elementwise_and_symmetric():
    rng = np.random.default_rng(3)
    points = rng.standard_normal((6, 9)) * np.linspace(0.2, 2, 6)[:, None]
    gram = points @ points.T / 9
    q = np.diag(gram)
    r = np.clip(gram / np.sqrt(np.outer(q, q)), -1, 1)
    np.fill_diagonal(r, 1.0)
    kernel = AutomaticKernel(activation("hardtanh"))
    product = kernel.product(q[:, None], q[None, :], r)
    assert product.shape == (6, 6)
    np.testing.assert_allclose(product, product.T, rtol=1e-12)
    np.testing.assert_allclose(np.diag(product), kernel.mean_square(q), rtol=1e-10)
    assert product[1, 4] == pytest.approx(kernel.product(q[1], q[4], r[1, 4]), rel=1e-11)
    assert np.linalg.eigvalsh(product).min() > 0
