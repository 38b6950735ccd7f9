"""Any result as one HTML file that works offline, on a telephone, in the dark, on paper and for a screen reader.

Enters: a noun. Leaves: the page: verdict first, then the pictures, what was found, what it rests on. Style and
script are inlined, nothing is fetched. The script only serves pointing at layers; without it everything is still
there. Every text is escaped by the template engine, and the data of the script are JSON in which ``<`` cannot close
the element.

Pictures are own SVG (``pictures/``), because a plotting library would weigh megabytes, neither print nor follow the
reader's colours, and be silent to screen readers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from firstlight.reporting.document import Document
from firstlight.reporting.documents import document_of
from firstlight.reporting.finding_pages import status_words
from firstlight.reporting.pictures.guessing import GuessPicture, guess_picture, widest_share
from firstlight.reporting.pictures.network import NetworkPicture, network_picture, shared_scales
from firstlight.results.guesses import Guesses
from firstlight.results.profile import Profile

__all__ = ["Column", "html_report"]

_LONG = 40
"""Rows from which a table stays closed on paper."""


@dataclass(frozen=True)
class Column:
    """A network on the page: its document and its pictures."""

    document: Document
    network: NetworkPicture | None
    guessing: GuessPicture | None


def html_report(noun: Any) -> str:
    """The page of a noun, or of several side by side."""
    document = document_of(noun)
    several = isinstance(noun, Sequence)
    nouns = list(noun) if several else [noun]
    pictured = [_profiles(item) for item in nouns]
    documents = document.columns if several else (replace(document, sections=()),)
    return (
        _environment()
        .get_template("report.html")
        .render(
            document=document,
            columns=_columns(documents, pictured),
            several=several,
            status_words=status_words,
            long=_LONG,
            style=Markup(_text("report.css")),
            script=Markup(_text("report.js")),
        )
    )


def _profiles(noun: Any) -> tuple[Profile | None, Profile | None, Guesses | None, Guesses | None]:
    """What there is to draw: profile, theory, guesses, theory's guesses."""
    match getattr(noun, "kind", ""):
        case "diagnosis":
            law = None if noun.theory is None else noun.theory.guesses
            return noun.profile, noun.theory, noun.profile.guesses, law
        case "profile":
            return noun, None, noun.guesses, None
        case "guesses":
            return None, None, noun, None
        case _:
            return None, None, None, None


def _columns(documents: Sequence[Document], pictured: Sequence[tuple[Any, Any, Any, Any]]) -> list[Column]:
    """Pictures on scales that all networks share, so that they can be compared by eye."""
    networks = [
        (profile, theory) for profile, theory, _, _ in pictured if profile is not None and profile.layers
    ]
    scales = shared_scales(networks) if networks else {}
    shares = [item for _, _, measured, law in pictured if measured is not None for item in (measured, law)]
    highest = widest_share(*shares) if shares else None
    return [
        Column(
            document,
            network_picture(profile, theory, scales=scales)
            if profile is not None and profile.layers
            else None,
            None if guesses is None else guess_picture(guesses, law, highest=highest),
        )
        for document, (profile, theory, guesses, law) in zip(documents, pictured, strict=True)
    ]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = _script_json
    environment.filters["percent"] = lambda place: f"{100 * place:.4g}%"
    return environment


def _script_json(value: Any) -> Markup:
    """JSON that cannot close its script element, whatever a layer is called."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _text(name: str) -> str:
    return resources.files("firstlight.reporting").joinpath("templates", name).read_text(encoding="utf-8")
