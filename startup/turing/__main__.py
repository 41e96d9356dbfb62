"""`python -m startup.turing apply|check|revert|prove`: the Turing patch for an installed vLLM.

Exit codes: 0 done · 1 not patched, or not proved · 2 usage · 3 refused, the tree is not known · 9 cannot tell.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from startup.turing import patch, tree
from startup.turing.place import RULE
from verdict.errors import FlexserveError, Refused
from verdict.exit_codes import ExitCode


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m startup.turing", description="The Turing patch for an installed vLLM.")
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("apply", "patch it; a patched one stays as it is"),
        ("check", "patched, unpatched or unknown"),
        ("revert", "take the patch out, byte for byte"),
        ("prove", "compile what it launches for sm_75, with and without the patch"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--tree", type=Path, help="site-packages or an unpacked wheel; default: this Python's vLLM")
        command.add_argument("--json", action="store_true", help="one JSON document on stdout")
        if name == "prove":
            command.add_argument("--release", action="append", default=[], metavar="VERSION", help="only this one; may be repeated")
            command.add_argument("--newest", action="store_true", help="also the newest vLLM of the package index")
            command.add_argument("--whole", action="store_true", help="compile to LLVM, not only to the memory's layout")
    return top


def main(words: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    args = parser().parse_args(words)
    try:
        if args.command == "prove":
            return _prove(args)
        return _file(args.command, args.tree, args.json)
    except FlexserveError as error:
        print(json.dumps(error.as_dict()) if args.json else error, file=sys.stdout if args.json else sys.stderr)
        return int(error.exit_code)
    except OSError as error:  # a file that may not be read or written
        print(f"{error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return int(ExitCode.FAILED)


def _file(command: str, under: Path | None, as_json: bool) -> int:
    file = tree.module_of(under)
    content = file.read_bytes()
    if command != "check":
        wanted = patch.apply(content) if command == "apply" else patch.revert(content)
        if wanted != content:
            tree.write(file, wanted)
        changed, content = wanted != content, wanted
    else:
        changed = False
    state = patch.check(content)
    if command == "check" and state.name == "unknown":
        raise Refused(RULE, why=state.why, way_out=f"see what {file} is; `prove` lists the releases that are known")
    shown: dict[str, Any] = {"state": state.name, "version": state.version, "changed": changed, "file": str(file)}
    version = f" (version {state.version})" if state.version else ""
    print(json.dumps(shown) if as_json else f"{state.name}{version}{', changed now' if changed else ''}: {file}")
    return int(ExitCode.FAILED if command == "check" and state.name != "patched" else ExitCode.DONE)


def _prove(args: argparse.Namespace) -> int:
    from catalog.loader import Catalog
    from startup.turing import fetch, prove

    if args.tree is not None:
        tree.module_of(args.tree)
        trees = [(args.tree.name or "tree", args.tree)]
    else:
        releases = [r for r in fetch.pinned() if not args.release or r.version in args.release]
        if unknown := set(args.release) - {r.version for r in releases}:
            raise FlexserveError(f"no release {', '.join(sorted(unknown))} in releases.toml", exit_code=ExitCode.USAGE)
        if args.newest and (newest := fetch.newest()) not in releases:
            releases.append(newest)
        trees = [(str(release), fetch.sources(release)) for release in releases]
    layers = {(layer.head_dim, layer.sliding_window or 0) for model in Catalog.load().models.values() for layer in model.kv_layers}
    proof = prove.prove(trees, layers, fetch.triton_python(), whole=args.whole)
    print(json.dumps(proof.as_dict()) if args.json else prove.table(proof))
    return int(ExitCode.FAILED if proof.problems else ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
