"""What a failed engine run means: the target is asked, since only it knows its cloud's words."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from flexserve.lifecycle.parts import EngineFailed
from infra.targets.protocol import DeploymentRef, Failure, LiveTarget
from verdict.errors import BadConfig, FlexserveError, Refused

# What `str(Refused)` and `str(BadConfig)` look like when the program raised them and the engine printed them.
_MORE = r"(?:\s+why: (?P<why>[^\n]*))?(?:\s+way out: (?P<way_out>[^\n]*))?"
_REFUSED = re.compile(r"refused by rule (?P<rule>[\w-]+)" + _MORE)
_BAD_KEY = re.compile(r"^(?P<what>flexserve:[\w.]+: [^\n]*)" + _MORE, re.MULTILINE)


SLACK = timedelta(seconds=2)
"""A cloud's answers and its records have clocks that are not the same to the second."""


def classify(
    error: EngineFailed, live: LiveTarget, ref: DeploymentRef | None, zone: str = "", since: datetime | None = None
) -> FlexserveError:
    """The error to end with: the program's own words, then what the engine printed, then the cloud's record of the create.

    The record comes last; it is needed because the engine's text of a failed operation holds no code. When the cloud cannot be
    asked, the engine's error stands. A record of another `zone` says nothing, nor does one of a create that was asked for before
    `since`, the cloud's time when this run of the engine began.
    """
    for text in error.diagnostics:
        refused = _REFUSED.search(text)
        if refused:
            return Refused(refused["rule"], why=_said(refused, "why"), way_out=_said(refused, "way_out"))
        if bad := _BAD_KEY.search(text):
            return BadConfig(bad["what"], why=_said(bad, "why"), way_out=_said(bad, "way_out"))
    for text in error.diagnostics:
        known = live.explain(text)
        if known is not None:
            return known
    try:
        failure = live.last_failure(ref) if ref is not None else None
    except FlexserveError:
        failure = None
    if failure is None or (zone and failure.where != zone) or _older(failure, since):
        return error
    known = live.explain(failure.message, failure.code)
    return known or error


def _older(failure: Failure, since: datetime | None) -> bool:
    return failure.at is not None and since is not None and failure.at < since - SLACK


def _said(found: re.Match[str], part: str) -> str:
    return (found[part] or "").strip()
