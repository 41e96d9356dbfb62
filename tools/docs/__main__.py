"""`python -m tools.docs [--check]`: write the reference pages, or say which are stale."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.docs import (
    aws_provider,
    boot_phases,
    catalog,
    commands,
    exit_codes,
    faults,
    google_provider,
    live_changes,
    local_aws,
    local_cloud,
    rules,
    sagemaker_rights,
    stack_file,
    tunnel,
    words,
)

PAGES = {
    "stack-file.md": stack_file.page,
    "rules.md": rules.page,
    "commands.md": commands.page,
    "exit-codes.md": exit_codes.page,
    "catalog.md": catalog.page,
    "boot-phases.md": boot_phases.page,
    "faults.md": faults.page,
    "local-cloud.md": local_cloud.page,
    "local-aws.md": local_aws.page,
    "sagemaker-rights.md": sagemaker_rights.page,
    "live-changes.md": live_changes.page,
    "tunnel-endings.md": tunnel.endings,
    "relay-faults.md": tunnel.relay_faults,
    "google-provider.md": google_provider.page,
    "aws-provider.md": aws_provider.page,
    "../../flexserve/words.json": words.page,
}
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def stale() -> list[str]:
    """Names of the pages that differ from what the code says."""
    return [name for name, page in PAGES.items() if not (FOLDER / name).is_file() or (FOLDER / name).read_text("utf-8") != page()]


def place(name: str) -> Path:
    """Where a page is, seen from the project's root."""
    return (FOLDER / name).resolve().relative_to(FOLDER.parents[1])


def main() -> int:
    """Write, or check; 1 when something was stale in a check."""
    names = stale()
    if "--check" in sys.argv:
        print("\n".join(f"stale: {place(name)}" for name in names))
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote {place(name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
