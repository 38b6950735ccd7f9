"""What every test stands on: hypothesis without deadlines, a seed of its own, and real data that may not go missing."""

from __future__ import annotations

import importlib.util
import os
import zlib
from pathlib import Path

import hypothesis
import pytest

# A busy machine is no bug, so there is no deadline; in CI the examples are the same in every run.
hypothesis.settings.register_profile("firstlight", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("firstlight")

# Programs that made the numbers beside them, with packages that the tests do not need.
collect_ignore_glob = ["*/reference/*.py"]

_spec = importlib.util.spec_from_file_location("firstlight_real_data", Path(__file__).parent / "real_data.py")
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
real_data = _module.real_data

PROMISES = {"real_data": "FIRSTLIGHT_REQUIRE_DATA", "browser": "FIRSTLIGHT_REQUIRE_BROWSER"}


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that follows from the test's name, so that nobody picked it."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a test that was skipped for want of data or of a browser into a failure where they are promised."""
    report = yield
    for mark, promise in PROMISES.items():
        if report.skipped and item.get_closest_marker(mark) and os.environ.get(promise):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: skipped, but {promise} is set: {call.excinfo.value}"
    return report
