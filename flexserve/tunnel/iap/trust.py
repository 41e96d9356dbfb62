"""Whose certificates are trusted on the way to the relay."""

from __future__ import annotations

import ssl

from infra.clouds.certificates import unusable


class _Context(ssl.SSLContext):
    """Verifies like any other. aiofastnet asks `verify_mode` only to decide whether to take the relay's certificate apart.

    It does so through a temporary file, once a connection, for a caller that we are not: 0.5 ms of 4. OpenSSL does not ask
    Python, and refuses as before; a test holds that.
    """

    @property
    def verify_mode(self) -> ssl.VerifyMode:  # type: ignore[override]
        """Not what OpenSSL does: see above."""
        return ssl.CERT_NONE


def trust(context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """`context`, or one that trusts what OpenSSL trusts here (`SSL_CERT_FILE` included), or else certifi's list.

    Raises `BadConfig` where that variable names no file with certificates.
    """
    if context is not None:
        return context
    made = ssl.create_default_context()
    if not made.cert_store_stats()["x509"] and (named := unusable()) is not None:  # else the relay's certificate would be at fault
        raise named
    if not made.cert_store_stats()["x509_ca"] and not ssl.get_default_verify_paths().capath:
        import certifi

        made.load_verify_locations(certifi.where())
    if made.verify_mode is ssl.CERT_REQUIRED and made.check_hostname:
        made.__class__ = _Context
    return made
