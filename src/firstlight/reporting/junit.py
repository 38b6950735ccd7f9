"""A Diagnosis as JUnit XML, which continuous integration shows as tests.

Enters: a Diagnosis, or several. Leaves: XML. A finding is a test case. It fails where the policy is not met; it is
skipped, with the reason, where there are not enough initializations to tell or nothing could be looked at;
everything else passes, and what was found without failing stands in ``system-out``. Numbers are properties of the
case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from firstlight.errors import UsageError
from firstlight.reporting.document import Document, FindingText
from firstlight.reporting.documents import document_of

__all__ = ["junit_report"]

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, escaped or not."""


def junit_report(noun: Any) -> str:
    """JUnit XML of a Diagnosis, or of several."""
    nouns = list(noun) if isinstance(noun, Sequence) else [noun]
    for item in nouns:
        if getattr(item, "kind", None) != "diagnosis":
            raise UsageError(
                f"report(format='junit'): expected a Diagnosis, got {getattr(item, 'kind', type(item).__name__)}; "
                "JUnit speaks of verdicts, so diagnose the profile first, or write .json, .html or .md"
            )
    suites = [_suite(document_of(item), item.provenance.created) for item in nouns]
    root = ElementTree.Element("testsuites", name="firstlight")
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.extend(suites)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(document: Document, created: str) -> ElementTree.Element:
    skipped = sum(item.status in ("undecided", "unknown") for item in document.findings)
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"firstlight audit of {document.title}"),
        tests=str(len(document.findings)),
        failures=str(sum(item.failed for item in document.findings)),
        errors="0",
        skipped=str(skipped),
        time="0",
        timestamp=created.partition("+")[0],
    )
    for finding in document.findings:
        suite.append(_case(finding))
    if document.verdict is not None:
        said = ElementTree.SubElement(suite, "system-out")
        said.text = _clean("\n".join((document.verdict.label, *document.verdict.sentences)))
    return suite


def _case(finding: FindingText) -> ElementTree.Element:
    name = f"{finding.id} at {finding.layer}" if finding.layer else finding.id
    case = ElementTree.Element("testcase", classname="firstlight.audit", name=_clean(name), time="0")
    properties = ElementTree.SubElement(case, "properties")
    for key in ("status", "severity", "layer", "amount", "threshold"):
        if value := getattr(finding, key):
            ElementTree.SubElement(properties, "property", name=key, value=_clean(value))
    lines = [
        *finding.sentences,
        finding.amount,
        f"threshold {finding.threshold}" if finding.threshold else "",
    ]
    lines += [
        finding.because,
        finding.reference,
        *(f"{item.title}: {item.command}" for item in finding.remedies),
    ]
    text = _clean("\n".join(line for line in lines if line))
    if finding.failed:
        message = f"{finding.title}: {finding.amount}" if finding.amount else finding.title
        ElementTree.SubElement(case, "failure", type=finding.id, message=_clean(message)).text = text
    elif finding.status in ("undecided", "unknown"):
        ElementTree.SubElement(case, "skipped", message=_clean(" ".join(finding.sentences)))
    elif finding.status == "found":
        ElementTree.SubElement(case, "system-out").text = text
    return case


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
