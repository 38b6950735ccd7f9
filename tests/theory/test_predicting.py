"""Known values of population theory, to six digits and more, and the properties that hold for every network."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firstlight as fl
from firstlight.architecture.activations import activation_names
from firstlight.architecture.layers import Dense, Unmodelled
from firstlight.errors import UsageError
from firstlight.theory.kernels import remembered
from firstlight.theory.predicting import predict

ONE_LAYER = 1 / (math.pi - 1)
NORMED = [(norm, placement) for norm in ("batch", "layer", "rms") for placement in ("before", "after")]


def output_gamma(**arguments: object) -> float:
    return float(predict(fl.Blueprint.mlp(**arguments)).gamma[-1])


def arc_cosine_gamma(depth: int) -> float:
    """γ of He ReLU by iterating the textbook correlation map c → (sin θ + (π − θ) cos θ)/π from c = 0."""
    c = 0.0
    for _ in range(depth):
        angle = math.acos(c)
        c = (math.sin(angle) + (math.pi - angle) * c) / math.pi
    return c / (1 - c)


@pytest.mark.parametrize(
    ("depth", "gamma"), [(1, 0.4669422), (2, 0.9752), (5, 2.7871), (10, 6.7843), (20, 18.3905)]
)
@pytest.mark.parametrize(
    ("norm", "placement"), [(None, None), ("layer", "before"), ("rms", "before"), ("rms", "after")]
)
def test_relu_amplifies_with_depth(depth: int, gamma: float, norm: str | None, placement: str | None) -> None:
    found = output_gamma(depth=depth, norm=norm, placement=placement)
    assert found == pytest.approx(gamma, abs=5.1e-5)  # the digits given
    assert found == pytest.approx(arc_cosine_gamma(depth), rel=1e-11)


@pytest.mark.parametrize("depth", [1, 2, 5, 20, 200])
def test_batch_norm_before_keeps_the_bias_of_one_layer(depth: int) -> None:
    assert output_gamma(depth=depth, norm="batch") == pytest.approx(ONE_LAYER, rel=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 5, 20])
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_norm_after_is_neutral(depth: int, norm: str) -> None:
    assert output_gamma(depth=depth, norm=norm, placement="after") == 0


@pytest.mark.parametrize(
    ("size", "relu", "linear", "digits"),
    [
        (2, 1.041, 0.467, 3),
        (4, 2.429, 2.155, 3),
        (9, 6.187, 6.171, 3),
        (25, 14.941, 14.94, 2),
        (100, 34.099, 34.10, 2),
    ],
)
def test_max_pool_creates_bias(size: int, relu: float, linear: float, digits: int) -> None:
    found = [
        output_gamma(depth=1, width=900, pool=("max", size), activation=name) for name in ("relu", "linear")
    ]
    assert found[0] == pytest.approx(relu, abs=5.1e-4)
    assert found[1] == pytest.approx(linear, abs=5.1 * 10.0 ** -(digits + 1))


@pytest.mark.parametrize(("batch", "gamma"), [(8, 0.5193), (16, 0.4905), (32, 0.4782), (512, 0.4676)])
def test_mini_batch_norm(batch: int, gamma: float) -> None:
    blueprint = fl.Blueprint.mlp(depth=3, norm="batch")
    exact = float(predict(blueprint, batch_size=batch).gamma[-1])
    # E b_+ of the exact law, by Gamma functions
    mean = (
        0.5
        * math.sqrt(batch - 1)
        * math.exp(math.lgamma((batch - 1) / 2) - math.lgamma(batch / 2))
        / math.sqrt(math.pi)
    )
    assert exact == pytest.approx(mean**2 / (0.5 - mean**2), rel=1e-10)
    assert exact == pytest.approx(gamma, abs=5e-5)


@pytest.mark.parametrize(("batch", "gamma"), [(8, 0.391), (16, 0.440), (32, 0.455), (512, 0.466)])
def test_mini_batch_norm_by_the_papers_law(batch: int, gamma: float) -> None:
    blueprint = fl.Blueprint.mlp(depth=3, norm="batch")
    found = float(predict(blueprint, batch_size=batch, batch_law="leave_one_out").gamma[-1])
    assert found == pytest.approx(gamma, abs=6e-4)


def test_a_batch_size_without_batch_norm_is_told_to_change_nothing() -> None:
    plain = predict(fl.Blueprint.mlp(depth=2, norm="layer"), batch_size=8)
    assert np.array_equal(plain.gamma.values, predict(fl.Blueprint.mlp(depth=2, norm="layer")).gamma.values)
    assert any("batch size of 8 changes nothing" in note for note in plain.provenance.notes)


def test_first_layer_sees_the_inputs() -> None:
    profile = predict(
        fl.Blueprint.mlp(depth=1, input_mean=0.5, input_variance=2.0, weight_variance=1.5, bias_variance=0.25)
    )
    assert float(profile.center_variance[0]) == pytest.approx(1.5 * 0.25 + 0.25, rel=1e-14)
    assert float(profile.data_variance[0]) == pytest.approx(3.0, rel=1e-14)


def test_odd_activations_stay_neutral_at_the_first_layer_and_shifted_relu_too() -> None:
    for name in ("tanh", "erf", "sin", "linear", "hardtanh"):
        assert output_gamma(depth=1, activation=name, weight_variance=1.0) == pytest.approx(0, abs=1e-12)
    assert output_gamma(depth=1, activation="shifted_relu", weight_variance=1.0) == pytest.approx(
        0, abs=1e-12
    )


def test_sensitivity_of_batch_norm_grows_by_the_papers_factor() -> None:
    profile = predict(fl.Blueprint.mlp(depth=30, norm="batch"))
    growth = np.diff(profile["log_sensitivity"].values)[1:-1]
    assert growth == pytest.approx(-0.5 * math.log(1 - 1 / math.pi), rel=1e-12)
    activation = profile["sensitivity_increment_activation"].values[2:]
    assert activation == pytest.approx((1 - 1 / math.pi) ** -0.5, rel=1e-12)
    assert profile["sensitivity_increment_norm"].values == pytest.approx(1.0, rel=1e-12)


def test_gradient_slope_is_the_papers() -> None:
    for norm, slope in (("batch", -math.log(1 / (1 - 1 / math.pi))), (None, 0.0)):
        profile = predict(fl.Blueprint.mlp(depth=50, norm=norm, width=300))
        hidden = profile["log_gradient_scale"].values[1:-1]
        assert np.diff(hidden) == pytest.approx(slope, abs=1e-12)


def test_gradient_of_the_output_is_that_of_the_read_out() -> None:
    profile = predict(fl.Blueprint.mlp(depth=2, width=100, classes=10))
    assert float(profile.gradient_scale[-1]) == 1
    # one step back: σ_w² · classes/width · E φ'² = 2 · 0.1 · 0.5
    assert float(profile.gradient_scale[-2]) == pytest.approx(0.1, rel=1e-14)


def test_vanilla_relu_sensitivity_follows_the_data_variance() -> None:
    profile = predict(fl.Blueprint.mlp(depth=50))
    variance = profile.data_variance.values
    assert profile.sensitivity.values == pytest.approx(np.sqrt(2.0 / variance), rel=1e-12)


def assert_finite_in_ten_thousand_layers(activation: str, norm: str | None, placement: str | None) -> None:
    assert_finite(activation, norm, placement, depth=10_000)


def assert_finite(activation: str, norm: str | None, placement: str | None, *, depth: int) -> None:
    profile = predict(fl.Blueprint.mlp(depth=depth, activation=activation, norm=norm, placement=placement))
    for name in ("log_mean_square", "log_noise_variance", "log_gradient_scale", "log_data_variance"):
        assert np.isfinite(profile[name].values).all(), name
    assert not np.isnan(profile["log_gamma"].values).any()


# Their networks wander through many cells of the tables before they settle: 8 to 100 seconds each.
WANDERING = {"selu", "hardswish", "gelu_tanh", "mish", "silu"}


@pytest.mark.parametrize("activation", sorted(set(activation_names()) - WANDERING))
def test_nothing_overflows_in_ten_thousand_layers(activation: str) -> None:
    assert_finite_in_ten_thousand_layers(activation, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("activation", sorted(WANDERING))
def test_nothing_overflows_in_ten_thousand_wandering_layers(activation: str) -> None:
    assert_finite_in_ten_thousand_layers(activation, None, None)


@pytest.mark.parametrize("activation", sorted(WANDERING))
def test_nothing_overflows_in_two_hundred_wandering_layers(activation: str) -> None:
    assert_finite(activation, None, None, depth=200)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize(("norm", "placement"), NORMED)
def test_nothing_overflows_in_ten_thousand_norms(activation: str, norm: str, placement: str) -> None:
    assert_finite_in_ten_thousand_layers(activation, norm, placement)


@pytest.mark.slow
@pytest.mark.parametrize("activation", sorted(set(activation_names()) - {"relu", "tanh"}))
@pytest.mark.parametrize(("norm", "placement"), NORMED)
def test_nothing_overflows_in_ten_thousand_norms_of_any_kind(
    activation: str, norm: str, placement: str
) -> None:
    assert_finite_in_ten_thousand_layers(activation, norm, placement)


@pytest.mark.parametrize(
    ("activation", "weight_variance", "bias_variance"),
    [("elu", 2.0, 0.0), ("hardtanh", 2.0, 0.1), ("softsign", 1.0, 0.05), ("gelu_tanh", 2.0, 0.1)],
)
def test_tables_of_deep_networks_are_as_good_as_quadrature(
    activation: str, weight_variance: float, bias_variance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    depth = 2 * remembered.MANY
    blueprint = fl.Blueprint.mlp(
        depth=depth, activation=activation, weight_variance=weight_variance, bias_variance=bias_variance
    )
    tabled = predict(blueprint)
    monkeypatch.setattr(remembered, "MANY", 10 * depth)
    direct = predict(blueprint)
    # every layer adds at most the tables' error to a logarithm, and a correlation map near its fixed point forgets it
    bound = depth * remembered.INTERPOLATION
    for name in ("log_gamma", "log_mean_square", "log_sensitivity", "log_gradient_scale"):
        assert tabled[name].values[1:] == pytest.approx(direct[name].values[1:], abs=bound), name
    # a central difference of step 1e-4 has to divide their error
    assert tabled["log_mean_square_deviation"].values == pytest.approx(
        direct["log_mean_square_deviation"].values, rel=bound / 1e-4
    )


def test_an_exploding_scale_keeps_its_ratios() -> None:
    profile = predict(fl.Blueprint.mlp(depth=10_000, weight_variance=50.0))
    assert float(profile["log_mean_square"][-1]) > 709
    assert math.isinf(float(profile.mean_square[-1]))
    reference = predict(fl.Blueprint.mlp(depth=10_000))
    assert profile.gamma.values == pytest.approx(reference.gamma.values, rel=1e-9)


def test_ordered_phase_has_a_finite_logarithm_of_gamma() -> None:
    profile = predict(
        fl.Blueprint.mlp(depth=10_000, activation="tanh", weight_variance=0.5, bias_variance=0.1)
    )
    log_gamma = profile["log_gamma"].values
    assert np.isfinite(log_gamma[1:]).all()
    assert log_gamma[-1] > 1000
    assert np.diff(log_gamma[100:]) == pytest.approx(np.diff(log_gamma[100:102])[0], rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    depth=st.integers(1, 6),
    width=st.integers(2, 4000),
    activation=st.sampled_from(["relu", "leaky_relu", "abs", "erf", "gelu", "tanh", "silu", "elu"]),
    norm=st.sampled_from([(None, None), *NORMED]),
    weight=st.floats(1e-3, 1e3),
    bias=st.floats(0, 10),
    mean=st.floats(-5, 5),
    variance=st.floats(1e-3, 1e3),
)
def test_properties(depth, width, activation, norm, weight, bias, mean, variance) -> None:
    arguments = {
        "depth": depth,
        "width": width,
        "activation": activation,
        "norm": norm[0],
        "placement": norm[1],
        "weight_variance": weight,
        "bias_variance": bias,
        "input_mean": mean,
        "input_variance": variance,
    }
    profile = predict(fl.Blueprint.mlp(**arguments))
    center, data, total = (
        profile[name].values for name in ("center_variance", "data_variance", "mean_square")
    )
    assert (center >= 0).all()
    assert (data > 0).all()
    assert center + data == pytest.approx(total, rel=1e-10)
    assert profile.gamma.values == pytest.approx(center / data, rel=1e-10)
    # width enters no second moment of the forward pass
    wider = predict(fl.Blueprint.mlp(**{**arguments, "width": width + 1}))
    assert np.array_equal(wider.gamma.values, profile.gamma.values)
    if norm[0] == "batch" and norm[1] == "after":
        assert float(profile.gamma[-1]) == pytest.approx(bias / weight, rel=1e-10)
    if norm[0] == "layer" and norm[1] == "before" and bias == 0:
        # a norm before the activation forgets the scale of the weights
        rescaled = predict(fl.Blueprint.mlp(**{**arguments, "weight_variance": 1.0}))
        assert rescaled.gamma.values == pytest.approx(profile.gamma.values, rel=1e-8)


def test_residual_stream_adds_up() -> None:
    profile = predict(fl.Blueprint.mlp(depth=4, residual=2, norm="batch", residual_scale=0.5))
    by_name = dict(zip(profile.layers, profile.data_variance.values, strict=True))
    assert profile.layers[-1] == "output"
    sums = [
        name
        for name, kind in zip(profile.layers, profile.coordinates["kind"].values, strict=True)
        if kind == "residual"
    ]
    assert len(sums) == 2
    body = [name for name in profile.layers if name.startswith(f"{sums[0]}.")]
    assert by_name[sums[0]] == pytest.approx(by_name["stem"] + 0.25 * by_name[body[-1]], rel=1e-12)


def test_residual_sensitivity_is_a_power_law_and_not_exponential() -> None:
    units = 200
    profile = predict(fl.Blueprint.mlp(depth=2 * units, residual=units, norm="batch"))
    log_chi = profile["log_sensitivity"].values[profile.coordinates["kind"].values == "residual"]
    # one unit by hand: both BN → ReLU → dense blocks leave variance v and multiply noise by 1/variance
    v, signal, noise = 1 - 1 / math.pi, 2.0, 2.0
    expected = []
    for _ in range(units):
        signal, noise = signal + v, noise + noise / (signal * v)
        expected.append(0.5 * math.log(noise / signal))
    assert log_chi == pytest.approx(expected, rel=1e-10)
    power = (log_chi[-1] - log_chi[99]) / (math.log(units + 2 / v) - math.log(100 + 2 / v))
    assert power == pytest.approx(0.5 * (1 / v**2 - 1), rel=1 / 100)  # corrections fall as 1/units


def test_unmodelled_layers_are_marked_and_what_follows_is_unknown() -> None:
    plain = fl.Blueprint.mlp(depth=2)
    layers = (*plain.layers[:4], Unmodelled("lstm", "LSTM", "recurrence has no rule"), *plain.layers[4:])
    profile = predict(fl.Blueprint(layers=layers, inputs=1000, classes=2))
    assert not np.isnan(profile.gamma.values[0])
    assert np.isnan(profile.gamma.values[-1])
    assert profile.guesses is None
    first, *rest = profile.coverage.missing
    assert (first.layer, first.reason) == ("lstm", "recurrence has no rule")
    assert all("behind lstm" in entry.reason for entry in rest)


def test_an_activation_without_a_dense_layer_is_not_averaged() -> None:
    plain = fl.Blueprint.mlp(depth=1)
    layers = tuple(
        layer for layer in plain.layers if not (isinstance(layer, Dense) and layer.address != "output")
    )
    profile = predict(fl.Blueprint(layers=layers, inputs=1000, classes=2))
    assert "not Gaussian" in profile.coverage.missing[0].reason


def test_guesses_carry_the_law_of_the_output() -> None:
    profile = predict(fl.Blueprint.mlp(depth=5))
    gamma = float(profile.gamma[-1])
    from scipy.stats import norm

    for g in (0.1, 0.5, 0.93):
        assert float(profile.guesses.cdf(g)) == pytest.approx(
            norm.cdf(norm.ppf(g) / math.sqrt(gamma)), rel=1e-12
        )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: predict("relu"), ["predict(blueprint)", "str", "Blueprint.mlp"]),
        (lambda: predict(fl.Blueprint.mlp(depth=1), method="magic"), ["method", "'magic'", "'quadrature'"]),
        (lambda: predict(fl.Blueprint.mlp(depth=1), batch_law="papers"), ["batch_law", "'leave_one_out'"]),
        (lambda: predict(fl.Blueprint.mlp(depth=1, norm="batch"), batch_size=1), ["1"]),
    ],
)
def test_misuse_is_one_sentence(call, words) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)
