"""Any result as strict JSON under a versioned schema.

Enters: a noun, or what its ``to_dict`` gave. Leaves: one JSON object. Strict means RFC 8259, which knows neither
NaN nor infinities: NaN (not defined, not computed) becomes ``null``, infinities become the strings ``"Infinity"``
and ``"-Infinity"``, because γ = ∞ is an answer. The object opens with ``"schema": "firstlight/<kind>"`` and
``"schema_version"``, which grows when a reader would have to change. A Diagnosis also has ``"report"``: the
sentences and rounded numbers that the other formats show.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from firstlight.reporting.documents import document_of

__all__ = ["JSON_SCHEMA_VERSION", "json_report", "json_text", "strict"]

JSON_SCHEMA_VERSION = 1


def json_report(noun: Any) -> str:
    """A noun as JSON; several side by side as a list under one schema."""
    if isinstance(noun, Sequence) and not isinstance(noun, str):
        document = document_of(noun)
        plain = {"results": [_with_report(item) for item in noun], "report": document.to_dict()}
        return json_text(document.kind, plain)
    return json_text(noun.kind, _with_report(noun))


def json_text(kind: str, plain: Mapping[str, Any]) -> str:
    """Strict JSON of what ``to_dict`` gave, under its schema.

    >>> json_text("profile", {"gamma": [0.5, float("inf"), float("nan")]})
    '{"schema": "firstlight/profile", "schema_version": 1, "gamma": [0.5, "Infinity", null]}'
    """
    head = {"schema": f"firstlight/{kind}", "schema_version": JSON_SCHEMA_VERSION}
    return json.dumps({**head, **strict(plain)}, allow_nan=False, ensure_ascii=False)


def strict(value: Any) -> Any:
    """The value in what JSON can say."""
    match value:
        case Mapping():
            return {str(key): strict(item) for key, item in value.items()}
        case list() | tuple():
            return [strict(item) for item in value]
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def _with_report(noun: Any) -> dict[str, Any]:
    plain = dict(noun.to_dict())
    if noun.kind == "diagnosis":
        plain["report"] = document_of(noun).to_dict()
    return plain
