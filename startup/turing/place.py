"""Where the patch goes in vLLM's `triton_unified_attention.py`: found by what the code does, never by line number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from verdict.errors import Refused

FUNCTION = "unified_attention"
TILES = ("TILE_SIZE_PREFILL", "TILE_SIZE_DECODE")
IMPORTED = ("current_platform", "triton")
HEAD = "head_size"
KERNEL = "kernel_unified_attention"
RULE = "turing-unknown-tree"


@dataclass(frozen=True)
class Place:
    """Insert whole lines after line `after` (counted from 1), indented by `indent`."""

    after: int
    indent: str


def find(source: str) -> Place:
    """The place after the last assignment to the tile sizes and before their first use, in `unified_attention`.

    Raises `Refused` when the code is not of the known shape: a patch beside the point would change nothing, in silence.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise _unknown("a Python module", f"it does not parse: {error}") from None
    for name in IMPORTED:
        if not any(name in _imported(node) for node in module.body):
            raise _unknown(f"an import of {name} at the top of the module", "none")
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION]
    if len(functions) != 1:
        raise _unknown(f"one function {FUNCTION} at the top of the module", f"{len(functions)}")
    body = functions[0].body
    last = max(_last_assignment(body, name) for name in TILES)
    before, after = body[: last + 1], body[last + 1 :]
    for name in TILES:
        if not any(_reads(statement, name) for statement in after):
            raise _unknown(f"a use of {name} after its last assignment", "none")
    for statement in before:
        if found := _early_use(statement):
            raise _unknown(f"no use of {found} before the last assignment to the tile sizes", f"one in line {statement.lineno}")
    if not any(_stores(statement, HEAD) for statement in before):
        raise _unknown(f"an assignment to {HEAD} before the tiles are used", "none")
    if not any(_launches(statement) for statement in after):
        raise _unknown(f"a launch {KERNEL}[grid](TILE_SIZE=...) after the tiles are chosen", "none")
    return _between(source, body[last], after[0])


def _last_assignment(body: list[ast.stmt], name: str) -> int:
    stored = [index for index, statement in enumerate(body) if _stores(statement, name)]
    if not stored:
        raise _unknown(f"an assignment to {name} in {FUNCTION}", "none")
    return stored[-1]


def _between(source: str, last: ast.stmt, following: ast.stmt) -> Place:
    end = last.end_lineno or last.lineno
    if following.lineno <= end:
        raise _unknown("the next statement on a line of its own", f"line {following.lineno} holds two")
    line = source.split("\n")[following.lineno - 1]
    return Place(end, line[: len(line) - len(line.lstrip())])


def _imported(node: ast.stmt) -> set[str]:
    names = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
    return {alias.asname or alias.name for alias in names}


def _names(node: ast.AST, name: str, context: type[ast.expr_context]) -> Iterator[ast.Name]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, context):
            yield part


def _stores(node: ast.AST, name: str) -> bool:
    return any(_names(node, name, ast.Store))


def _reads(node: ast.AST, name: str) -> bool:
    return any(_names(node, name, ast.Load))


def _early_use(statement: ast.stmt) -> str:
    """A tile size that is read for something else than a new tile size; '' when there is none."""
    own: set[int] = set()
    for part in ast.walk(statement):
        if isinstance(part, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if all(isinstance(target, ast.Name) and target.id in TILES for target in targets):
                own |= {id(node) for node in ast.walk(part)}
    return next((name for name in TILES for node in _names(statement, name, ast.Load) if id(node) not in own), "")


def _launches(statement: ast.stmt) -> bool:
    calls = [part for part in ast.walk(statement) if isinstance(part, ast.Call) and isinstance(part.func, ast.Subscript)]
    return any(_kernel(call) == KERNEL and any(keyword.arg == "TILE_SIZE" for keyword in call.keywords) for call in calls)


def _kernel(call: ast.Call) -> str:
    """`name` of `name[grid](...)`; '' for another call."""
    launched = call.func.value if isinstance(call.func, ast.Subscript) else None
    return launched.id if isinstance(launched, ast.Name) else ""


def _unknown(looked_for: str, found: str) -> Refused:
    return Refused(
        RULE,
        why=f"looked for {looked_for}; found: {found}",
        way_out="use a vLLM release that `python -m startup.turing prove` names, or extend startup/turing/place.py and prove it",
    )
