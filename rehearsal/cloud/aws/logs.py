"""CloudWatch Logs: groups with a retention, streams, and lines with the cloud's time. Nothing is ever forgotten by its age."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.state import State

PAGE, PAGE_BYTES = 10_000, 1 << 20
"""Events in one answer, and their bytes, at most; an event counts 26 bytes more than its text."""


@dataclass
class Stream:
    """Lines as (milliseconds, text)."""

    name: str
    created_ms: int
    lines: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Group:
    """A log group. `retention` is days; None keeps for ever."""

    name: str
    arn: str
    created_ms: int
    retention: int | None = None
    kind: str = "STANDARD"
    tags: dict[str, str] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """What is stored."""
        return sum(len(text.encode()) + 26 for stream in self.streams.values() for _, text in stream.lines)


class Logs:
    """All groups, by name. Called under the cloud's lock."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    def write(self, group: str, stream: str, lines: Sequence[str], now_ms: int) -> None:
        """Add lines to a stream, which is made if it is not there. Without the group nothing is kept, and nobody is told."""
        found = self.groups.get(group)
        if found is None:
            return
        there = found.streams.setdefault(stream, Stream(stream, now_ms))
        there.lines.extend((now_ms, line) for line in lines)


def _ms(state: State) -> int:
    return int(state.clock.now() * 1000)


def _group(state: State, params: Json, key: str = "logGroupName") -> Group:
    name = str(params.get(key) or params.get("logGroupIdentifier") or "")
    if name.startswith("arn:"):
        name = name.split(":log-group:", 1)[-1].removesuffix(":*")
    found = state.logs.groups.get(name)
    if found is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return found


def create_group(state: State, call: Call) -> Result:
    """CreateLogGroup."""
    name = call.params["logGroupName"]
    if name in state.logs.groups:
        raise AwsError("ResourceAlreadyExistsException", "The specified log group already exists")
    made = Group(name, state.arn("logs", f"log-group:{name}"), _ms(state), tags=dict(call.params.get("tags") or {}))
    made.kind = call.params.get("logGroupClass", "STANDARD")
    state.logs.groups[name] = made
    return None


def delete_group(state: State, call: Call) -> Result:
    """DeleteLogGroup, with its streams."""
    del state.logs.groups[_group(state, call.params).name]
    return None


def describe_groups(state: State, call: Call) -> Result:
    """DescribeLogGroups."""
    prefix, part = call.params.get("logGroupNamePrefix", ""), call.params.get("logGroupNamePattern", "")
    return {
        "logGroups": [
            {
                "logGroupName": group.name,
                "creationTime": group.created_ms,
                "metricFilterCount": 0,
                "arn": f"{group.arn}:*",
                "logGroupArn": group.arn,
                "storedBytes": group.bytes,
                "logGroupClass": group.kind,
                **({"retentionInDays": group.retention} if group.retention is not None else {}),
            }
            for name, group in sorted(state.logs.groups.items())
            if name.startswith(prefix) and part in name
        ]
    }


def put_retention(state: State, call: Call) -> Result:
    """PutRetentionPolicy."""
    _group(state, call.params).retention = call.params["retentionInDays"]
    return None


def delete_retention(state: State, call: Call) -> Result:
    """DeleteRetentionPolicy."""
    _group(state, call.params).retention = None
    return None


def tags(state: State, call: Call) -> Result:
    """ListTagsForResource: of a group, by its ARN without the star at its end."""
    return {"tags": dict(_by_arn(state, call.params["resourceArn"]).tags)}


def tag(state: State, call: Call) -> Result:
    """TagResource."""
    _by_arn(state, call.params["resourceArn"]).tags |= call.params["tags"]
    return None


def untag(state: State, call: Call) -> Result:
    """UntagResource."""
    group = _by_arn(state, call.params["resourceArn"])
    group.tags = {k: v for k, v in group.tags.items() if k not in call.params["tagKeys"]}
    return None


def _by_arn(state: State, arn: str) -> Group:
    return _group(state, {"logGroupName": arn})


def create_stream(state: State, call: Call) -> Result:
    """CreateLogStream."""
    group, name = _group(state, call.params), call.params["logStreamName"]
    if name in group.streams:
        raise AwsError("ResourceAlreadyExistsException", "The specified log stream already exists")
    group.streams[name] = Stream(name, _ms(state))
    return None


def describe_streams(state: State, call: Call) -> Result:
    """DescribeLogStreams: by name, or the last written first."""
    group, prefix = _group(state, call.params), call.params.get("logStreamNamePrefix", "")
    found = sorted((s for s in group.streams.values() if s.name.startswith(prefix)), key=lambda s: s.name)
    if call.params.get("orderBy") == "LastEventTime":
        if prefix:
            raise AwsError("InvalidParameterException", "Cannot order by LastEventTime with a logStreamNamePrefix.")
        found.sort(key=lambda s: s.lines[-1][0] if s.lines else s.created_ms)
    if call.params.get("descending"):
        found.reverse()
    return {"logStreams": [_stream(group, stream) for stream in found[: call.params.get("limit", 50)]]}


def _stream(group: Group, stream: Stream) -> Json:
    shown: Json = {
        "logStreamName": stream.name,
        "creationTime": stream.created_ms,
        "arn": f"{group.arn}:log-stream:{stream.name}",
        "storedBytes": 0,
    }
    if stream.lines:
        first, last = stream.lines[0][0], stream.lines[-1][0]
        shown |= {"firstEventTimestamp": first, "lastEventTimestamp": last, "lastIngestionTime": last}
    return shown


def put(state: State, call: Call) -> Result:
    """PutLogEvents."""
    stream = _group(state, call.params).streams.get(call.params["logStreamName"])
    if stream is None:
        raise AwsError("ResourceNotFoundException", "The specified log stream does not exist.")
    stream.lines.extend((event["timestamp"], event["message"]) for event in call.params["logEvents"])
    return {"nextSequenceToken": "0"}


def get(state: State, call: Call) -> Result:
    """GetLogEvents: a page from the head or the tail; the token of an end that was reached comes back as it was sent."""
    params = call.params
    stream = _group(state, params).streams.get(params["logStreamName"])
    if stream is None:
        raise AwsError("ResourceNotFoundException", "The specified log stream does not exist.")
    since, until = params.get("startTime", 0), params.get("endTime", 1 << 62)
    lines = [(n, ms, text) for n, (ms, text) in enumerate(stream.lines) if since <= ms < until]
    limit, token = min(params.get("limit", PAGE), PAGE), params.get("nextToken")
    if token is None:
        page = _fits(lines[:limit]) if params.get("startFromHead") else _fits(lines[-limit:][::-1])[::-1]
        at = page[0][0] if page else 0
    else:
        way, at = _token(token)
        if way == "f":
            page = _fits([x for x in lines if x[0] >= at][:limit])
        else:
            page = _fits([x for x in lines if x[0] < at][-limit:][::-1])[::-1]
    end = page[-1][0] + 1 if page else at
    begin = page[0][0] if page else at
    return {
        "events": [{"timestamp": ms, "message": text, "ingestionTime": ms} for _, ms, text in page],
        "nextForwardToken": f"f/{end}",
        "nextBackwardToken": f"b/{begin}",
    }


def _fits(lines: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """As many from the first on as one answer holds."""
    sizes = accumulate(len(text.encode()) + 26 for _, _, text in lines)
    return lines[: sum(size <= PAGE_BYTES for size in sizes)]


def _token(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"([fb])/(\d+)", text)
    if found is None:
        raise AwsError("InvalidParameterException", "The specified nextToken is invalid.")
    return found.group(1), int(found.group(2))


def filtered(state: State, call: Call) -> Result:
    """FilterLogEvents: a pattern is plain words, all of which must be in the line; other patterns are refused."""
    params = call.params
    group, words = _group(state, params), _words(params.get("filterPattern", ""))
    names, prefix = params.get("logStreamNames"), params.get("logStreamNamePrefix", "")
    since, until = params.get("startTime", 0), params.get("endTime", 1 << 62)
    found = [
        {"logStreamName": name, "timestamp": ms, "message": text, "ingestionTime": ms, "eventId": f"{n:056d}"}
        for n, name, ms, text in _every(group)
        if (names is None or name in names) and name.startswith(prefix) and since <= ms <= until and all(w in text for w in words)
    ]
    return {"events": found[: params.get("limit", PAGE)], "searchedLogStreams": []}


def _words(pattern: str) -> list[str]:
    if re.search(r"[{\[%]", pattern) or pattern.startswith(("-", "?")):
        raise AwsError("InvalidParameterException", f"the local cloud knows plain words only, not {pattern}")
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', pattern)]


def _every(group: Group) -> Iterator[tuple[int, str, int, str]]:
    every: list[Any] = [(ms, n, s.name, text) for s in group.streams.values() for n, (ms, text) in enumerate(s.lines)]
    for number, (ms, _, name, text) in enumerate(sorted(every)):
        yield number, name, ms, text
