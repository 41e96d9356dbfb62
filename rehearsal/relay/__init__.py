"""A stand-in for Identity-Aware Proxy's TCP relay, on loopback, for the real gcloud and for our own tunnel."""

from rehearsal.relay.server import Relay

__all__ = ["Relay"]
