"""Refusals outside a plan: every name that the code refuses by is on the page, and none of them is a rule that can be allowed."""

import ast

from infra.rules.elsewhere import ELSEWHERE
from infra.rules.every import all_rules

PRODUCT = ("infra", "startup", "flexserve", "catalog")


def names_of_refusals(root):
    """The first words of `Refused(...)` all over the product, constants looked up in their own file."""
    found = set()
    for path in (path for part in PRODUCT for path in (root / part).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        known = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused" and node.args:
                first = node.args[0]
                found |= {first.value} if isinstance(first, ast.Constant) else {known.get(getattr(first, "id", ""))}
    return found - {None}


def test_every_name_is_on_the_page(root):
    assert names_of_refusals(root) - {rule.id for rule in all_rules()} == set(ELSEWHERE)


def test_none_is_a_rule_of_a_plan():
    assert set(ELSEWHERE).isdisjoint(rule.id for rule in all_rules())
