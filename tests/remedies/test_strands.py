"""Runs in step, and the fixed points that shared layers are settled at."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from firstlight.remedies.fixed_points import FixedPoint
from firstlight.remedies.strands import Strand


def test_strands_go_on_in_turns():
    seen = []

    def work(name):
        def run(park):
            for number in range(3):
                seen.append((name, number, park((name, number))))

        return run

    strands = [Strand(work(name)) for name in "ab"]
    assert [strand.advance() for strand in strands] == [("a", 0), ("b", 0)]
    for number in (1, 2):
        assert [strand.advance(10 * number) for strand in strands] == [("a", number), ("b", number)]
    assert not any(strand.done for strand in strands)
    assert [strand.advance(30) for strand in strands] == [None, None]
    assert all(strand.done for strand in strands)
    assert seen == [(name, number, 10 * number + 10) for number in range(3) for name in "ab"]


def test_an_error_inside_is_raised_outside():
    def work(park):
        park(1)
        raise KeyError("inside")

    strand = Strand(work)
    assert strand.advance() == 1
    with pytest.raises(KeyError, match="inside"):
        strand.advance()
    assert strand.done
    strand.abandon()


def test_what_is_abandoned_is_unwound():
    unwound = []
    before = threading.active_count()

    def work(park):
        try:
            park(1)
        finally:
            unwound.append(True)

    strand = Strand(work)
    strand.advance()
    assert threading.active_count() == before + 1
    strand.abandon()
    assert unwound == [True]
    assert threading.active_count() == before
    Strand(work).abandon()  # it never began


def test_the_grad_mode_is_that_of_whoever_made_it():
    with torch.no_grad():
        strand = Strand(lambda park: park(torch.is_grad_enabled()))
    assert strand.advance() is False
    strand.abandon()


def test_a_fixed_point_from_which_repetition_runs_away(seed):
    """x = A x + b with an eigenvalue of −3 and one of 0.99."""
    generator = np.random.default_rng(seed)
    basis = np.linalg.qr(generator.standard_normal((4, 4)))[0]
    matrix = basis @ np.diag([-3.0, 0.99, 0.5, 0.1]) @ basis.T
    wanted = generator.uniform(-1, 1, 4)
    constant = wanted - matrix @ wanted
    search, point = FixedPoint(), np.zeros(4)
    for _ in range(12):
        point = search.next(point, matrix @ point + constant)
    np.testing.assert_allclose(point, wanted, atol=1e-6)
    np.testing.assert_array_equal(search.next(wanted, wanted), wanted)


def test_no_step_is_longer_than_allowed():
    search = FixedPoint(longest=0.5)
    np.testing.assert_allclose(search.next(np.zeros(2), np.array([10.0, 5.0])), [0.5, 0.25])
