r"""What theory says of networks after data-dependent and orthogonal initialization, against measurement.

- Scale, LSUV, orthogonal: biases are 0 and weights independent of each other but for their scale, so dataset theory
  reads the repaired network as it is.
- Scale and bias: every pre-activation has C = 0 and V = 1, as behind batch norm before the activation; theory centres
  layers that are marked so. With it come the growth of noise by 1/(1 − 1/π) a layer, and the slope
  log(1 − 1/π) = −0.3832 (natural logarithm) of the mean square gradient. On N points that were not looked at, a unit's
  mean differs from that over the M that were by V(1/N + 1/M).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t
from torch import nn

import firstlight as fl
from firstlight import models
from firstlight.architecture.layers import Dense
from firstlight.errors import ModelError
from firstlight.models.kaiming import KaimingLinear
from firstlight.remedies.data_dependent import (
    lsuv_initialization,
    scale_bias_initialization,
    scale_initialization,
)
from firstlight.remedies.orthogonal import orthogonal_initialization

SLOPE = np.log(1 - 1 / np.pi)


def points(samples, seed, *, dimensions=100):
    generator = torch.Generator().manual_seed(seed % 2**31)
    return 0.7 * torch.randn(samples, dimensions, generator=generator) + 0.3


REMEDIES = {
    "scale": scale_initialization,
    "LSUV": lsuv_initialization,
    "orthogonal": lambda model, data: orthogonal_initialization(model),
}


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", REMEDIES)
def test_theory_reads_what_a_remedy_made(name, activation, seed):
    """γ of every hidden layer and of the output, over 24 initializations of 5 layers of 300 units."""
    depth, width, inits = 5, 300, 24
    data = points(200, seed)

    def make():
        return REMEDIES[name](
            models.mlp(100, depth=depth, width=width, classes=100, activation=activation), data
        )[0]

    measured = fl.measure(make, data, inits=inits, seed=seed % 2**31, quantities="gamma", progress=False)
    torch.manual_seed(seed)
    predicted = fl.predict(make(), data=data)
    assert np.isfinite(predicted.gamma.values).all()
    error = measured["gamma_stderr"].values
    tolerance = student_t.ppf(1 - 0.005 / (depth + 1), inits - 1)  # one percent for all layers together
    # A ratio of averages at width N is off by O(depth/N) beside the noise: half of ReLU's 5/N a layer.
    finite = 5 * np.arange(1, depth + 2) / width / 2
    assert np.all(
        np.abs(measured.gamma.values - predicted.gamma.values)
        < tolerance * error + finite * predicted.gamma.values
    )


def deep(width, depth):
    layers = nn.Sequential()
    for number in range(1, depth + 1):
        layers.add_module(f"linear{number}", KaimingLinear(width, width))
        layers.add_module(f"activation{number}", nn.ReLU())
    return layers


def slopes(width, depth, inits, seed, remedy):
    """Of log ⟨(∂L/∂x)²⟩ over the depth, one for each initialization."""
    data = torch.randn(300, width, generator=torch.Generator().manual_seed(seed % 2**31))
    profile = fl.measure(
        lambda: remedy(deep(width, depth), data, in_place=True)[0],
        data,
        inits=inits,
        seed=seed % 2**31,
        quantities=["gamma", "gradient_scale"],
        layers=["activation*"],
        progress=False,
    )
    columns = [profile.layers.index(f"activation{number}") for number in range(1, depth + 1)]
    logs = profile["log_gradient_scale_init"].values[:, columns]
    return np.polyfit(np.arange(1, depth + 1), logs.T, 1)[0]


@pytest.mark.parametrize(
    ("remedy", "expected"), [(scale_bias_initialization, SLOPE), (scale_initialization, 0.0)]
)
def test_slope_of_the_gradient_in_the_limit_of_width(remedy, expected, seed):
    """The slope at width N is s + a/N + …: two widths give s, with its standard error and no tolerance besides."""
    depth, inits = 8, 30
    narrow, wide = (slopes(width, depth, inits, seed, remedy) for width in (200, 400))
    found = 2 * wide.mean() - narrow.mean()
    error = np.sqrt((4 * wide.var(ddof=1) + narrow.var(ddof=1)) / inits)
    assert abs(found - expected) < student_t.ppf(0.995, inits - 1) * error
    assert error < 0.02  # so that 0 and −0.38 are far apart


def test_points_that_were_not_looked_at(seed):
    """γ there is 1/N + 1/M at every depth."""
    looked_at, others = points(250, seed), points(400, seed + 1)
    inits = 20
    profile = fl.measure(
        lambda: scale_bias_initialization(models.mlp(100, depth=4, width=200, classes=50), looked_at)[0],
        others,
        inits=inits,
        seed=seed % 2**31,
        progress=False,
    )
    expected = 1 / 250 + 1 / 400
    # One pair of samples: the mean over coordinates of their squared mean difference has relative sd √(2/100) at the
    # input, and layers behind it see that same difference through their weights.
    assert np.all(
        np.abs(profile.gamma.values / expected - 1) < student_t.ppf(0.995, inits - 1) * np.sqrt(2 / 100)
    )
    assert float(profile.guesses.max.mean()) < 0.2


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_theory_reads_centred_layers_as_centred(activation, seed):
    """C = 0, and V = 1 from the scale of the weights; once biases are drawn anew they are read as draws again."""
    depth, inits = 4, 6
    data = points(200, seed)

    def make():
        net = models.mlp(100, depth=depth, width=300, classes=100, activation=activation)
        return scale_bias_initialization(net, data)[0]

    measured = fl.measure(make, data, inits=inits, seed=seed % 2**31, progress=False)
    profiles = []
    for number in range(inits):
        torch.manual_seed(seed + number)
        profiles.append(fl.predict(make(), data=data))
    predicted = np.array([profile.data_variance.values for profile in profiles])
    assert np.all(np.abs(measured.gamma.values) < 1e-9)
    assert all(np.all(np.abs(profile.gamma.values) < 1e-9) for profile in profiles)
    # Weights that were scaled to make V = 1 exactly are read as σ_w², so theory's V scatters about 1.
    error = predicted.std(0, ddof=1) / np.sqrt(inits)
    tolerance = student_t.ppf(1 - 0.005 / (depth + 1), inits - 1)
    assert np.all(np.abs(predicted.mean(0) - 1) < tolerance * error + 5 * np.arange(1, depth + 2) / 600)
    net = make()
    layers = [layer for layer in fl.Blueprint.read(net).layers if isinstance(layer, Dense)]
    assert len(layers) == depth + 1
    assert all(layer.centered for layer in layers)
    with pytest.raises(ModelError, match="linear1: its biases are minus the means over data"):
        fl.Blueprint.read(net).build(seed=0)
    with torch.no_grad():
        net.linear3.bias.add_(1.0)
    assert [
        layer.address
        for layer in fl.Blueprint.read(net).layers
        if isinstance(layer, Dense) and not layer.centered
    ] == ["linear3"]
    assert float(fl.predict(net, data=data).gamma.sel(layer="linear3")) > 0.5


def test_theory_of_centred_layers_has_the_slope(seed):
    """Population theory of a deep ReLU network whose layers are centred: γ = 0, and log(1 − 1/π) a layer."""
    data = torch.randn(2000, 400, generator=torch.Generator().manual_seed(seed % 2**31))
    torch.manual_seed(seed)
    net, _ = scale_bias_initialization(deep(400, 12), data)
    profile = fl.predict(net)
    assert np.all(profile.gamma.values == 0)
    columns = [profile.layers.index(f"linear{number}") for number in range(2, 13)]
    slope = np.polyfit(np.arange(len(columns)), np.log(profile.gradient_scale.values[columns]), 1)[0]
    # Read from one draw: each layer's σ_w² is 2.93 to some √(2/400) of it, as its data variance was made 1.
    assert abs(slope - SLOPE) < 3 * np.sqrt(2 / 400 / len(columns)) + 5 / 800


def test_centred_convolutions_are_left_to_measurement(seed):
    pictures = torch.randn(20, 3, 8, 8, generator=torch.Generator().manual_seed(seed % 2**31))
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
    net, _ = scale_bias_initialization(net, pictures)
    entry = fl.predict(net, data=pictures).coverage.entries[0]
    assert entry.status == "unmodelled"
    assert "biases that centre each unit on the data have no rule here; measure it" in entry.reason
