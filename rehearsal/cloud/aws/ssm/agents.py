"""The agent on each machine, acted by the cloud: a thread that runs what was sent, one after another, through `Machine.exec`.

An agent is online once a command can be run in its machine, while the machine's role may speak to Systems Manager.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable

from rehearsal.cloud.aws.state import State
from rehearsal.contracts import Machine

REGISTERS = "ssm:UpdateInstanceInformation"
PROBE_S = 2.0
AGAIN_S = 0.25

Job = Callable[[Machine], None]


class Agents:
    """Agents by instance id. Their threads end when the instance goes."""

    def __init__(self, state: State, came_online: Callable[[], None]) -> None:
        """`came_online` is called, without the lock, once an agent can be reached."""
        self._state, self._came_online = state, came_online
        self._agents: dict[str, _Agent] = {}
        self._lock = threading.Lock()

    def came(self, instance_id: str) -> None:
        """The machine was powered on."""
        with self._lock:
            old = self._agents.pop(instance_id, None)
            agent = self._agents[instance_id] = _Agent(self._state, instance_id, self._came_online)
        if old is not None:
            old.end()
        agent.thread.start()

    def gone(self, instance_id: str) -> None:
        """The machine is off. Never waits for what it is doing."""
        with self._lock:
            agent = self._agents.pop(instance_id, None)
        if agent is not None:
            agent.end()

    def online(self) -> list[str]:
        """Instances whose agent can be reached. Called under the cloud's lock."""
        with self._lock:
            agents = dict(self._agents)
        return [i for i, agent in agents.items() if agent.online.is_set() and self._allowed(i)]

    def _allowed(self, instance_id: str) -> bool:
        guest = self._state.fleet.guest(instance_id)
        role = guest.role() if guest is not None else None
        return self._state.may(role, REGISTERS, "*")

    def give(self, instance_id: str, job: Job) -> None:
        """Let the agent do it after what it has to do already. Lost when the machine goes."""
        with self._lock:
            agent = self._agents.get(instance_id)
        if agent is not None:
            agent.jobs.put(job)


class _Agent:
    def __init__(self, state: State, instance_id: str, came_online: Callable[[], None]) -> None:
        self._state, self._id, self._came_online = state, instance_id, came_online
        self.online = threading.Event()
        self.jobs: queue.Queue[Job | None] = queue.Queue()
        self._over = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"agent-{instance_id}", daemon=True)

    def end(self) -> None:
        self._over.set()
        self.jobs.put(None)

    def _run(self) -> None:
        if not self._answers():
            return
        self.online.set()
        self._came_online()
        while (job := self.jobs.get()) is not None and not self._over.is_set():
            machine = self._state.fleet.machine(self._id)
            if machine is None or not self._answers():  # what was sent waits for a machine that reboots
                return
            try:
                job(machine)
            except Exception:
                self._state.problems.append(traceback.format_exc())

    def _answers(self) -> bool:
        """Wait until a command runs in the machine; False when it is over before."""
        while not self._over.is_set():
            machine = self._state.fleet.machine(self._id)
            try:
                if machine is not None and machine.exec(["true"], timeout=PROBE_S).returncode == 0:
                    return True
            except (RuntimeError, TimeoutError, OSError):
                pass
            self._over.wait(AGAIN_S)
        return False
