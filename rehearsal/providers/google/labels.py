"""Labels as the official provider keeps them: the program's, the program's with the mark, and all that there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google
from rehearsal.providers.schema import Fields, mapping, out
from rehearsal.providers.values import UNKNOWN, Values, has_unknown

MARK: Final = "goog-pulumi-provisioned"

LABEL_MAPS: Final = frozenset({"labels", "pulumiLabels", "effectiveLabels"})

LABELS: Final[Fields] = {
    "labels": mapping(),
    "pulumiLabels": out(mapping(secret=True)),
    "effectiveLabels": out(mapping(secret=True)),
}


def plan_labels(api: Google, state: Mapping[str, Any] | None, planned: Values) -> Values:
    """Fill in the two label maps that the program does not write.

    The mark is put on at create and kept where it is still there; keys of others stay.
    """
    labels = planned.get("labels")
    if labels is UNKNOWN or has_unknown(labels):
        return planned | {"pulumiLabels": UNKNOWN, "effectiveLabels": UNKNOWN}
    effective = dict((state or {}).get("effectiveLabels") or {})
    before = (state or {}).get("pulumiLabels") or {}
    marked = api.config.attribution and (state is None or MARK in effective)
    ours = {**({MARK: "true"} if marked else {}), **(labels or {})}
    others = {key: value for key, value in effective.items() if key not in before or key in ours}
    return planned | {"pulumiLabels": ours, "effectiveLabels": others | ours}


def told_labels(found: Mapping[str, str] | None, before: Mapping[str, Any]) -> Values:
    """The three maps after a look at the cloud; `before` says which keys are whose."""
    found = dict(found or {})
    mine, ours = before.get("labels"), before.get("pulumiLabels") or {}
    return {
        "labels": None if mine is None else {key: found[key] for key in mine if key in found},
        "pulumiLabels": {key: found.get(key, "") for key in ours},
        "effectiveLabels": found,
    }
