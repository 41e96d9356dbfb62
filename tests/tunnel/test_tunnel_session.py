"""The session without I/O: with a relay that breaks wherever hypothesis likes, every byte arrives once, in order."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexserve.tunnel.iap import frames
from flexserve.tunnel.iap.frames import BadFrame
from flexserve.tunnel.iap.session import ACK_EVERY, Session, State


def ready() -> Session:
    session = Session()
    session.receive(memoryview(frames.connected("sid-1")))
    return session


def drain(session: Session) -> list[bytes]:
    out = []
    while (message := session.next_message()) is not None:
        out.append(message)
    return out


def body(message: bytes) -> bytes:
    tag, length = struct.unpack_from(">HI", message)
    assert tag == 4
    assert length == len(message) - 6 <= 16_384
    return message[6:]


@pytest.mark.parametrize("size", [1, 16_370, 16_371, 16_384, 49_110, 50_000])
def test_a_whole_message_and_the_websockets_head_fit_one_tls_record(size) -> None:
    chunk = bytes(i % 251 for i in range(size))
    messages = list(frames.cut(memoryview(chunk)))
    assert b"".join(body(message) for message in messages) == chunk
    assert {len(message) + 8 for message in messages[:-1]} <= {16_384}
    assert len(messages[-1]) + 8 <= 16_384


step = st.one_of(
    st.tuples(st.just("offer"), st.integers(0, 70_000)),
    st.tuples(st.just("send"), st.integers(0, 9)),
    st.tuples(st.just("ack"), st.floats(0, 1)),
    st.tuples(st.just("break"), st.floats(0, 1)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=40))
def test_upload_survives_any_breaks_at_any_byte(steps) -> None:
    session = ready()
    offered, relay_has, wire = bytearray(), bytearray(), []  # `wire`: sent, not yet with the relay
    for what, amount in steps:
        if what == "offer":
            chunk = bytes((len(offered) + i) % 251 for i in range(amount))
            offered += chunk
            session.offer(chunk)
        elif what == "send":
            for _ in range(amount):
                message = session.next_message()
                if message is not None:
                    wire.append(body(message))
        elif what == "ack":
            for payload in wire:
                relay_has += payload
            wire.clear()
            low = session.acked
            session.receive(memoryview(frames.ack(low + int((len(relay_has) - low) * amount))))
        else:
            lost = b"".join(wire)
            relay_has += lost[: int(len(lost) * amount)]  # cut anywhere, in the middle of a message too
            wire.clear()
            session.broke()
            assert session.next_message() is None
            assert session.reopen() == "sid-1"
            session.receive(memoryview(frames.resumed(len(relay_has))))
        assert session.unacked == len(offered) - session.acked
        assert session.in_flight >= 0
    for message in drain(session):
        wire.append(body(message))
    relay_has += b"".join(wire)
    assert relay_has == offered


@given(st.lists(st.integers(1, 50_000), max_size=20))
def test_acks_are_absolute_and_due_every_32_kib(sizes) -> None:
    session, told = ready(), 0
    for size in sizes:
        payload = session.receive(memoryview(frames.data(b"x" * size) + b"trailing"))
        assert payload is not None
        assert len(payload) == size
        assert session.ack_due == (session.received - told >= ACK_EVERY)
        if session.ack_due:
            assert session.ack() == struct.pack(">HQ", 7, session.received)
            told = session.received
    assert session.received == sum(sizes)
    assert (session.ack() is None) == (told == session.received)


@given(st.binary(max_size=64))
def test_any_message_is_taken_or_refused_never_anything_else(message: bytes) -> None:
    session = ready()
    session.offer(b"z" * 1000)
    drain(session)
    try:
        session.receive(memoryview(message))
    except BadFrame:
        return
    assert 0 <= session.acked <= 1000


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([frames.data(b"x")], id="data before the sid"),
        pytest.param([frames.ack(0)], id="ack before the sid"),
        pytest.param([frames.resumed(0)], id="a resume that was not asked for"),
        pytest.param([frames.connected("a"), frames.connected("b")], id="a second sid"),
        pytest.param([frames.connected("a"), frames.ack(1)], id="an ack above what was sent"),
        pytest.param([struct.pack(">HI", 1, 0)], id="an empty sid"),
        pytest.param([struct.pack(">HI", 1, 2) + b"\n\0"], id="a sid that is not printable"),
        pytest.param([struct.pack(">HI", 1, 5000) + b"a" * 5000], id="a sid that is too long"),
        pytest.param([struct.pack(">HI", 1, 9) + b"short"], id="a sid shorter than declared"),
        pytest.param([frames.connected("a"), struct.pack(">HI", 4, 9) + b"short"], id="data shorter than declared"),
        pytest.param([b"\0"], id="no tag"),
        pytest.param([frames.connected("a"), struct.pack(">HI", 7, 1)], id="an ack without its counter"),
    ],
)
def test_what_ends_a_connection(messages) -> None:
    session = Session()
    with pytest.raises(BadFrame):
        for message in messages:
            session.receive(memoryview(message))


def test_an_ack_that_goes_back_is_refused() -> None:
    session = ready()
    session.offer(b"x" * 100)
    drain(session)
    session.receive(memoryview(frames.ack(60)))
    with pytest.raises(BadFrame):
        session.receive(memoryview(frames.ack(59)))


def test_unknown_tags_are_ignored() -> None:
    session = ready()
    for tag in (0, 3, 5, 8, 10, 999):
        assert session.receive(memoryview(struct.pack(">H", tag) + b"anything")) is None
    assert session.state is State.READY


def test_a_session_that_broke_before_its_sid_starts_again() -> None:
    session = Session()
    session.offer(b"early")
    session.broke()
    assert session.reopen() == ""
    session.receive(memoryview(frames.connected("new")))
    assert [body(message) for message in drain(session)] == [b"early"]


def test_picows_logs_nothing_whatever_the_programs_logging_is() -> None:
    """It asks a child of the logger it is given, for every read."""
    import logging

    from flexserve.tunnel.iap.transport import _quiet

    child = logging.Logger("child")
    child.parent = _quiet
    assert not child.isEnabledFor(logging.CRITICAL)
