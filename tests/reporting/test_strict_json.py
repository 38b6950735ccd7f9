"""JSON that any parser reads, without loss."""

from __future__ import annotations

import json
import math

import hypothesis.strategies as st
from hypothesis import given

from firstlight.reporting.strict_json import json_text


def refuse(token: str):
    raise AssertionError(f"{token} is no JSON")


@given(st.recursive(st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_strict_and_loses_nothing(value):
    text = json_text("profile", {"value": value})
    again = json.loads(text, parse_constant=refuse)
    assert again["schema"] == "firstlight/profile"
    assert again["schema_version"] == 1
    assert restored(again["value"]) == comparable(value)


def restored(value):
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value, value)


def comparable(value):
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
