"""Layers by name."""

from __future__ import annotations

import pytest

from firstlight.errors import UsageError
from firstlight.measurement.selecting import chosen

NAMES = ["stem.conv", "stem.norm", "blocks.0.norm", "blocks.1.norm", "head"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["head"], ["head"]),
        (["head", "stem.*"], ["stem.conv", "stem.norm", "head"]),
        (["*.norm", "~blocks.1*"], ["stem.norm", "blocks.0.norm"]),
        (["~*.norm"], ["stem.conv", "head"]),
        ([r"re:^blocks\.\d"], ["blocks.0.norm", "blocks.1.norm"]),
    ],
)
def test_patterns(patterns, expected):
    assert chosen(NAMES, patterns) == expected


def test_a_pattern_that_matches_nothing_names_near_matches():
    with pytest.raises(UsageError, match=r"'stem\.nrm' matches no layer that ran; near matches: stem\.norm"):
        chosen(NAMES, ["stem.nrm"])
    with pytest.raises(UsageError, match=r"matches no layer.*known: stem\.conv, stem\.norm"):
        chosen(NAMES, ["zzzzzz"])


def test_a_broken_expression():
    with pytest.raises(UsageError, match=r"'re:[(]' is no regular expression"):
        chosen(NAMES, ["re:("])
