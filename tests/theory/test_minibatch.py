"""The mini-batch law against real batch norm, against high-precision integrals and against its own properties."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from firstlight.architecture.activation_registry import lookup, names
from firstlight.architecture.activations import ActivationFunction
from firstlight.errors import CouldNotError, UsageError
from firstlight.theory.minibatch import MinibatchLaw, gamma_ratio

BOTH = ["exact", "leave_one_out"]
TWO_SLOPES = ["relu", "leaky_relu", "abs", "linear", "shifted_relu"]


def gamma_after_relu(law: MinibatchLaw) -> float:
    relu = lookup("relu", {})
    mean, square = law.mean(relu), law.mean_square(relu)
    return mean**2 / (square - mean**2)


@pytest.mark.parametrize(
    ("batch_size", "exact", "leave_one_out"),
    [(8, 0.5193, 0.3913), (16, 0.4905, 0.4395), (32, 0.4782, 0.4549), (512, 0.4676, 0.4663)],
)
def test_bias_of_relu_behind_batch_norm(batch_size, exact, leave_one_out):
    assert gamma_after_relu(MinibatchLaw(batch_size)) == pytest.approx(exact, abs=5e-5)
    assert gamma_after_relu(MinibatchLaw(batch_size, "leave_one_out")) == pytest.approx(
        leave_one_out, abs=5e-5
    )


def test_leave_one_out_bias_is_nine_twenty_thirds_at_eight_points():
    """E ReLU² = ½·B/(B−4) = 1 and E ReLU = ½√8·Γ(5/2)/(√π Γ(3)) = √(9/32), so γ = (9/32)/(23/32)."""
    assert gamma_after_relu(MinibatchLaw(8, "leave_one_out")) == pytest.approx(9 / 23, rel=1e-14)


def normalized_by_torch(batch_size: int, batches: int, seed: int) -> np.ndarray:
    """Values of the first point of many independent batches, each a feature of one BatchNorm1d in train mode."""
    import torch

    values = np.random.default_rng(seed).normal(3.0, 2.0, (batch_size, batches))
    norm = torch.nn.BatchNorm1d(batches, eps=1e-12, affine=False, dtype=torch.float64).train()
    return norm(torch.from_numpy(values)).numpy()  # (sample, batch)


@pytest.mark.parametrize("batch_size", [3, 4, 5, 8, 32, 512])
def test_real_batch_norm_follows_the_exact_law(batch_size):
    first = normalized_by_torch(batch_size, 8_000, seed=batch_size)[0]
    assert stats.kstest(first, MinibatchLaw(batch_size).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("batch_size", "distance"), [(5, 0.11), (8, 0.053)])
def test_real_batch_norm_does_not_follow_the_leave_one_out_law(batch_size, distance):
    first = normalized_by_torch(batch_size, 8_000, seed=batch_size)[0]
    found = stats.kstest(first, MinibatchLaw(batch_size, "leave_one_out").cdf)
    assert found.pvalue < 1e-12
    assert found.statistic == pytest.approx(distance, abs=3 / math.sqrt(8_000))


@pytest.mark.parametrize("batch_size", [4, 8, 32])
def test_leaving_the_point_out_follows_the_other_law(batch_size):
    values = np.random.default_rng(batch_size).normal(-1.0, 0.5, (batch_size, 8_000))
    others = values[1:]
    left_out = (values[0] - others.mean(0)) / others.std(0)
    assert stats.kstest(left_out, MinibatchLaw(batch_size, "leave_one_out").cdf).pvalue > 1e-4
    exact = (values[0] - values.mean(0)) / values.std(0)
    # the same angle twice: sin θ = b/√(B−1), tan θ = b/√B
    np.testing.assert_allclose(left_out, exact * np.sqrt(batch_size / (batch_size - 1 - exact**2)), rtol=1e-9)


def test_two_points_of_one_batch_are_dependent_and_of_two_batches_are_not():
    batch_size, batches = 8, 40_000
    relu = np.maximum(normalized_by_torch(batch_size, batches, seed=1), 0.0)
    angle = math.acos(-1 / (batch_size - 1))
    same_batch = (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
    product = relu[0] * relu[1]
    assert product.mean() == pytest.approx(same_batch, abs=4 * product.std() / math.sqrt(batches))
    mean = MinibatchLaw(batch_size).mean(lookup("relu", {}))
    other = relu[0, :-1] * relu[1, 1:]
    assert other.mean() == pytest.approx(mean**2, abs=4 * other.std() / math.sqrt(batches))
    assert abs(same_batch - mean**2) > 10 * product.std() / math.sqrt(batches)


def test_center_and_data_variance_over_a_data_set_in_many_batches():
    """One real unit over 40,000 batches: its centre and spread over the data, nothing drawn but the data."""
    batch_size, batches = 8, 40_000
    relu = np.maximum(normalized_by_torch(batch_size, batches, seed=2), 0.0)
    law, function = MinibatchLaw(batch_size), lookup("relu", {})
    by_batch = relu.mean(0)  # points of one batch are dependent, so the batch is the unit of replication
    stderr = by_batch.std() / math.sqrt(batches)
    assert relu.mean() == pytest.approx(law.mean(function), abs=4 * stderr)
    squares = np.square(relu).mean(0)
    assert squares.mean() == pytest.approx(
        law.mean_square(function), abs=4 * squares.std() / math.sqrt(batches)
    )


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize("batch_size", [3, 5, 8, 32, 100_000])
def test_samples_follow_the_law(variant, batch_size):
    law = MinibatchLaw(batch_size, variant)
    assert stats.kstest(law.sample(8_000, seed=0), law.cdf).pvalue > 1e-4


def test_two_points_become_plus_and_minus_one():
    law = MinibatchLaw(2)
    values = law.sample(10_000, seed=0)
    assert set(values) == {-1.0, 1.0}
    assert abs(values.mean()) < 4 / math.sqrt(10_000)
    np.testing.assert_array_equal(law.cdf([-1.1, -1.0, 0.0, 1.0, 2.0]), [0.0, 0.5, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(law.quantile([0.1, 0.5, 0.6]), [-1.0, -1.0, 1.0])
    assert law.mean(lookup("softplus", {})) == pytest.approx(
        math.log((1 + math.e) * (1 + 1 / math.e)) / 2, rel=1e-14
    )
    assert law.mean_square(lookup("abs", {})) == law.mean(lookup("abs", {})) ** 2 == 1.0
    with pytest.raises(UsageError, match="batch of 2 leaves only the values −1 and \\+1"):
        law.pdf(0.0)


def test_three_points_give_the_arcsine_law():
    law = MinibatchLaw(3)
    edge = math.sqrt(2)
    inside = np.linspace(-1.4, 1.4, 15)
    np.testing.assert_allclose(law.pdf(inside), stats.arcsine(-edge, 2 * edge).pdf(inside), rtol=1e-12)
    np.testing.assert_allclose(law.cdf(inside), stats.arcsine(-edge, 2 * edge).cdf(inside), rtol=1e-12)
    assert law.pdf([-2.0, 2.0]).tolist() == [0.0, 0.0]
    assert np.all(law.pdf([-edge, edge]) > 1e6)


@pytest.mark.parametrize("batch_size", [3, 4, 5, 8, 33, 512])
def test_density_is_the_beta_law(batch_size):
    law = MinibatchLaw(batch_size)
    b = np.linspace(0.05, 0.99, 20) * law.support[1]
    ratio = b**2 / (batch_size - 1)
    beta = stats.beta(0.5, (batch_size - 2) / 2)
    np.testing.assert_allclose(2 * law.pdf(b), beta.pdf(ratio) * 2 * b / (batch_size - 1), rtol=1e-9)
    np.testing.assert_allclose(2 * law.cdf(-b), beta.sf(ratio), rtol=1e-9)


@pytest.mark.parametrize("batch_size", [3, 4, 5, 8, 33, 512])
def test_leave_one_out_density_is_student_t(batch_size):
    law = MinibatchLaw(batch_size, "leave_one_out")
    student = stats.t(batch_size - 2, scale=math.sqrt(batch_size / (batch_size - 2)))
    b = np.linspace(-30, 30, 61)
    np.testing.assert_allclose(law.pdf(b), student.pdf(b), rtol=1e-10)
    np.testing.assert_allclose(law.cdf(b), student.cdf(b), rtol=1e-10)


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize("batch_size", [3, 5, 8, 1000, 10**6, 10**9])
def test_tail_against_high_precision(variant, batch_size):
    law = MinibatchLaw(batch_size, variant)
    with mpmath.workdps(30):
        size = mpmath.mpf(batch_size)
        density = (
            mpmath.gammaprod([(size - 1) / 2], [(size - 2) / 2])
            if batch_size < 1000
            else mpmath.exp(mpmath.loggamma((size - 1) / 2) - mpmath.loggamma((size - 2) / 2))
        )
        for b in (0.3, 1.2):
            start = (
                mpmath.asin(b / mpmath.sqrt(size - 1))
                if variant == "exact"
                else mpmath.atan(b / mpmath.sqrt(size))
            )
            end = min(mpmath.pi / 2, start + 40 / mpmath.sqrt(size))
            tail = mpmath.quad(lambda t: mpmath.cos(t) ** (batch_size - 3), mpmath.linspace(start, end, 20))
            tail = float(tail * density / mpmath.sqrt(mpmath.pi))
            assert float(law.cdf(-b)) == pytest.approx(tail, rel=1e-12)
            assert float(law.quantile(tail)) == pytest.approx(-b, rel=1e-11)


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize("batch_size", [2, 3, 4, 5, 6, 7, 8, 33, 1000, 10**9])
@pytest.mark.parametrize("name", TWO_SLOPES)
@pytest.mark.parametrize("moment", ["mean", "mean_square", "fourth_moment", "gain"])
def test_closed_form_and_quadrature_agree(variant, batch_size, name, moment):
    if variant == "leave_one_out" and batch_size == 2:
        return
    average = getattr(MinibatchLaw(batch_size, variant), moment)
    function = lookup(name, {})
    closed, numeric = (average(function, method=method) for method in ("closed_form", "quadrature"))
    assert average(function) == closed
    assert numeric == pytest.approx(closed, rel=1e-10)


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize("batch_size", [3, 4, 8, 65])
@pytest.mark.parametrize("name", ["tanh", "gelu", "softplus", "elu", "hardtanh", "hardswish"])
def test_quadrature_against_high_precision(variant, batch_size, name):
    law, function = MinibatchLaw(batch_size, variant), lookup(name, {})
    square = law.mean_square(function)
    grows = name not in ("tanh", "hardtanh")
    if variant == "leave_one_out" and batch_size <= 4 and grows:
        assert square == math.inf
        return
    # an independent route: b = edge·(1 − w²) and tanh–sinh on pieces, or the Student density over pieces of the line
    edge = law.support[1] if variant == "exact" else 4000.0
    cuts = sorted(
        {0.0, 1.0, 3.0, min(edge, 8.0), min(edge, 60.0), edge} - {x for x in (1.0, 3.0) if x > edge}
    )
    total = 0.0
    for low, high in itertools.pairwise(cuts):
        w, weight = np.polynomial.legendre.leggauss(400)
        w, weight = 0.5 * (w + 1), 0.5 * weight
        b = high - (high - low) * w**2
        total += np.sum(
            weight * 2 * w * (high - low) * law.pdf(b) * (function.value(b) ** 2 + function.value(-b) ** 2)
        )
    missing = 2 * float(law.cdf(-edge)) * float(function.value(np.array([edge]))[0]) ** 2
    assert square == pytest.approx(total, rel=max(1e-9, 20 * missing / square))


@pytest.mark.parametrize("name", names())
def test_huge_batches_are_gaussian(name):
    function = lookup(name, {})
    nodes, weights = np.polynomial.legendre.leggauss(300)
    for variant in BOTH:
        law = MinibatchLaw(10**9, variant)
        kinks = [abs(kink) for kink in function.kinks or ()]
        edges = sorted({0.0, 10.0, *kinks})
        total = 0.0
        for low, high in itertools.pairwise(edges):
            z = low + 0.5 * (high - low) * (nodes + 1)
            density = 0.5 * (high - low) * weights * stats.norm.pdf(z)
            total += np.sum(density * (function.value(z) ** 2 + function.value(-z) ** 2))
        assert law.mean_square(function) == pytest.approx(total, rel=5e-8)  # the difference is O(1/B)


def test_approach_to_the_gaussian_is_smooth():
    """E ReLU(b)·√(2π) = 1 − 3/(4B)·… has the same 1/B coefficient from B = 10³ to 10⁸."""
    relu = lookup("relu", {})
    for size in (10**3, 10**4, 10**5, 10**6):
        off = MinibatchLaw(size).mean(relu) * math.sqrt(2 * math.pi) - 1
        half = MinibatchLaw(2 * size).mean(relu) * math.sqrt(2 * math.pi) - 1
        assert off / half == pytest.approx(2, rel=2 / size + 1e-8)
    assert MinibatchLaw(10**9).mean(relu) == pytest.approx(1 / math.sqrt(2 * math.pi), rel=2e-9)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [0.5, 1.0, 2.5, 84.5, 85.0, 86.5, 1e4, 5e8])
def test_ratio_of_gammas(n, steps):
    with mpmath.workdps(40):
        true = mpmath.exp(mpmath.loggamma(mpmath.mpf(n) + mpmath.mpf(steps) / 2) - mpmath.loggamma(n))
        assert abs(gamma_ratio(n, steps) / true - 1) < 4e-15


def test_variance():
    assert [MinibatchLaw(size).variance for size in (2, 3, 8, 10**9)] == pytest.approx([1.0] * 4, rel=1e-14)
    assert MinibatchLaw(8, "leave_one_out").variance == pytest.approx(2.0)
    assert MinibatchLaw(4, "leave_one_out").variance == MinibatchLaw(3, "leave_one_out").variance == math.inf


def test_noise_with_held_statistics():
    assert MinibatchLaw(64).inverse_variance_gain == 64 / 61
    assert MinibatchLaw(3).inverse_variance_gain == MinibatchLaw(2).inverse_variance_gain == math.inf
    assert MinibatchLaw(64, "leave_one_out").inverse_variance_gain == 63 / 60
    assert MinibatchLaw(4, "leave_one_out").inverse_variance_gain == math.inf
    assert MinibatchLaw(10**9).typical_inverse_variance_gain == pytest.approx(1.0, abs=1e-8)

    values = np.random.default_rng(3).standard_normal((12, 40_000))
    inverse = 1 / values.var(0)
    assert inverse.mean() == pytest.approx(12 / 9, abs=4 * inverse.std() / 200)
    log = np.log(inverse)
    typical = math.log(MinibatchLaw(12).typical_inverse_variance_gain)
    assert log.mean() == pytest.approx(typical, abs=4 * log.std() / 200)
    # the noise of a real unit: φ′(b)²/s², where direction and length of a batch are independent for any φ
    tanh = lookup("tanh", {})
    passed = tanh.derivative((values[0] - values.mean(0)) / values.std(0)) ** 2 * inverse
    law = MinibatchLaw(12)
    expected = law.gain(tanh) * law.inverse_variance_gain
    assert passed.mean() == pytest.approx(expected, abs=4 * passed.std() / 200)


def test_a_kink_that_nobody_listed_costs_time_not_accuracy():
    known = ActivationFunction("v", lambda u: np.abs(u - 0.3), lambda u: np.sign(u - 0.3), (0.3,))
    unknown = ActivationFunction("v", lambda u: np.abs(u - 0.3), lambda u: np.sign(u - 0.3), None)
    for variant in BOTH:
        law = MinibatchLaw(9, variant)
        assert law.mean(unknown) == pytest.approx(law.mean(known), rel=1e-11)


def test_heavy_tails_give_infinite_averages():
    law = MinibatchLaw(6, "leave_one_out")
    assert math.isfinite(law.mean_square(lookup("gelu", {})))
    assert law.fourth_moment(lookup("gelu", {})) == math.inf
    assert MinibatchLaw(3, "leave_one_out").mean(lookup("softplus", {})) == math.inf
    assert MinibatchLaw(3, "leave_one_out").mean(lookup("tanh", {})) == 0.0
    with np.errstate(over="ignore"):
        explosive = ActivationFunction("exp", np.exp, np.exp)
        assert MinibatchLaw(100, "leave_one_out").mean(explosive) == math.inf
        assert MinibatchLaw(100).mean(explosive) == pytest.approx(special.hyp0f1(99 / 2, 99 / 4), rel=1e-12)


def test_what_does_not_settle_says_so():
    with pytest.raises(
        CouldNotError, match=r"average of sin over mini-batches of 3 \(leave_one_out\): did not"
    ):
        MinibatchLaw(3, "leave_one_out").mean_square(lookup("sin", {}))


def test_misuse_is_named():
    with pytest.raises(UsageError, match="batch norm of one point is 0 whatever the point"):
        MinibatchLaw(1)
    with pytest.raises(UsageError, match="expected 2 or more, got -4"):
        MinibatchLaw(-4)
    with pytest.raises(UsageError, match=r"expected a whole number, got 8\.5"):
        MinibatchLaw(8.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected 3 or more for the leave-one-out law, got 2"):
        MinibatchLaw(2, "leave_one_out")
    with pytest.raises(
        UsageError, match="expected one of 'exact', 'leave_one_out', got 'exakt'; did you mean 'exact'"
    ):
        MinibatchLaw(8, "exakt")
    with pytest.raises(UsageError, match="expected one of 'auto', 'closed_form', 'quadrature', got 'series'"):
        MinibatchLaw(8).mean(lookup("relu", {}), method="series")
    with pytest.raises(UsageError, match="tanh has no closed form under the mini-batch law"):
        MinibatchLaw(8).mean(lookup("tanh", {}), method="closed_form")
    with pytest.raises(UsageError, match=r"expected probabilities in \[0, 1\], got 1\.5"):
        MinibatchLaw(8).quantile([0.2, 1.5])
    assert MinibatchLaw(np.int64(8)) == MinibatchLaw(8)


LAWS = st.builds(MinibatchLaw, st.integers(3, 10**9), st.sampled_from(BOTH))


@given(LAWS, st.floats(1e-6, 1 - 1e-6))
def test_quantile_inverts_cdf(law, p):
    b = law.quantile(p)
    rounding = 4 * math.ulp(float(b)) * float(law.pdf(b)) / min(p, 1 - p)  # all the ends of the support allow
    assert float(law.cdf(b)) == pytest.approx(p, rel=1e-9 + rounding)
    assert float(law.quantile(1 - p)) == pytest.approx(-float(law.quantile(1 - (1 - p))), rel=1e-9, abs=1e-12)


@given(LAWS, st.lists(st.floats(-50, 50), min_size=2, max_size=20))
def test_cdf_ascends_between_zero_and_one(law, points):
    cdf = law.cdf(sorted(points))
    assert np.all(np.diff(cdf) >= 0)
    assert np.all((cdf >= 0) & (cdf <= 1))
    np.testing.assert_allclose(law.cdf(points) + law.cdf([-x for x in points]), 1.0, rtol=1e-12)
    assert np.all(law.pdf(points) >= 0)


@settings(max_examples=40, deadline=None)
@given(LAWS, st.sampled_from(names()))
def test_moments_obey_their_inequalities(law, name):
    function = lookup(name, {})
    mean, square, fourth = law.mean(function), law.mean_square(function), law.fourth_moment(function)
    assert mean**2 <= square * (1 + 1e-12)
    assert square**2 <= fourth * (1 + 1e-12)


@given(st.integers(2, 10**9))
def test_smaller_batches_bias_relu_more_under_the_exact_law(batch_size):
    full = 1 / (math.pi - 1)
    if batch_size > 2:
        assert gamma_after_relu(MinibatchLaw(batch_size)) > full * (1 - 1e-12)
    assert gamma_after_relu(MinibatchLaw(batch_size)) <= gamma_after_relu(MinibatchLaw(2)) + 1e-12
