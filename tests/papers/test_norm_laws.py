"""Sections of a decision boundary and laws of batch-normalized values: each against a second way to the same number."""

from __future__ import annotations

import numpy as np
import torch

from firstlight.architecture.blueprint import Blueprint
from firstlight.data.gaussian import gaussian_blobs
from firstlight.papers.norm.batch_normalized_values import law_distance, normalized_values, tail_share
from firstlight.papers.norm.boundary_motion import boundary_motion, section, time_of_half
from firstlight.papers.work import Work
from firstlight.training.recipes import Recipe
from firstlight.training.running import train


def test_in_the_section_the_line_sorts_each_point_as_the_network_does(seed):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(200, 7, generator=generator).relu()
    labels = torch.arange(200) % 2
    normal, bias = torch.randn(7, generator=generator), torch.randn((), generator=generator)
    points, (a, b, c) = section(hidden, labels, normal, bias)
    z = (hidden.double() @ normal.double() + bias.double()).numpy()
    assert np.allclose(points @ [a, b] + c, z)


def test_the_boundary_moves_as_in_a_training_by_the_engine():
    blueprint = Blueprint.mlp(inputs=10, depth=1, width=20)
    data = gaussian_blobs(samples=128, dimensions=10)
    recipe = Recipe(rate=1e-2, batch_size=32, epochs=5)
    motion = boundary_motion(blueprint, data, recipe, runs=[3, 5], seed=2)
    steps = motion.coordinates["step"].values.tolist()
    known = train(blueprint, data, recipe=recipe, runs=[3, 5], seed=2, schedule=steps, progress=False)
    assert np.allclose(motion["recall"].values, known.quantity("recall").values, atol=0.01)
    assert motion["separation"].values[:, -1].min() > motion["separation"].values[:, 0].max()


def test_half_times_of_runs_that_cross_at_once_or_never():
    steps = np.array([0.0, 1, 2])
    values = np.array([[5.0, 6, 7], [0, 0, 0], [0, 0.5, 3]])
    assert time_of_half(steps, values, np.array([5.0, 1, 2])).tolist() == [0, 2, 1.6]


def test_torch_follows_the_exact_law_and_not_that_of_the_paper(tmp_path, seed):
    settings = {"sizes": [5, 64], "batches": 4000}
    results = normalized_values(Work("e", settings, seed % 1000, tmp_path / "e", tmp_path / "shared"))
    for size in (5, 64):
        distance, chance = law_distance(results, size, "exact")
        assert distance < 1.2 * chance  # exceeded once in a thousand times
    distance, chance = law_distance(results, 5, "leave_one_out")
    assert distance > 3 * chance
    assert tail_share(results, 64, 2.0, "exact", "tails").agrees
    assert not tail_share(results, 5, 2.5, "leave_one_out", "tails").agrees
