"""`SSL_CERT_FILE`: what is wrong with the file that it names. OpenSSL passes over it in silence, others give no name."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

from verdict.errors import BadConfig

VARIABLE = "SSL_CERT_FILE"


def unusable(environ: Mapping[str, str] = os.environ) -> BadConfig | None:
    """The error, or None where the variable is not set or its file holds certificates. Reads the file."""
    path = environ.get(VARIABLE)
    if not path:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        why = "it holds no certificate in PEM"
    except OSError as error:
        why = error.strerror or str(error)
    else:
        return None
    return BadConfig(f"{VARIABLE} names {path}, which cannot be used", why=why, way_out=f"correct {VARIABLE}, or unset it")
