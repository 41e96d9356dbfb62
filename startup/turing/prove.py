"""The proof: for every release, head size and query group, what the patched module launches fits on Turing; unpatched, not all."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from startup.turing import limits, measure, patch
from startup.turing.tree import MODULE
from verdict.errors import CannotTell

TURING, AMPERE = (7, 5), (8, 0)
GROUPS = (1, 2, 4, 8, 16, 32)
SEGMENTS = 16  # what vLLM's Triton backend splits a decode into
BLOCK, OTHER_BLOCK = 16, 32  # tokens a KV block
_LIMIT_S = 540
MODULES = ("triton_attention_helpers.py", MODULE.name)


@dataclass(frozen=True)
class Cell:
    """One launch on Turing: sizes as in `measure.select`, bytes of shared memory without and with the patch."""

    release: str
    head: int
    group: int
    kind: str
    three_d: bool
    block: int
    tile_before: int
    tile_after: int
    bytes_before: int
    bytes_after: int

    @property
    def allowed(self) -> bool:
        """Whether the plan lets this query group run at all."""
        return self.group <= limits.largest_group(self.head)


@dataclass(frozen=True)
class Proof:
    """All cells, and what speaks against the patch; none means proved."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...]
    triton: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "proved": not self.problems,
            "limit_bytes": limits.SHARED_BYTES,
            "patch": patch.VERSION,
            "triton": self.triton,
            "cells": [{**asdict(cell), "refused_by_plan": not cell.allowed} for cell in self.cells],
            "problems": list(self.problems),
        }


def asked(layers: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """The cells to measure for pairs of (head size, sliding window or 0): prefill, decode in 2D and in 3D."""
    cells = []
    for head, window in sorted(set(layers)):
        for group in GROUPS:
            for block in (BLOCK, OTHER_BLOCK) if group == 8 else (BLOCK,):
                for kind, segments in (("prefill", 0), ("decode", 0), ("decode", SEGMENTS)):
                    cells.append(
                        {"head": head, "window": window, "group": group, "kind": kind, "segments": segments, "block": block}
                    )
    return cells


def prove(
    trees: Sequence[tuple[str, Path]],
    layers: Iterable[tuple[int, int]],
    python: Path,
    *,
    whole: bool = False,
    groups: Sequence[int] = GROUPS,
    known: dict[str, int] | None = None,
) -> Proof:
    """Measure the module of each (release, tree) with and without the patch. Trees with equal files are measured once.

    `known`: bytes by launch (`measure`) that are taken instead of compiling it again, and where new ones are put; it belongs to one
    Triton and one `measure.py`. The trees are left as they are. Raises `Refused` for a tree of unknown shape, `CannotTell` when
    nothing could be compiled.
    """
    cells: list[Cell] = []
    problems: list[str] = []
    wanted = [cell for cell in asked(layers) if cell["group"] in groups]
    seen: dict[tuple[bytes, ...], dict[str, Any]] = {}
    launches = {} if known is None else known
    for name, tree in trees:
        files = {file.name: file.read_bytes() for file in map(_ops(tree).joinpath, MODULES)}
        original = patch.revert(files[MODULE.name])
        key = (files["triton_attention_helpers.py"], original)
        if key not in seen:
            seen[key] = _measured(files, original, wanted, python, "whole" if whole else "memory", launches)
            launches.update(seen[key]["known"])
        found = seen[key]
        mine = [_cell(name, before, after) for before, after in zip(found["before"], found["after"], strict=True)]
        cells += mine
        problems += judge(name, mine)
        if [c["tile"] for c in found["ampere_before"]] != [c["tile"] for c in found["ampere_after"]]:
            problems.append(f"{name}: the patch changes a tile at compute capability 8.0")
    return Proof(tuple(cells), tuple(problems), next((f["triton"] for f in seen.values()), ""))


def judge(release: str, cells: Sequence[Cell]) -> list[str]:
    """What is wrong with one release's cells; an empty list when the patch is needed and enough."""
    problems = []
    for cell in cells:
        said = f"{release}: head {cell.head}, group {cell.group}, {cell.kind}{' 3D' if cell.three_d else ''}, block {cell.block}"
        if cell.allowed and cell.bytes_after > limits.SHARED_BYTES:
            problems.append(f"{said}: {cell.bytes_after} bytes with the patch, {limits.SHARED_BYTES} are there")
        if cell.bytes_after != limits.shared_bytes(cell.head, cell.group, cell.tile_after):
            problems.append(f"{said}: {cell.bytes_after} bytes, which is not what limits.py says")
    if not any(cell.allowed and cell.bytes_before > limits.SHARED_BYTES for cell in cells):
        problems.append(f"{release}: everything fits without the patch")
    for head, group in sorted({(cell.head, cell.group) for cell in cells if not cell.allowed}):
        if all(c.bytes_after <= limits.SHARED_BYTES for c in cells if (c.head, c.group) == (head, group)):
            problems.append(f"{release}: head {head}, group {group} is refused by the plan, but fits")
    return problems


def table(proof: Proof) -> str:
    """For people: a line for each release, head and group; the most that any of its launches asks for."""
    lines = [f"{'release':<16} {'head':>4} {'group':>5} {'tile':>8} {'bytes before':>12} {'after':>7}  of {limits.SHARED_BYTES}"]
    for release, head, group in dict.fromkeys((c.release, c.head, c.group) for c in proof.cells):
        cells = [c for c in proof.cells if (c.release, c.head, c.group) == (release, head, group)]
        before, after = max(c.bytes_before for c in cells), max(c.bytes_after for c in cells)
        tile = f"{max(c.tile_before for c in cells)} -> {max(c.tile_after for c in cells)}"
        fits = "fits" if after <= limits.SHARED_BYTES else "does not fit"
        word = (
            f"{fits}{'' if before <= limits.SHARED_BYTES else ', not before'}"
            if cells[0].allowed
            else f"{fits}, refused by the plan"
        )
        lines.append(f"{release:<16} {head:>4} {group:>5} {tile:>8} {before:>12} {after:>7}  {word}")
    verdict = "proved" if not proof.problems else "NOT PROVED"
    return "\n".join(
        [*lines, *proof.problems, f"{verdict}: {len(proof.cells)} launches, compiled for sm_75 by Triton {proof.triton}"]
    )


def _ops(tree: Path) -> Path:
    return (tree / "vllm" / MODULE).parent


def _cell(release: str, before: dict[str, Any], after: dict[str, Any]) -> Cell:
    return Cell(
        release,
        after["head"],
        after["group"],
        after["kind"],
        after["three_d"],
        after["block"],
        before["tile"],
        after["tile"],
        before["bytes"],
        after["bytes"],
    )


def _measured(
    files: dict[str, bytes], original: bytes, wanted: list[dict[str, Any]], python: Path, compiled: str, known: dict[str, int]
) -> dict[str, Any]:
    """Run `measure.py` under Triton's Python over two copies of the files, one patched."""
    with tempfile.TemporaryDirectory(prefix="turing-") as scratch:
        for arm, content in (("before", original), ("after", patch.apply(original))):
            folder = (Path(scratch) / arm / "vllm" / MODULE).parent
            folder.mkdir(parents=True)
            for name, other in files.items():
                (folder / name).write_bytes(content if name == MODULE.name else other)
        runs = [
            {"name": f"{prefix}{arm}", "tree": str(Path(scratch) / arm), "capability": capability, "compiled": depth}
            for prefix, capability, depth in (("", TURING, compiled), ("ampere_", AMPERE, "no"))
            for arm in ("before", "after")
        ]
        argv = [str(python), "-I", "-W", "ignore", measure.__file__]
        asked = json.dumps({"runs": runs, "cells": wanted, "known": known})
        try:
            done = subprocess.run(argv, input=asked, capture_output=True, text=True, timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise CannotTell(f"compiling took more than {_LIMIT_S} s") from None
    if done.returncode != 0:
        raise CannotTell("the module could not be measured", why=" ".join(done.stderr.split()[-40:]))
    found: dict[str, Any] = json.loads(done.stdout)
    return found
