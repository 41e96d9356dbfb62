"""Google Secret Manager, over its REST transport: gRPC would pass by an endpoint override."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flexserve.secret.store import Checked
from infra.clouds.google import errors
from infra.clouds.google.session import endpoint, token
from infra.clouds.google.shapes import require_secret_id
from infra.clouds.http import NoNetwork

if TYPE_CHECKING:
    from google.cloud.secretmanager_v1 import SecretManagerServiceClient

ACCESSOR = "roles/secretmanager.secretAccessor"
TIMEOUT_S = 30.0


def connect(project: str) -> GoogleStore:
    """The project's store, as the operator."""
    from google.cloud.secretmanager_v1 import SecretManagerServiceClient
    from google.cloud.secretmanager_v1.services.secret_manager_service.transports import SecretManagerServiceRestTransport
    from google.oauth2.credentials import Credentials

    scheme, _, host = endpoint("secretmanager").rstrip("/").partition("://")
    credentials = Credentials(token=token())  # type: ignore[no-untyped-call]
    transport = SecretManagerServiceRestTransport(host=host, url_scheme=scheme, credentials=credentials)
    return GoogleStore(SecretManagerServiceClient(transport=transport), project)


class GoogleStore:
    """Secrets of one project."""

    def __init__(self, client: SecretManagerServiceClient, project: str) -> None:
        self._client, self._project = client, project

    def put(self, name: str, value: str) -> str:
        """Add a version; a new secret is replicated automatically."""
        path = self._path(name)
        with _sentences():
            if self._look(self._client.get_secret, {"name": path}) is None:
                secret: dict[str, object] = {"replication": {"automatic": {}}}
                request = {"parent": f"projects/{self._project}", "secret_id": name, "secret": secret}
                self._client.create_secret(request=request, timeout=TIMEOUT_S)
            added = self._client.add_secret_version(
                request={"parent": path, "payload": {"data": value.encode()}}, timeout=TIMEOUT_S
            )
        return str(added.name).rpartition("/")[2]

    def check(self, name: str, reader: str, *, granted: bool) -> Checked:
        """Secret, its latest version's state, and the secret's own policy. The value is not asked for."""
        path = self._path(name)
        with _sentences():
            if self._look(self._client.get_secret, {"name": path}) is None:
                return Checked(False, why=f"project {self._project} has no secret {name}")
            version = self._look(self._client.get_secret_version, {"name": f"{path}/versions/latest"})
            if version is None:
                return Checked(True, why=f"{name} has no version")
        number = str(version.name).rpartition("/")[2]
        if version.state.name != "ENABLED":
            return Checked(True, False, number, None, f"version {number} is {version.state.name.lower()}")
        readable, why = self._readable(path, reader, granted=granted)
        return Checked(True, True, number, readable, why)

    def _readable(self, path: str, reader: str, *, granted: bool) -> tuple[bool | None, str]:
        if not reader:
            return None, "the machine's account is granted at up" if granted else "the machine's account is not known before up"
        from google.api_core.exceptions import GoogleAPICallError

        try:
            policy = self._client.get_iam_policy(request={"resource": path}, timeout=TIMEOUT_S)
        except GoogleAPICallError as error:
            return None, f"the secret's policy cannot be read: {error.message}"
        members = [member for binding in policy.bindings if binding.role == ACCESSOR for member in binding.members]
        if f"serviceAccount:{reader}" in members:
            return True, f"{reader} may read it"
        if granted:
            return False, f"{reader} may not read it"
        return None, f"{reader} has no grant on the secret itself; grants on the project are not looked at"

    def _path(self, name: str) -> str:
        require_secret_id(name, "NAME")
        return f"projects/{self._project}/secrets/{name}"

    @staticmethod
    def _look(method: Any, request: dict[str, str]) -> Any:
        """The answer, or None for what is not there."""
        from google.api_core.exceptions import NotFound

        try:
            return method(request=request, timeout=TIMEOUT_S)
        except NotFound:
            return None


@contextmanager
def _sentences() -> Iterator[None]:
    """Google's errors as the project's own."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except RequestException as error:  # no network, a proxy that refuses, an endpoint that is no address
        raise NoNetwork("Secret Manager does not answer", why=str(error), way_out="check the network, then try again") from error
    except GoogleAuthError as error:  # after a 401 the client tries to refresh the token, which it cannot
        raise errors.from_words(str(error), "401") from error
    except GoogleAPICallError as error:
        words, status = str(error.message), str(int(error.code)) if error.code else ""
        raise errors.explain(words) or errors.from_words(words, status) from error  # the words say more than a status
