"""A Profile as a Document: where it comes from, its layers, what it says of the guesses.

Enters: a Profile of either engine. Leaves: its Document, and the parts of it that the page of a Diagnosis shows as
well.
"""

from __future__ import annotations

import math

from firstlight.reporting.amounts import as_share, share_with_stderr
from firstlight.reporting.document import Document, KeyNumber, Origin, Section, Table
from firstlight.reporting.layer_tables import cell, layer_table
from firstlight.results.guess_law import regime
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Labelled
from firstlight.results.profile import Profile
from firstlight.results.provenance import Provenance

__all__ = [
    "coverage_section",
    "how_section",
    "key_numbers",
    "origin_of",
    "profile_page",
    "title_of",
]

_REGIMES = {
    "neutral": "no favourite",
    "weak prejudice": "a mild favourite",
    "deep prejudice": "most guesses go to one class",
}
"""What the regimes of γ mean, in a few words."""


def profile_page(profile: Profile) -> Document:
    """The Document of a Profile."""
    sentences = []
    if not profile.coverage.complete:
        sentences.append(repr(profile.coverage))
    if profile.guesses is not None:
        low, middle, high = (as_share(float(part)) for part in profile.guesses.quantile([0.05, 0.5, 0.95]))
        sentences.append(" ".join(repr(profile.guesses)[1:-1].split()))
        sentences.append(
            f"share of one label over initializations: 5 % below {low}, half below {middle}, 5 % above {high}"
        )
    return Document(
        profile.kind,
        title_of(profile.provenance),
        origin_of(profile),
        key_numbers=key_numbers(profile),
        sections=(Section(tables=(layer_table(profile),), sentences=tuple(sentences)),),
    )


def title_of(origin: Provenance, otherwise: str = "a model without description") -> str:
    """The first line of the model's description."""
    return origin.model.splitlines()[0] if origin.model else otherwise


def origin_of(result: Labelled) -> Origin:
    """Engine, data, initializations and mode, and what a reader should know of them."""
    origin = result.provenance
    lines = [f"{origin.engine}; {origin.data}"]
    if origin.engine == "measurement" and "inits" in origin.settings:
        lines.append(
            f"{origin.settings['inits']:,} initializations by {origin.settings.get('redraw')} (seed {origin.seed}) on "
            f"{origin.settings.get('samples'):,} samples, {origin.mode} mode"
        )
    return Origin(tuple(lines), tuple(origin.notes))


def key_numbers(profile: Profile) -> tuple[KeyNumber, ...]:
    """γ of the output, the favourite's share, sensitivity."""
    found = []
    guesses = profile.guesses
    if guesses is not None:
        ranked = guesses._glance
        found.append(
            KeyNumber(
                "share of the favourite class",
                share_with_stderr(float(ranked.value[0]), float(ranked.stderr[0])),
                f"average over initializations; {_even(guesses)}",
            )
        )
    if "gamma" in profile and profile.layers:
        value = float(profile.variables["gamma"].values[-1])
        named = regime(value) if value >= 0 else ""
        remark = f"{named}: {_REGIMES.get(named, named)}" if named else ""
        found.append(KeyNumber("γ of the output", cell(profile, "gamma", len(profile.layers) - 1), remark))
    if "sensitivity" in profile and profile.layers:
        last = float(profile.variables["sensitivity"].values[-1])
        if not math.isnan(last):
            found.append(
                KeyNumber(
                    "χ of the output",
                    cell(profile, "sensitivity", len(profile.layers) - 1),
                    "how much a small change of the input has grown, relative to the signal",
                )
            )
    return tuple(found)


def _even(guesses: Guesses) -> str:
    even = f"an even split gives {as_share(1 / guesses.labels)}"
    if guesses.samples is None:
        return even
    counted = as_share(guesses.null.mean_max)
    return f"{even}, counted on {guesses.samples:,} samples {counted}"


def coverage_section(profile: Profile, *, heading: str = "What was seen") -> Section:
    """Which layers the numbers speak of, and which they do not."""
    coverage = profile.coverage
    missing = coverage.missing
    seen = len(coverage) - len(missing)
    if not len(coverage):
        return Section(heading, lead=("The result does not say which layers it speaks of.",))
    how = "modelled" if profile.provenance.engine == "theory" else "measured"
    head = f"{seen:,} of {len(coverage):,} layers were {how}."
    rows = tuple((entry.layer or "the model", entry.kind, entry.reason or entry.status) for entry in missing)
    tables = (
        Table(("layer", "kind", "why not"), rows, 3, "layers that the numbers do not speak of", wraps=True),
    )
    return Section(heading, lead=(head,), tables=tables if rows else ())


def how_section(*origins: tuple[str, Provenance]) -> Section:
    """Everything that is needed to get the same numbers again, a column for each result."""
    plain = [(name, _settings(origin)) for name, origin in origins]
    keys = dict.fromkeys(key for _, settings in plain for key in settings)
    rows = tuple((key, *(settings.get(key, "–") for _, settings in plain)) for key in keys)
    notes = tuple(dict.fromkeys(note for _, origin in origins for note in origin.notes))
    table = Table(
        ("", *(name for name, _ in plain)), rows, 1 + len(plain), "settings and versions", wraps=True
    )
    return Section("How it was measured", tables=(table,), sentences=notes, folded=True)


def _settings(origin: Provenance) -> dict[str, str]:
    known = {"model": title_of(origin), "data": origin.data, "mode": origin.mode, "seed": origin.seed}
    every = {**known, **origin.settings}
    shown = {
        key.replace("_", " "): _word(value)
        for key, value in every.items()
        if value is not None and key != "policy"
    }
    return {
        **shown,
        "made": origin.created,
        **{name: str(version) for name, version in origin.versions.items()},
    }


def _word(value: object) -> str:
    match value:
        case list() | tuple():
            shown = ", ".join(str(item) for item in value[:12])
            return f"{shown} … ({len(value)} in all)" if len(value) > 12 else shown
        case int():
            return f"{value:,}" if abs(value) >= 10_000 else str(value)
        case _:
            return str(value)
