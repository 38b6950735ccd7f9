"""Kinks that are found, kinks that are not there, and functions that are refused."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from firstlight.architecture.activation_discovery import find_kinks
from firstlight.architecture.activations import activation, activation_names
from firstlight.errors import UsageError

Array = NDArray[np.float64]
E = np.e / 10


@pytest.mark.parametrize("name", activation_names())
def test_finds_the_listed_kinks_of_every_registered_activation(name: str) -> None:
    function = activation(name)
    assert find_kinks(function.value) == function.kinks


SMOOTH: dict[str, Callable[[Array], Array]] = {
    "steep": lambda u: np.tanh(1e4 * (u - E)),
    "very steep": lambda u: np.tanh(1e5 * (u - E)),
    "oscillating": lambda u: np.sin(30 * u),
    "bell": lambda u: np.exp(-u * u),
    "resonance": lambda u: 1 / (1 + 1e4 * u * u),
    "growing": np.exp,
    "ninth power": lambda u: u**9,
    "cancelling tail": lambda u: 0.5 * u * (1 + special.erf(u / np.sqrt(2))),
    "constant": lambda u: np.full_like(u, 3.0),
    "zero": np.zeros_like,
    "snake": lambda u: u + np.sin(3 * u) ** 2,
    "single precision": lambda u: np.tanh(u.astype(np.float32)).astype(np.float64),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_have_none(name: str) -> None:
    assert find_kinks(SMOOTH[name]) == ()


KINKED: dict[str, tuple[Callable[[Array], Array], tuple[float, ...]]] = {
    "clamp": (lambda u: np.clip(u, -0.3, 0.7), (-0.3, 0.7)),
    "threshold": (lambda u: np.where(u > 0.37, u, 0.1 * u), (0.37,)),
    "sign": (lambda u: np.sign(u - 0.2), (0.2,)),
    "floor": (lambda u: np.floor(u / 4), tuple(4.0 * k for k in range(-10, 11))),
    "far": (lambda u: np.maximum(u - 33.3, 0), (33.3,)),
    "edge": (lambda u: (u > -39.9).astype(float), (-39.9,)),
    "narrow": (lambda u: np.where(np.abs(u - 3.1) < 0.01, 1.0, 0.0), (3.09, 3.11)),
    "small threshold": (lambda u: np.where(np.abs(u) < 1e-5, 0, u), (-1e-5, 1e-5)),
    "two close": (lambda u: np.abs(u) + np.abs(u - 1e-4), (0.0, 1e-4)),
    "small jump": (lambda u: u + 1e-6 * (u > 0.5), (0.5,)),
    "small bend": (lambda u: np.sin(u) + 1e-6 * np.abs(u - 0.5), (0.5,)),
    "second derivative": (lambda u: np.maximum(u - 0.25, 0) ** 2, (0.25,)),
    "third derivative": (lambda u: np.maximum(u - 0.25, 0) ** 3, (0.25,)),
    "root": (lambda u: np.sqrt(np.abs(u)), (0.0,)),
    "huge": (lambda u: 1e100 * np.maximum(u - 0.25, 0), (0.25,)),
    "tiny": (lambda u: 1e-100 * np.maximum(u - 0.25, 0), (0.25,)),
    "single precision": (
        lambda u: np.maximum(u.astype(np.float32) - np.float32(0.3), 0).astype(np.float64),
        (0.3,),
    ),
    "torch softplus": (lambda u: np.where(u > 20, u, np.log1p(np.exp(np.minimum(u, 20)))), (20.0,)),
}


@pytest.mark.parametrize("name", KINKED)
def test_kinks_are_found_where_they_were_put(name: str) -> None:
    function, expected = KINKED[name]
    found = find_kinks(function)
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("power", [0, 1, 2])
def test_places_that_are_no_round_numbers(power: int) -> None:
    (found,) = find_kinks(lambda u: np.where(u > E, np.abs(u - E) ** power, 0.0))
    assert found == pytest.approx(E, abs=1e-12)


@pytest.mark.parametrize("power", [1.5, 2.5])
def test_fractional_powers_are_broken_where_a_polynomial_no_longer_minds(power: float) -> None:
    (found,) = find_kinks(lambda u: np.abs(u - E) ** power)
    assert abs(found - E) ** power < 1e-8


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-10, 10, allow_subnormal=False),
            st.integers(0, 2),
            st.floats(0.05, 2.0),
            st.sampled_from([-1.0, 1.0]),
        ),
        min_size=1,
        max_size=5,
    ).filter(lambda parts: bool(np.all(np.diff(np.sort([part[0] for part in parts])) > 0.02)))
)
def test_any_few_jumps_bends_and_turns_are_found(parts: list[tuple[float, int, float, float]]) -> None:
    parts = sorted(parts)

    def function(u: Array) -> Array:
        return np.sin(u) + sum(
            sign * size * np.where(u > place, np.abs(u - place) ** power * np.exp(-np.abs(u - place)), 0.0)
            for place, power, size, sign in parts
        )

    found = find_kinks(function)
    assert len(found) == len(parts)
    for got, (place, power, size, _) in zip(found, parts, strict=True):
        # a second derivative is known to about (16²·ε/h²)/jump on pieces of length h ≤ ½, shorter beside a neighbour
        allowed = (1e-12, 1e-12, 1e-9)[power] / min(size, 1.0) ** (power == 2)
        assert abs(got - place) <= allowed * max(1.0, abs(place)), (got, place, power)


@pytest.mark.parametrize(
    "function",
    [
        np.floor,
        lambda u: np.sin(1000 * u),
        lambda u: np.sin(1e7 * u),
        lambda u: np.round(50 * u),
        lambda u: np.random.default_rng(0).normal(size=u.shape),
    ],
    ids=["floor", "fast", "unresolved", "fine steps", "noise"],
)
def test_too_many_kinks_are_refused_with_a_sentence(function: Callable[[Array], Array]) -> None:
    with pytest.raises(
        UsageError, match=r"activation 'stairs': expected at most 64 points .* use a coarser function"
    ):
        find_kinks(function, name="stairs")
