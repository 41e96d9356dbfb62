"""Google's HTTP APIs on loopback, every request and answer checked against Google's own discovery documents."""

from rehearsal.cloud.google.cloud import OPERATOR_TOKEN, LocalGoogleCloud
from rehearsal.cloud.google.state import Pace

__all__ = ["OPERATOR_TOKEN", "LocalGoogleCloud", "Pace"]
