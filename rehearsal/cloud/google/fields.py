"""Partial answers: the `fields` parameter, such as `services/name,nextPageToken` or `items(name,labels)`."""

from __future__ import annotations

from typing import Any

Tree = dict[str, "Tree"]


def chosen(value: Any, selector: str) -> Any:
    """Only what the selector names. An empty selector, or `*`, is everything."""
    return value if not selector else _pick(value, _parse(selector))


def _parse(selector: str) -> Tree:
    tree: Tree = {}
    start = depth = 0
    for index, letter in enumerate(selector + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            _add(tree, selector[start:index].strip())
            start = index + 1
    return tree


def _add(tree: Tree, term: str) -> None:
    if not term:
        return
    head, _, inner = term.partition("(")
    leaf = tree
    for name in head.strip("/").split("/"):
        leaf = leaf.setdefault(name, {})
    if inner:
        leaf.update(_parse(inner.rstrip().removesuffix(")")))


def _pick(value: Any, tree: Tree) -> Any:
    if not tree or ("*" in tree and not tree["*"]):
        return value
    if isinstance(value, list):
        return [_pick(item, tree) for item in value]
    if isinstance(value, dict):
        every = tree.get("*")
        return {k: _pick(v, tree.get(k, every or {})) for k, v in value.items() if k in tree or every is not None}
    return value
