"""What Labatie's figures share: the diffusion law against simulation, batches, curves by depth, jackknife."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from firstlight.data.samples import Samples
from firstlight.measurement.simulating import simulate
from firstlight.models.pathology_nets import batch_norm_residual_net, vanilla_net
from firstlight.papers.jackknife import bounded, jackknife
from firstlight.papers.moments.diffusion import noise_diffusion, signal_diffusion
from firstlight.papers.moments.fig5 import power_law
from firstlight.papers.moments.simulations import Curve, along, fresh_batches

WIDTH, DEPTH, NETS = 100, 8, 600


def simulated_logs(points: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of ν2(x^l) and μ2(dx^l) over nets, by plain numpy: (net, layer) each; noise is 1 at the input."""
    count, inputs = points.shape
    signals, noises = [], []
    for _ in range(NETS):
        weights = generator.standard_normal((inputs, WIDTH)) / np.sqrt(inputs)
        x, dx = points @ weights, generator.standard_normal((count, inputs)) @ weights
        signal, noise = [], []
        for _ in range(DEPTH):
            weights = generator.standard_normal((WIDTH, WIDTH)) * np.sqrt(2 / WIDTH)
            x, dx = x @ weights, dx @ weights
            dx, x = dx * (x > 0), np.maximum(x, 0)
            signal.append(np.log((x**2).mean()))
            noise.append(np.log((dx**2).mean()))
        signals.append(signal)
        noises.append(noise)
    return np.array(signals), np.array(noises)


@pytest.mark.parametrize("count", [2, 20])
def test_the_diffusion_law_is_what_nets_do(count, seed):
    generator = np.random.default_rng(seed)
    inputs = 500
    points = generator.standard_normal((count, inputs)) + 0.5  # cosines around 0.2
    gram = points @ points.T
    signals, noises = simulated_logs(points, generator)
    for logs, law, own in (
        (signals, signal_diffusion(gram, width=WIDTH, depth=DEPTH), 0.0),
        # The simulated noise is not of mean square 1 exactly, which adds to its logarithm's variance.
        (noises, noise_diffusion(gram, inputs=inputs, width=WIDTH, depth=DEPTH), 2 / (count * inputs)),
    ):
        variance = logs.var(0, ddof=1)
        error = variance * np.sqrt(2 / (NETS - 1))
        # Next order: about 4/N of the law for each of its layers' shares (see figure 2's tolerance).
        np.testing.assert_array_less(np.abs(variance - law - own), 4 * error + 4 * law / WIDTH)
        mean_error = np.sqrt(variance / NETS)
        offset = 0.0 if own else np.log((points**2).mean())
        np.testing.assert_array_less(
            np.abs(logs.mean(0) - offset + (law + own) / 2), 4 * mean_error + 4 * law / WIDTH
        )


def test_points_that_agree_diffuse_as_one():
    law = signal_diffusion(np.ones((3, 3)), width=50, depth=4)
    np.testing.assert_allclose(law, 2 / 50 + 5 / 50 * np.arange(1, 5), rtol=1e-6)


def test_orthogonal_points_diffuse_more_slowly_than_parallel_ones():
    apart, alike = (signal_diffusion(gram, width=50, depth=4) for gram in (np.eye(10), np.ones((10, 10))))
    assert (apart < alike).all()
    noise = noise_diffusion(np.ones((10, 10)), inputs=100, width=50, depth=4)
    assert (noise < alike).all()  # ten noises that differ


def pictures(count: int = 12) -> Samples:
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(0, 256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8)
    values[:, 0, 0, 0] = 7  # a pixel that never changes
    return Samples.from_tensors(values, torch.zeros(count, dtype=torch.int64))


def test_batches_share_no_picture_and_are_standardized_over_themselves():
    dense = list(fresh_batches(pictures(), 3, size=4, seed=1, flatten=True))
    assert [tuple(batch.shape) for batch in dense] == [(4, 192)] * 3
    for batch in dense:
        assert float(batch[:, 0].abs().max()) == 0
        torch.testing.assert_close(batch[:, 1:].mean(0), torch.zeros(191), atol=1e-5, rtol=0)
        torch.testing.assert_close(batch[:, 1:].var(0, correction=0), torch.ones(191), atol=1e-4, rtol=0)
    planes = list(fresh_batches(pictures(), 3, size=4, seed=1, flatten=False))
    for batch in planes:
        torch.testing.assert_close(batch.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    firsts = {tuple(batch[number, 1].flatten().tolist()) for batch in planes for number in range(4)}
    assert len(firsts) == 12


def test_curves_find_their_layers():
    profile = simulate(
        lambda: batch_norm_residual_net(3, units=3, width=4),
        fresh_batches(pictures(), 2, size=6, seed=0, flatten=False),
        quantities=["gamma", "center_variance", "data_variance"],
        layers=["conv0", "unit?", "unit*.branch.conv1"],
    )
    units = along(profile, "data_variance", "unit{}")
    assert units.depths.tolist() == [1, 2, 3]
    column = profile.layers.index("unit2")
    np.testing.assert_array_equal(units.at(2), profile["data_variance_init"].values[:, column])
    assert along(profile, "data_variance", "unit{}.branch.linear1", start=2).depths.tolist() == [2, 3]
    dense = simulate(
        lambda: vanilla_net(192, depth=2, width=4, kernel=None),
        fresh_batches(pictures(), 2, size=6, seed=0, flatten=True),
        quantities=["gamma", "center_variance", "data_variance"],
        layers=["linear*", "activation*"],
    )
    assert along(dense, "gamma", "linear{}", start=0).depths.tolist() == [0, 1, 2]
    assert along(dense, "gamma", "activation{}").mean.shape == (2,)


def test_the_jackknife_of_a_ratio_is_its_delta_method(seed):
    generator = np.random.default_rng(seed)
    above, below = 2 + generator.random(400), 1 + generator.random(400)
    ratio, error = jackknife(lambda chosen: above[chosen].mean() / below[chosen].mean(), 400)
    residual = above - ratio * below
    assert ratio == pytest.approx(above.mean() / below.mean())
    assert error == pytest.approx(residual.std(ddof=1) / below.mean() / 20, rel=0.02)


@pytest.mark.parametrize(
    ("relation", "values", "agrees", "because"),
    [
        (">", [1.0, 1.1, 0.9], True, ""),
        (">", [-1.0, 2.0, 0.5], False, "on the stated side"),
        (">", [-1.0, -1.1, -0.9], False, "so it is"),
        ("<", [-1.0, -1.1, -0.9], True, ""),
        ("<", [1.0, 1.1, 0.9], False, "so it is"),
    ],
)
def test_a_bound_says_why_it_does_not_hold(relation, values, agrees, because):
    stated = bounded("a bound", relation, 0.0, np.array(values), otherwise="so it is")
    assert stated.agrees is agrees
    assert stated.because.startswith(because)
    assert bool(stated.because) is not agrees


def test_a_power_law_is_recognized():
    depths, increment = np.array([1.0, 2.0, 5.0, 10.0, 50.0]), 1.2
    exponent = (increment**4 - 1) / 2
    logs = (
        0.3 + exponent * np.log(depths) + np.array([[0.1], [-0.1]])
    )  # two simulations, one above and one below
    found = power_law(Curve(depths, logs), Curve(depths, np.full((2, 5), increment)))
    assert found == pytest.approx((exponent, 0.3, exponent))
    flatter = power_law(Curve(depths, logs / 2), Curve(depths, np.full((2, 5), increment)))
    assert flatter[0] == pytest.approx(exponent)
    assert flatter[2] == pytest.approx(exponent / 2)
