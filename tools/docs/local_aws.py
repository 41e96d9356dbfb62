"""What the local AWS answers and assumes, from its own tables."""

from __future__ import annotations

from rehearsal.cloud.aws import behaviours, inventory
from rehearsal.cloud.aws.backing import USED
from rehearsal.cloud.aws.named import NAMED
from rehearsal.cloud.aws.policies import OPERATORS
from rehearsal.cloud.aws.table import HANDLERS, MISSING, OWN


def page() -> str:
    """docs/reference/local-aws.md."""
    groups: dict[str, list[str]] = {}
    for call in HANDLERS:
        service, _, operation = call.partition(".")
        groups.setdefault(service, []).append(operation)
    stock = inventory.load()
    moto = [service for service in USED if service not in OWN]
    lines = [
        "# What the local AWS answers",
        "",
        "There are no recordings of the real cloud: nothing here was compared with an AWS account. Requests and answers are held",
        "to botocore's service models; how the services behave is taken from the sources below.",
        "",
        "## Operations that are our own",
        "",
        f"All others of {', '.join(moto)} are moto's, where moto has them; of {', '.join(OWN)} there is nothing else.",
        "What neither has is answered 501 and said to be missing.",
        "",
        "| service | operations |",
        "| --- | --- |",
        *(f"| `{service}` | {', '.join(sorted(names))} |" for service, names in sorted(groups.items())),
        "",
        f"Refused although moto has them: {', '.join(f'`{name}` ({why})' for name, why in MISSING.items())}.",
        "",
        "## What is assumed of AWS",
        "",
        "| where | what | evidence | source |",
        "| --- | --- | --- | --- |",
        *(f"| {row.where} | {row.what} | {row.evidence} | {row.source} |" for row in behaviours.load()),
        "",
        f"Condition operators that are evaluated in policies: {', '.join(OPERATORS)}, each also with IfExists.",
        "",
        "## What can go wrong, by name",
        "",
        "| name | what happens |",
        "| --- | --- |",
        *(f"| `{name}` | {NAMED[name].about} |" for name in sorted(NAMED)),
        "",
        "## What is there",
        "",
        "| image | architecture | root | published | parameter |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| `{i.id}` {i.name} | {i.architecture} | {i.root_gb} GB | {'yes' if i.published else 'later'} | `{i.parameter}` |"
            for i in stock.images
        ),
        "",
        "| quota | of | vCPUs |",
        "| --- | --- | --- |",
        *(f"| `{q.code}` | {q.name} | {q.value:.0f} |" for q in stock.quotas),
        "",
        f"Policies of AWS's own that a role can be attached: {', '.join(stock.managed_policies)}.",
        "",
        "Instance types, and the zones that offer them, are moto's captured lists.",
    ]
    return "\n".join(lines) + "\n"
