"""Audit every animal of the zoo with several seeds, and set what was found beside what is there.

    python benchmarks/zoo/run.py --seeds 5 --inits 40       # goes on where it stopped; writes verdicts.json
    python benchmarks/zoo/run.py --table                    # only the tables, from verdicts.json into docs/zoo.md

A verdict counts as found where an audit says so. Of every finding: how often it was there and named (recall), and how
often it was named where it is neither there nor listed as possible (precision). Repeating an audit with another seed
changes a verdict where its status differs from the most frequent one of that network; pairs near a threshold, where the
mean estimate lies within the mean half-width of the intervals, are counted apart.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from case import Case
from faults import FAULTS
from healthy import HEALTHY

import firstlight as fl
from firstlight.diagnosis.checks.every import every_subject

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.json"
PAGE = HERE.parents[1] / "docs" / "zoo.md"
CASES = (*FAULTS, *HEALTHY)


def main() -> None:
    """Audit what is missing, then write the page."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--inits", type=int, default=40)
    arguments.add_argument("--table", action="store_true", help="write the page only")
    options = arguments.parse_args()
    verdicts: dict[str, dict[str, Any]] = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else {}
    if not options.table:
        for seed in range(options.seeds):
            for case in CASES:
                key = f"{case.name} | {options.inits} | {seed}"
                if key not in verdicts:
                    verdicts[key] = audited(case, seed, options.inits)
                    print(key, file=sys.stderr, flush=True)
                    VERDICTS.write_text(_one_line_an_audit(verdicts), encoding="utf-8")
    PAGE.write_text(page(verdicts), encoding="utf-8")


def _one_line_an_audit(verdicts: dict[str, dict[str, Any]]) -> str:
    lines = [f"{json.dumps(key)}: {json.dumps(verdicts[key], sort_keys=True)}" for key in sorted(verdicts)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def audited(case: Case, seed: int, inits: int) -> dict[str, Any]:
    """Status, value, ends and threshold of every finding; the data are the same for every seed."""
    options = {"inits": inits, "theory": False, "progress": False, **case.options}
    diagnosis = fl.audit(case.make, case.data(0), seed=seed, **options)
    return {
        item.id: [
            item.status,
            *(_plain(x) for x in (item.value, item.low, item.high, item.threshold)),
            item.severity,
        ]
        for item in diagnosis
    }


def _plain(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def runs_of(verdicts: dict[str, dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """Its audits, one a seed."""
    return [found for key, found in verdicts.items() if key.startswith(f"{case.name} | ")]


def page(verdicts: dict[str, dict[str, Any]]) -> str:
    """The page of the documentation."""
    known = [case for case in CASES if runs_of(verdicts, case)]
    audits = sum(len(runs_of(verdicts, case)) for case in known)
    rows = [row for row in (_finding_row(name, known, verdicts) for name in every_subject()) if row]
    stable, near = _changes(known, verdicts)
    failed = [
        (case.name, name)
        for case in known
        if case.healthy
        for run in runs_of(verdicts, case)
        for name, (status, *_, severity) in run.items()
        if status == "found" and severity == "fail"
    ]
    seeds = len({key.rsplit(" | ", 1)[1] for key in verdicts})
    inits = sorted({int(key.rsplit(" | ", 2)[1]) for key in verdicts})
    lines = [
        "# The zoo: are planted faults named?",
        "",
        "Written by `benchmarks/zoo/run.py`; edit that program, not this page.",
        "",
        f"{sum(not case.healthy for case in known)} networks that were broken on purpose and "
        f"{sum(case.healthy for case in known)} healthy ones, each audited with {seeds} seeds of "
        f"{', '.join(map(str, inits))} initializations: {audits} audits.",
        "",
        f"- Healthy networks that failed under the default policy: **{len(failed)}**"
        + (f" ({'; '.join(f'{name}: {what}' for name, what in failed)})" if failed else "")
        + ".",
        f"- Verdicts that another seed changes, away from thresholds: **{_share(*stable)}** "
        f"({stable[0]} of {stable[1]}); near a threshold: {_share(*near)} ({near[0]} of {near[1]}). Near: the mean "
        "estimate lies within the mean half-width of the intervals of the threshold.",
        "",
        "## By finding",
        "",
        "There: (network, seed) pairs that have it by construction or by theory. Named: those of them in which it was "
        "found; the others were undecided or missed. False: found in a network where it neither is nor may be.",
        "",
        "| finding | there | named | undecided | false | recall | precision |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "## By network",
        "",
        "| network | has | always named | otherwise |",
        "|---|---|---|---|",
        *(_network_row(case, runs_of(verdicts, case)) for case in known),
    ]
    return "\n".join(lines) + "\n"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _finding_row(name: str, cases: list[Case], verdicts: dict[str, dict[str, Any]]) -> str:
    counts: Counter[str] = Counter()
    for case in cases:
        for run in runs_of(verdicts, case):
            status = run[name][0]
            if name in case.has:
                counts["there"] += 1
                counts["named"] += status == "found"
                counts["undecided"] += status == "undecided"
            elif name not in case.may and name != "few-initializations":
                counts["false"] += status == "found"
    if not counts["there"] and not counts["false"]:
        return ""
    found = counts["named"] + counts["false"]
    return (
        f"| `{name}` | {counts['there']} | {counts['named']} | {counts['undecided']} | {counts['false']} "
        f"| {_share(counts['named'], counts['there'])} | {_share(counts['named'], found)} |"
    )


def _network_row(case: Case, runs: list[dict[str, Any]]) -> str:
    always = [name for name in case.has if all(run[name][0] == "found" for run in runs)]
    otherwise: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for name, (status, *_) in run.items():
            unwanted = status == "found" and name not in case.has and name not in case.may
            if (name in case.has and name not in always) or unwanted:
                otherwise[name][status] += 1
    words = [
        f"`{name}` " + ", ".join(f"{status} {count}×" for status, count in found.items())
        for name, found in otherwise.items()
    ]
    title = f"{case.name} (healthy)" if case.healthy else case.name
    listed = ", ".join(f"`{name}`" for name in case.has) or "–"
    named = "all" if len(always) == len(case.has) else ", ".join(f"`{name}`" for name in always)
    return f"| {title} | {listed} | {named if case.has else '–'} | {'; '.join(words) or '–'} |"


def _changes(
    cases: list[Case], verdicts: dict[str, dict[str, Any]]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """(changed, all) away from thresholds and near them."""
    away, near = [0, 0], [0, 0]
    for case in cases:
        runs = runs_of(verdicts, case)
        for name in runs[0]:
            statuses = [run[name][0] for run in runs]
            if set(statuses) == {"unknown"} or len(runs) < 2:
                continue
            changed = len(statuses) - Counter(statuses).most_common(1)[0][1]
            counter = near if _is_near([run[name] for run in runs]) else away
            counter[0] += changed
            counter[1] += len(statuses)
    return (away[0], away[1]), (near[0], near[1])


def _is_near(entries: list[list[Any]]) -> bool:
    """Whether the mean estimate lies within the mean half-width of the threshold."""
    known = [entry for entry in entries if None not in entry[1:5]]
    if not known:
        return False
    value, low, high = (sum(entry[place] for entry in known) / len(known) for place in (1, 2, 3))
    threshold = known[0][4]
    return low <= threshold <= high or threshold == value


if __name__ == "__main__":
    main()
