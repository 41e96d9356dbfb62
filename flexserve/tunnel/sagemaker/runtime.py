"""SageMaker's runtime through boto3: one call, always the streaming one, which may last 8 minutes; the plain one ends at 60 s."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from infra.access import SageMaker
from infra.clouds.aws import models

_READ_S = 490  # a little more than the service's own limit of 8 minutes
_POOL = 64


class Runtime:
    """The endpoint's calls. Blocking: each runs in a thread."""

    def __init__(self, access: SageMaker, url: str | None = None) -> None:
        from botocore.config import Config

        self._access = access
        # One attempt: a second one would make the model generate twice; OpenAI's clients retry by themselves.
        config = Config(read_timeout=_READ_S, connect_timeout=10, max_pool_connections=_POOL, retries={"total_max_attempts": 1})
        session = models.session(access.region)
        self._has_credentials = session.get_credentials() is not None
        self._client = session.client("sagemaker-runtime", endpoint_url=url, config=config)

    @property
    def has_credentials(self) -> bool:
        """Whether boto3 found any."""
        return self._has_credentials

    def invoke(self, body: dict[str, Any], request_id: str = "") -> tuple[str, Iterator[bytes], Any]:
        """Start a call: AWS's request id, the bytes of the answer as they come, and what to close. Raises botocore's errors."""
        more = {"InferenceId": request_id[:64]} if request_id else {}
        answer = self._client.invoke_endpoint_with_response_stream(
            EndpointName=self._access.endpoint,
            ContentType="application/json",
            Accept="text/event-stream" if body.get("stream") else "application/json",
            Body=json.dumps(body).encode(),
            **more,
        )
        stream = answer["Body"]
        return str(answer["ResponseMetadata"]["RequestId"]), _payloads(stream), stream


def _payloads(stream: Any) -> Iterator[bytes]:
    """The bytes of each part. botocore raises the stream's exceptions as `EventStreamError`."""
    for event in stream:
        part = event.get("PayloadPart")
        if part:
            yield part["Bytes"]
