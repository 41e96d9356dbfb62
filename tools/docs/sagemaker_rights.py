"""What an operator of an endpoint has to be allowed, by `infra/targets/sagemaker/operator.toml`: tables, and policies."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from infra.clouds.aws import policies
from infra.targets.sagemaker import rights
from infra.targets.sagemaker.names import Names

FILE = Path(__file__).resolve().parents[2] / "infra" / "targets" / "sagemaker" / "operator.toml"
WHO = {
    "deploy": "up, pulumi up, down",
    "look": "status, logs",
    "use": "tunnel, smoke",
    "secret": "secret put, secret check",
}


class Right(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Actions on resources. `beside`: those that no rehearsal asks for. `when`: only with these keys of the stack file."""

    who: tuple[str, ...]
    what: str
    on: tuple[str, ...]
    actions: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    when: str = ""
    passed_to: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Both kinds, in order."""
        return tuple(sorted((*self.actions, *self.beside)))


class Yours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A thing of the operator's own: the key, what it needs, and the actions that it spares."""

    key: str
    needs: str
    spares: tuple[str, ...]
    besides: str


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    right: tuple[Right, ...]
    yours: tuple[Yours, ...]

    def of(self, who: str) -> tuple[Right, ...]:
        """The rows of those who run these commands."""
        return tuple(row for row in self.right if who in row.who)


def load() -> Table:
    """The file, checked against its shape."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), Table)


def actions(rows: Iterable[Right], *, beside: bool = False) -> frozenset[str]:
    """All of them, those that no rehearsal asks for only with `beside`."""
    return frozenset(action for row in rows for action in (row.all if beside else row.actions))


def policy(rows: Iterable[Right]) -> dict[str, object]:
    """What these rows allow, as one policy; rows with the same resources are one statement."""
    statements: dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]] = {}
    for row in rows:
        statements.setdefault((row.on, row.passed_to), set()).update(row.all)
    made: list[dict[str, object]] = []
    for (on, passed_to), found in statements.items():
        statement: dict[str, object] = {"Effect": "Allow", "Action": sorted(found), "Resource": list(on)}
        if passed_to:
            statement["Condition"] = {"StringEquals": {"iam:PassedToService": list(passed_to)}}
        made.append(statement)
    return {"Version": "2012-10-17", "Statement": made}


def page() -> str:
    """docs/reference/sagemaker-rights.md."""
    table = load()
    lines = [
        "# Rights of whoever runs a SageMaker stack",
        "",
        "What your AWS credentials have to allow, by what you run. The rehearsed lives of the stacks are held to it: every call",
        "that the local AWS saw is allowed here, and every action here was asked for in the whole life, but those in *italics*:",
        "they are for a less usual way, or the official provider or AWS asks for them besides, by their documentation. `fs-*` are",
        "the names of everything that flexserve makes. With `target.image_source: own` the repository of your image is looked into",
        "as well: allow the two actions on images on it. `down` also asks for a budget; where it may not, there is none of it.",
    ]
    for who, commands in WHO.items():
        lines += ["", f"## {who.title()}: {commands}", "", "| for | only with | actions | on |", "| --- | --- | --- | --- |"]
        lines += [_row(row) for row in table.of(who)]
        lines += ["", "As a policy:", "", *_json(policy(table.of(who)))]
    lines += [
        "",
        "## Yours instead of flexserve's",
        "",
        "| key | what it needs | what it spares you |",
        "| --- | --- | --- |",
        *(f"| `target.{y.key}` | {y.needs} | {y.besides or ', '.join(_ticked(y.spares))} |" for y in table.yours),
        "",
        "A role of yours (`target.execution_role`) has to be trusted by SageMaker:",
        "",
        *_json(json.loads(policies.trust(rights.SAGEMAKER))),
        "",
        "and has to allow, for AWS's image and for one that is built in a repository of flexserve's own (put yours in its place;",
        "for a secret add `secretsmanager:GetSecretValue` on its ARN):",
        "",
        *_json(json.loads(own_role())),
    ]
    return "\n".join(lines) + "\n"


def own_role(repository: str = "arn:aws:ecr:*:*:repository/fs-*") -> str:
    """What an execution role of the operator's own has to allow: as flexserve gives its own, for any deployment of the account."""
    return rights.run("*", Names("*"), [rights.repository_arn("*", "763104351884", "vllm"), repository])


def _row(row: Right) -> str:
    named = [*_ticked(row.actions), *(f"*{action}*" for action in row.beside)]
    when = f"`{row.when}`" if row.when else ""
    return f"| {row.what} | {when} | {', '.join(named)} | {', '.join(_ticked(row.on))} |"


def _ticked(words: Iterable[str]) -> list[str]:
    return [f"`{word}`" for word in words]


def _json(document: object) -> list[str]:
    return ["```json", *_compact(document).splitlines(), "```"]


def _compact(document: object) -> str:
    """JSON with a statement a line: short enough to read, and to paste."""
    if not isinstance(document, dict):
        return json.dumps(document)
    statements = ",\n".join(f"  {json.dumps(one)}" for one in document["Statement"])
    return f'{{"Version": {json.dumps(document["Version"])}, "Statement": [\n{statements}\n]}}'
