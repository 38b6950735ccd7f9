"""Run the benchmarks and set them beside their targets.

    python benchmarks/run.py              # all of them
    python benchmarks/run.py predict      # those named

Exits with 0 even where a target is missed: a busy machine is no defect. ``--strict`` exits with 1 then.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from row import Row

from firstlight.results.provenance import installed_versions

HERE = Path(__file__).parent


def main() -> int:
    """Run, print, write."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    arguments.add_argument("--strict", action="store_true", help="exit with 1 where a target is missed")
    options = arguments.parse_args()
    unknown = set(options.names) - set(known)
    if unknown:
        arguments.error(f"expected names among {', '.join(known)}; got {', '.join(sorted(unknown))}")

    table = Table("benchmark", "value", "unit", "target", "met")
    missed = 0
    for name in options.names or known:
        rows = []
        for row in importlib.import_module(f"bench_{name}").measure():
            print(f"  {name}: {row.name}: {row.value:.4g} {row.unit}", file=sys.stderr)
            rows.append(row)
            missed += row.met is False
            table.add_row(
                f"{name}: {row.name}",
                f"{row.value:.4g}",
                row.unit,
                "" if row.target is None else f"{row.target:g}",
                {None: "", True: "yes", False: "NO"}[row.met],
            )
        write(name, rows)
    Console().print(table)
    return int(options.strict and missed > 0)


def write(name: str, rows: list[Row]) -> None:
    """One JSON file for each benchmark, with the day and the machine it speaks of."""
    target = HERE / "results" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    record = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": processor(), "system": platform.system(), "cores": len(affinity())},
        "versions": installed_versions(),
        "rows": [{**asdict(row), "met": row.met} for row in rows],
    }
    target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def processor() -> str:
    """The processor's name, where the system tells."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def affinity() -> set[int]:
    """The cores this process may use."""
    import os

    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


if __name__ == "__main__":
    sys.exit(main())
