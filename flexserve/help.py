"""What every command's help holds beside its options: two examples and its exit codes. The docs are made from the same data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from verdict.exit_codes import ExitCode

_ANY = (ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE, ExitCode.INTERRUPTED)
_CLOUD = (ExitCode.NO_ACCESS,)
_PLAN = (ExitCode.REFUSED,)
_WAIT = (ExitCode.TIMED_OUT, ExitCode.GONE)

EXAMPLES: dict[str, tuple[str, str]] = {
    "plan": ("flexserve plan -s tpu-v6e", "flexserve plan -s sagemaker-t4 --set window=8h --json"),
    "render": ("flexserve render -s tpu-v6e", "flexserve render -s tpu-v6e --set serving.text_only=true | shellcheck -"),
    "build": ("flexserve build -s g5g-spot", "flexserve build -s g5g-spot --yes --json"),
    "up": ("flexserve up -s tpu-v6e", "flexserve up -s sagemaker-t4 --yes --timeout 45m"),
    "status": ("flexserve status -s tpu-v6e", "flexserve status -s sagemaker-l4 --boot --json"),
    "logs": ("flexserve logs -s tpu-v6e", "flexserve logs -s sagemaker-t4 -f"),
    "tunnel": ("flexserve tunnel -s tpu-v6e", "flexserve tunnel -s sagemaker-t4 --port 0 --exec 'curl -s $OPENAI_BASE_URL/models'"),
    "smoke": ("flexserve smoke -s tpu-v6e", "flexserve smoke --url http://localhost:8000"),
    "down": ("flexserve down -s tpu-v6e", "flexserve down -s sagemaker-t4 --yes --purge"),
    "secret put": ("flexserve secret put hf-token -s tpu-v6e", "flexserve secret put hf-token -s tpu-v6e < token.txt"),
    "secret check": ("flexserve secret check hf-token -s tpu-v6e", "flexserve secret check hf-token -s g5g-spot --json"),
    "rehearse": ("flexserve rehearse tpu-v6e", "flexserve rehearse sagemaker-t4 --fault crash-loop-start"),
}

EXITS: dict[str, tuple[ExitCode, ...]] = {
    "plan": _PLAN,
    "render": _PLAN,
    "build": (*_PLAN, ExitCode.NO_CAPACITY, *_CLOUD, *_WAIT, ExitCode.LEFT_BEHIND),
    "up": (*_PLAN, ExitCode.NO_CAPACITY, *_CLOUD, *_WAIT, ExitCode.LEFT_BEHIND),
    "status": (*_CLOUD, *_WAIT),
    "logs": (*_CLOUD, ExitCode.GONE),
    "tunnel": (*_CLOUD, *_WAIT),
    "smoke": (*_CLOUD, *_WAIT),
    "down": (*_CLOUD, ExitCode.LEFT_BEHIND, ExitCode.CANNOT_TELL),
    "secret put": (*_PLAN, *_CLOUD),
    "secret check": (*_PLAN, *_CLOUD),
    "rehearse": tuple(code for code in ExitCode if code not in _ANY),
}


class CommandHelp(TypedDict):
    """The keywords of `click.Group.command`."""

    name: str
    epilog: str


def command_help(command: str) -> CommandHelp:
    """Name and epilog of a command: its examples and its exit codes."""
    examples = "\n".join(f"  {line}" for line in EXAMPLES[command])
    return {"name": command.split()[-1], "epilog": f"\b\nExamples:\n{examples}\n\n{exit_codes(codes_of(command))}"}


def codes_of(command: str) -> tuple[ExitCode, ...]:
    """What a command can end with, in order."""
    return tuple(sorted((*_ANY, *EXITS[command])))


def exit_codes(codes: Iterable[ExitCode]) -> str:
    """The table of exit codes, unwrapped."""
    return "\b\nExit codes:\n" + "\n".join(f"  {int(code):>3}  {code.meaning}" for code in sorted(codes))
