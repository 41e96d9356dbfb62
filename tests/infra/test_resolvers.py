"""Tags to digests and branches to commits, against servers on loopback."""

import pytest

from infra.clouds import hub, registry
from infra.clouds.http import NoNetwork
from tests.infra.nets import COMMIT, DIGEST, Names, serving
from verdict.errors import BadConfig, CannotTell, FlexserveError, NoAccess


@pytest.fixture
def net():
    with serving(Names()) as names:
        yield names


@pytest.fixture
def naps():
    return []


def digest(net, naps, repository="vllm/vllm-tpu", tag="v0.27.0"):
    return registry.digest(repository, tag, environ={registry.OVERRIDE: net.base + "/"}, sleep=naps.append)


def commit(net, naps, model="google/gemma-4-E2B-it", revision="main"):
    return hub.commit(model, revision, environ={hub.OVERRIDE: net.base}, sleep=naps.append)


@pytest.mark.parametrize("token_needed", [True, False])
def test_a_tag_is_a_digest_with_and_without_the_token_dance(net, naps, token_needed):
    net.token_needed = token_needed
    assert digest(net, naps) == DIGEST
    assert any(path.startswith("/token?service=test&scope=repository") for path in net.asked) is token_needed
    assert naps == []


def test_a_branch_is_a_commit(net, naps):
    assert commit(net, naps) == COMMIT


def test_a_revision_with_a_slash_is_one_path_segment(net, naps):
    net.branches["refs%2Fpr%2F1"] = COMMIT
    assert commit(net, naps, revision="refs/pr/1") == COMMIT


def test_a_tag_that_is_not_there_names_the_nearest(net, naps):
    with pytest.raises(BadConfig) as error:
        digest(net, naps, tag="v0.27")
    assert "has no tag 'v0.27'" in error.value.what and error.value.way_out == "did you mean v0.27.0?"


def test_a_revision_that_is_not_there_names_the_nearest(net, naps):
    with pytest.raises(BadConfig) as error:
        commit(net, naps, revision="mian")
    assert error.value.way_out == "did you mean main?"


@pytest.mark.parametrize(("status", "kind"), [(429, registry.Throttled), (401, NoAccess), (403, NoAccess), (500, FlexserveError)])
@pytest.mark.parametrize("ask", [digest, commit])
def test_what_the_server_refuses_is_typed_and_has_a_way_out(net, naps, ask, status, kind):
    net.status = {"/v2/": (status, {}), "/api/": (status, {})}
    with pytest.raises(kind) as error:
        ask(net, naps)
    assert error.value.way_out
    assert len(naps) == (3 if status in (429, 500) else 0)  # bounded: four tries


def test_retry_after_is_honoured_up_to_a_limit(net, naps):
    net.status = {"/api/": (429, {"Retry-After": "7"})}
    with pytest.raises(registry.Throttled):
        commit(net, naps)
    net.status = {"/api/": (429, {"Retry-After": "900"})}
    with pytest.raises(registry.Throttled):
        commit(net, naps)
    assert naps == [7.0] * 3 + [20.0] * 3


def test_a_passing_503_is_not_seen(net, naps):
    net.status = {"/api/": (503, {})}
    assert hub.commit("m/m", "main", environ={hub.OVERRIDE: net.base}, sleep=lambda _: net.status.clear()) == COMMIT


def test_a_server_that_is_not_there_is_named(naps):
    with pytest.raises(NoNetwork, match=r"127\.0\.0\.1 does not answer"):
        registry.digest("a/b", "c", environ={registry.OVERRIDE: "http://127.0.0.1:9"}, sleep=naps.append)
    assert naps == [0.5, 1.0, 2.0]


def test_an_answer_without_a_digest_is_not_believed(net, naps):
    net.tags["v0.27.0"] = "nonsense"
    with pytest.raises(CannotTell):
        digest(net, naps)
    net.branches["main"] = "v1"
    with pytest.raises(CannotTell):
        commit(net, naps)


@pytest.mark.parametrize(
    ("repository", "base", "name"),
    [
        ("vllm/vllm-tpu", "https://registry-1.docker.io", "vllm/vllm-tpu"),
        ("ubuntu", "https://registry-1.docker.io", "library/ubuntu"),
        ("ghcr.io/acme/x", "https://ghcr.io", "acme/x"),
        ("localhost:5000/x", "https://localhost:5000", "x"),
        ("europe-docker.pkg.dev/p/r/i", "https://europe-docker.pkg.dev", "p/r/i"),
    ],
)
def test_where_a_repository_lies(repository, base, name):
    assert registry.place(repository, {}) == (base, name)
    assert registry.place(repository, {registry.OVERRIDE: "http://127.0.0.1:5"}) == ("http://127.0.0.1:5", name)
