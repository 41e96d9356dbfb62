"""Session Manager on loopback: the service's calls, its data channel, and the agent's side of a port-forwarding session.

Both are ours: AWS publishes neither. Real is what talks to them: AWS's own session-manager-plugin.
"""

from rehearsal.ssm.service import Service

__all__ = ["Service"]
