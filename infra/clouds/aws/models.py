"""AWS's own descriptions of its APIs, as botocore reads them: once in a process, and by a quicker reader of JSON.

Endpoints and models of a few services are some 5 MB. botocore's reader makes an `OrderedDict` of every object, for the sake of
Pythons whose dictionaries had no order: 0.1 s more for each command and program that asks AWS anything.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

KINDS: Mapping[str, Callable[[bytes], bytes]] = {".json": bytes, ".json.gz": gzip.decompress}


class Reader:
    """In place of `botocore.loaders.JSONFileLoader`. A path has no suffix."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return any(Path(f"{path}{suffix}").is_file() for suffix in KINDS)

    def load_file(self, path: str) -> Any:
        """Its values; None without the file. Raises ValueError for what is no JSON."""
        for suffix, unpacked in KINDS.items():
            file = Path(f"{path}{suffix}")
            if file.is_file():
                return msgspec.json.decode(unpacked(file.read_bytes()))
        return None


@cache
def _loader(path: str | None) -> Any:
    from botocore.loaders import create_loader

    loader = create_loader(path)
    loader.file_loader = Reader()
    return loader


def session(region: str) -> Any:
    """A `boto3.Session` with the operator's credentials as they are now; what it reads of AWS's APIs all of them share."""
    import boto3
    import botocore.session

    core = botocore.session.get_session()
    core.register_component("data_loader", _loader(core.get_config_variable("data_path")))
    return boto3.session.Session(botocore_session=core, region_name=region)
