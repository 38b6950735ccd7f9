"""What is said of measured guesses: it follows from the counts, and it can fail."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from firstlight.measurement.measuring import measure
from firstlight.models.guessing_cnns import cnn_a
from firstlight.papers.igb.guesses_on_pictures import (
    VARIANTS,
    bias_statement,
    difference_statement,
    even_statement,
    mean_max,
    measured_guesses,
    statements_of_variants,
    variant_of,
)
from firstlight.papers.work import Work
from firstlight.results.guesses import Guesses


@pytest.fixture
def work(tmp_path, seed) -> Work:
    return Work("igb/fig1", {"inits": 12}, seed, tmp_path / "fig", shared=tmp_path / "shared")


def measured(factory, seed, *, inits=40, samples=50):
    points = torch.randn(samples, 20, generator=torch.Generator().manual_seed(seed))
    return measure(
        factory,
        points,
        inits=inits,
        seed=seed,
        quantities=["guesses", "gamma"],
        layers="output",
        progress=False,
    )


def biased():
    return nn.Sequential(nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 100), nn.ReLU(), nn.Linear(100, 2))


def neutral():
    return nn.Linear(20, 2, bias=False)


def counted(*counts):
    """What the statements read of a profile whose initializations gave these counts."""
    return SimpleNamespace(guesses=Guesses.from_counts(np.array(counts)))


def test_statements_fail_where_the_networks_are_otherwise():
    even = counted(*[(25, 25), (28, 22), (22, 28), (26, 24), (24, 26)] * 4)
    split = counted(*[(50, 0), (0, 50), (45, 5), (5, 45)] * 5)
    one_sided = counted(*[(1, 49), (0, 50), (3, 47), (0, 50)] * 5)
    assert [bias_statement("", item).agrees for item in (even, split, one_sided)] == [False, True, True]
    assert [even_statement("", item).agrees for item in (even, split, one_sided)] == [True, True, False]
    assert difference_statement("", even, split).agrees
    assert not difference_statement("", split, even).agrees
    assert not difference_statement("", split, split).agrees
    said = {"tanh-avg-pool-measured": even, "relu-max-pool-measured": split}
    assert all(item.agrees for item in statements_of_variants(said, ""))
    turned = {"tanh-avg-pool-measured": split, "relu-max-pool-measured": even}
    assert [item.agrees for item in statements_of_variants(turned, "")] == [True, True, False, False]


def test_numbers_are_those_of_the_counts(seed):
    profile = measured(biased, seed)
    fractions = profile.guesses.fractions.values
    value, error = mean_max(profile)
    assert value == pytest.approx(fractions.max(1).mean())
    assert error == pytest.approx(fractions.max(1).std(ddof=1) / math.sqrt(len(fractions)))
    said = even_statement("", profile)
    assert (said.expected, said.measured) == (0.5, pytest.approx(fractions[:, 0].mean()))


def test_variants_are_the_networks_of_the_paper_in_another_memory_layout(seed):
    pictures = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    for name, choice in VARIANTS.items():
        torch.manual_seed(seed % 2**31)
        plain = cnn_a(**choice)
        torch.manual_seed(seed % 2**31)
        laid_out = variant_of(cnn_a, name, classes=2)()
        torch.testing.assert_close(laid_out(pictures), plain(pictures), rtol=1e-4, atol=1e-4)


def test_the_law_is_that_of_the_measured_gamma_and_is_kept(work, seed):
    two = torch.randn(30, 20, generator=torch.Generator().manual_seed(seed))
    found = measured_guesses(work, {"two": biased}, two)
    assert found["two-law"].law.gamma == pytest.approx(float(found["two-measured"].gamma[-1]))
    assert found["two-law"].samples == 30
    again = measured_guesses(work, {"two": neutral}, two)  # kept: nothing is measured anew
    np.testing.assert_array_equal(again["two-measured"].guesses.counts, found["two-measured"].guesses.counts)


def test_of_more_labels_the_law_is_counted_draws(work, seed):
    points = torch.randn(30, 20, generator=torch.Generator().manual_seed(seed))
    law = measured_guesses(work, {"five": lambda: nn.Linear(20, 5)}, points)["five-law"]
    counts = law.fractions.values * 30
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    spread = law.fractions.values[:, 0].std() / math.sqrt(len(counts))
    assert abs(law.fractions.values[:, 0].mean() - 0.2) < 4 * spread
