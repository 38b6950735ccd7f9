"""What ``predict`` takes as data and options: every odd one is answered, or refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from firstlight.architecture.blueprint import Blueprint
from firstlight.errors import DataError, UsageError
from firstlight.theory.predicting import predict

NORMED = [(norm, placement) for norm in ("batch", "layer", "rms") for placement in ("before", "after")]


def points(size: int = 10, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 5))


def blueprint(**more: object) -> Blueprint:
    return Blueprint.mlp(**{"inputs": 5, "depth": 2, **more})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": 0}, "predict(samples): expected at least 2, got 0"),
        ({"samples": -2}, "predict(samples): expected at least 2, got -2"),
        ({"samples": 2.5}, "predict(samples): expected a whole number of at least 2, got 2.5"),
        ({"draws": 0}, "predict(draws): expected at least 1, got 0"),
        ({"draws": 2.5}, "predict(draws): expected a whole number of at least 1, got 2.5"),
        ({"batch_size": 0}, "predict(batch_size): expected at least 2, got 0"),
        ({"batch_size": 2.5}, "predict(batch_size): expected a whole number of at least 2, got 2.5"),
        ({"seed": -1}, "predict(seed): expected at least 0, got -1"),
        ({"seed": "a"}, "predict(seed): expected a whole number of at least 0, got 'a'"),
        ({"width": "finite", "inits": 1.5}, "predict(inits): expected a whole number of at least 2, got 1.5"),
        ({"positions": "all"}, "predict(positions): expected one of 'auto', 'pairs', 'same', got 'all'"),
        ({"memory": -1.0}, "predict(memory): expected a finite number above 0, got -1.0"),
    ],
)
def test_options_without_a_meaning_are_refused_in_one_sentence(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        predict(blueprint(norm="batch"), data=points(), **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.array([["a", "b"], ["c", "d"]]), "expected real numbers, got <U1"),
        (points() + 1j, "expected real numbers, got complex128"),
        (torch.from_numpy(points() + 1j), "expected real numbers, got complex128"),
        ([[1.0, 2.0], [3.0]], "expected real numbers"),
        (np.ma.masked_array(points(), points() > 1), "masked"),
    ],
)
def test_data_that_are_no_numbers_are_refused(data: object, words: str) -> None:
    with pytest.raises(DataError) as caught:
        predict(blueprint(), data=data)
    assert "predict(data)" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.int32])
def test_tensors_of_any_precision_are_read(kind: torch.dtype) -> None:
    data = torch.from_numpy(4 * points()).to(kind)
    found = predict(blueprint(), data=data, draws=10).gamma
    assert np.array_equal(found, predict(blueprint(), data=data.double().numpy(), draws=10).gamma)


@pytest.mark.parametrize(("norm", "placement"), [(None, None), *NORMED])
def test_data_that_are_all_nothing_pass_every_norm(norm: str | None, placement: str | None) -> None:
    profile = predict(blueprint(norm=norm, placement=placement), data=np.zeros((6, 5)), draws=10)
    assert np.isnan(profile.gamma).all()
    assert profile.guesses is None


@pytest.mark.parametrize("name", ["tanh", "softplus", "gelu", "hardtanh"])
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_data_that_are_all_nothing_pass_every_activation(name: str, bias: float) -> None:
    network = Blueprint.mlp(inputs=3, depth=2, width=8, activation=name, bias_variance=bias)
    profile = predict(network, data=np.zeros((20, 3)), draws=20)
    assert not profile.coverage.missing
    assert (profile["data_variance"].values == 0).all()


@pytest.mark.parametrize("size", [2, 3])
def test_batch_norm_of_two_or_three_points_lets_noise_explode(size: int) -> None:
    """One or two directions: E 1/σ² is infinite (χ²₁ and χ²₂ have no mean inverse), and so are noise and gradients."""
    profile = predict(blueprint(norm="batch"), data=points(size), draws=10)
    assert np.isfinite(profile.gamma).all()
    assert np.isposinf(profile.noise_variance[1:]).all()
    assert np.isposinf(profile.gradient_scale[:-1]).all()


@pytest.mark.parametrize("data", [None, points()])
@pytest.mark.parametrize("width", ["infinite", "finite"])
def test_one_output_has_a_profile_and_no_guesses(data: np.ndarray | None, width: str) -> None:
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    given = {} if data is None else {"data": data, "width": width}
    profile = predict(Blueprint.read(module, weight_variance=2.0, bias_variance=0.0), **given)
    assert profile.guesses is None
    assert math.isfinite(float(profile.gamma[-1]))
    assert any("one output" in note for note in profile.provenance.notes)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_finite_width_leaves_out_what_no_pool_fills(kind: str) -> None:
    """Ten units in pools of three: the tenth is left out, as in the module that the blueprint builds."""
    profile = predict(
        blueprint(depth=1, width=10, pool=(kind, 3)), data=points(), width="finite", inits=20, seed=1
    )
    assert np.isfinite(profile.gamma).all()


def test_inputs_beyond_float64_when_squared() -> None:
    far = predict(Blueprint.mlp(depth=1, input_mean=1e200, weight_variance=1.0))
    assert float(far["log_center_variance"][0]) == pytest.approx(400 * math.log(10), rel=1e-14)


def test_an_activation_that_is_nothing_warns_of_nothing() -> None:
    def nothing(u: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(u)

    profile: Callable[..., object] = predict(Blueprint.mlp(depth=2, activation=nothing))
    assert float(profile.mean_square[-1]) == 0
    assert profile.guesses is None
