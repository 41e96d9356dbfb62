"""InvokeEndpoint, plain and streamed: the request goes to a container's /invocations, and its bytes come back as they come."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.http import HttpAnswer
from rehearsal.cloud.aws.sagemaker import frames
from rehearsal.cloud.aws.sagemaker.fleet import Fleet, Instance
from rehearsal.cloud.aws.sagemaker.keeper import connection
from rehearsal.cloud.aws.state import State

PLAIN_S, STREAMED_S = 60.0, 480.0
"""Real seconds until an answer must be whole (botocore: InvokeEndpoint; 8 minutes for a stream, from memory of AWS's pages)."""
CHUNK = 65_536
REMEMBERED_S = 1800.0
"""How long invocations are counted, on the cloud's clock."""


def invoke(state: State, call: Call) -> Result:
    """InvokeEndpoint. Without the lock: it takes as long as the container takes."""
    fleet, instance = _chosen(state, call)
    try:
        with contextlib.closing(_sent(instance, call, PLAIN_S)) as asked:
            answer = asked.getresponse()
            body = answer.read()
    except TimeoutError:
        raise _model_error(
            state, fleet, instance, 0, "Your invocation timed out while waiting for a response from container."
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise _model_error(state, fleet, instance, 0, f"the container did not answer: {error}") from None
    finally:
        _free(fleet, instance)
    if answer.status >= 400:
        raise _model_error(state, fleet, instance, answer.status, body.decode("utf-8", "replace"))
    headers = {
        "Content-Type": answer.headers.get("Content-Type", "application/json"),
        "x-Amzn-Invoked-Production-Variant": fleet.variant["VariantName"],
    }
    return HttpAnswer(200, headers, body)


def stream(state: State, call: Call) -> Result:
    """InvokeEndpointWithResponseStream. Without the lock."""
    fleet, instance = _chosen(state, call)
    try:
        asked = _sent(instance, call, STREAMED_S)
        try:
            answer = asked.getresponse()
            refused = answer.read() if answer.status >= 400 else b""
        except BaseException:
            asked.close()
            raise
    except (OSError, http.client.HTTPException) as error:
        _free(fleet, instance)
        raise _model_error(state, fleet, instance, 0, f"the container did not answer: {error}") from None
    if answer.status >= 400:
        asked.close()
        _free(fleet, instance)
        raise _model_error(state, fleet, instance, answer.status, refused.decode("utf-8", "replace"))
    headers = {
        "Content-Type": frames.CONTENT_TYPE,
        "x-Amzn-SageMaker-Content-Type": answer.headers.get("Content-Type", "application/json"),
        "x-Amzn-Invoked-Production-Variant": fleet.variant["VariantName"],
    }
    return HttpAnswer(200, headers, stream=_pieces(fleet, instance, asked, answer))


def _pieces(
    fleet: Fleet, instance: Instance, asked: http.client.HTTPConnection, answer: http.client.HTTPResponse
) -> Iterator[bytes]:
    until = time.monotonic() + STREAMED_S
    try:
        while piece := answer.read1(CHUNK):
            yield frames.part(piece)
            if time.monotonic() > until:
                yield frames.failed("ModelStreamError", json.dumps({"Message": "the stream lasted too long"}).encode())
                return
    except (OSError, http.client.HTTPException) as error:
        said = {"ErrorCode": "StreamBroken", "Message": f"the container's answer broke off: {error}"}
        yield frames.failed("ModelStreamError", json.dumps(said).encode())
    finally:
        asked.close()
        _free(fleet, instance)


def _chosen(state: State, call: Call) -> tuple[Fleet, Instance]:
    """The instance with the fewest requests under way. Raises ValidationError for an endpoint that does not serve."""
    name = call.params["EndpointName"]
    with state.lock:
        endpoint = state.sagemaker.endpoints.get(name)
        fleet = endpoint.active if endpoint is not None and endpoint.status != "Deleting" else None
        if endpoint is None or fleet is None or not fleet.instances:
            raise AwsError("ValidationError", f"Endpoint {name} of account {state.account} not found.")
        now = state.clock.now()
        endpoint.invoked = [at for at in endpoint.invoked if at > now - REMEMBERED_S] + [now]
        with fleet.idle:
            instance = min(fleet.instances, key=lambda i: i.busy)
            instance.busy += 1
        return fleet, instance


def _free(fleet: Fleet, instance: Instance) -> None:
    with fleet.idle:
        instance.busy -= 1
        fleet.idle.notify_all()


def _sent(instance: Instance, call: Call, seconds: float) -> http.client.HTTPConnection:
    """The request, as SageMaker hands it on."""
    assert instance.keeper is not None
    asked = connection(instance.keeper.host, seconds)
    given = {
        "Content-Type": call.params.get("ContentType", "application/octet-stream"),
        "Accept": call.params.get("Accept", ""),
        "X-Amzn-SageMaker-Custom-Attributes": call.params.get("CustomAttributes", ""),
        "X-Amzn-SageMaker-Inference-Id": call.params.get("InferenceId", ""),
    }
    asked.request("POST", "/invocations", call.params["Body"], {k: v for k, v in given.items() if v})
    return asked


def _model_error(state: State, fleet: Fleet, instance: Instance, status: int, said: str) -> AwsError:
    """424, with what the container said."""
    stream = f"{fleet.group}:log-stream:{fleet.stream(instance)}"
    more: Json = {
        "OriginalStatusCode": status,
        "OriginalMessage": said[:20_000],
        "LogStreamArn": state.arn("logs", f"log-group:{stream}"),
    }
    text = f'Received {"client" if 400 <= status < 500 else "server"} error ({status}) from primary with message "{said[:2000]}".'
    return AwsError("ModelError", text, 424, more)
