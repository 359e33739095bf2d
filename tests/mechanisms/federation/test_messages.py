"""Messages: what was packed is unpacked; anything else raises a named error and changes nothing."""

import hashlib
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accountant as ac
from mechanisms.federation.messages import (
    ClientCounts,
    CorruptMessage,
    Kind,
    Message,
    MessageError,
    OversizedMessage,
    Reports,
    SummedCounts,
    UnknownVersion,
    UnsuitableMessage,
    digest_of,
)
from mechanisms.federation.round_setup import RoundSetup

SESSION = bytes(range(16))
DIGEST = bytes(range(100, 132))
PAYLOADS = {
    "counts": ClientCounts(np.array([[1, 0], [2**32 - 1, 3]]), 7).pack(),
    "summed": SummedCounts(np.array([[5, 2**61]]), 9, np.array([3, 2**64 - 1], np.uint64)).pack(),
    "reports": Reports(b"abcdef", 3, 2).pack(),
}
READERS = {"counts": ClientCounts.unpack, "summed": SummedCounts.unpack, "reports": Reports.unpack}


def packed(payload=b"payload", kind=Kind.COUNTS):
    return Message(kind, 3, SESSION, 11, payload, DIGEST).pack()


def a_setup(**changed):
    rng = np.random.default_rng(0)
    given = {
        "queries": rng.random((4, 3), dtype=np.float32),
        "n_classes": 5,
        "n_neighbors": 2,
        "prices": np.arange(4.0),
    }
    return RoundSetup(**{**given, "protocol": "collision", "parameters": (1.5, 9.0), **changed})


def test_the_layout_is_the_documented_one():
    data = packed(b"xyz")
    assert data[:4] == b"RkNN"
    assert data[4] == 2
    assert data[5] == 2
    assert data[6:8] == b"\0\0"
    assert struct.unpack("<I", data[8:12]) == (3,)
    assert data[12:28] == SESSION
    assert struct.unpack("<QQ", data[28:44]) == (11, 3)
    assert data[44:76] == DIGEST
    assert struct.unpack("<I", data[76:80]) == (zlib.crc32(data[:76] + data[80:]),)
    assert data[80:] == b"xyz"


@given(
    kind=st.sampled_from(Kind),
    number=st.integers(1, 2**32 - 1),
    session=st.binary(min_size=16, max_size=16),
    client=st.integers(0, 2**64 - 1),
    payload=st.binary(max_size=200),
    digest=st.binary(min_size=32, max_size=32).filter(any),
)
def test_messages_are_read_as_they_were_written(kind, number, session, client, payload, digest):
    message = Message(kind, number, session, client, payload, bytes(32) if kind == Kind.SETUP else digest)
    for data in (message.pack(), bytearray(message.pack()), memoryview(message.pack())):
        assert Message.unpack(data) == message


@given(st.integers(0, 8 * len(packed()) - 1))
def test_every_flipped_bit_is_noticed(bit):
    data = bytearray(packed())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(MessageError):
        Message.unpack(bytes(data))


@given(st.integers(0, len(packed()) - 1), st.binary(min_size=1, max_size=9))
def test_messages_cut_short_or_too_long_are_refused(length, more):
    with pytest.raises(CorruptMessage):
        Message.unpack(packed()[:length])
    with pytest.raises(CorruptMessage):
        Message.unpack(packed() + more)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data):
    with pytest.raises(MessageError):
        Message.unpack(data)
    with pytest.raises(MessageError):
        Message.unpack(packed()[:5] + data)


@pytest.mark.parametrize("data", [None, "text", 3, [1, 2], np.zeros(60, np.uint8)])
def test_what_is_not_bytes_is_refused(data):
    with pytest.raises(CorruptMessage, match="accepted: bytes"):
        Message.unpack(data)


def test_other_versions_and_oversized_payloads_have_names_of_their_own():
    other = bytearray(packed())
    other[4] = 1
    with pytest.raises(UnknownVersion, match="version 1; accepted: 2"):
        Message.unpack(bytes(other))
    assert Message.unpack(packed(b"12345678"), limit=8).payload == b"12345678"
    with pytest.raises(OversizedMessage, match="9 bytes; accepted: at most 8"):
        Message.unpack(packed(b"123456789"), limit=8)


def test_answers_bear_a_digest_and_setups_none():
    for kind, digest in ((Kind.SETUP, DIGEST), (Kind.COUNTS, bytes(32)), (Kind.SHUFFLED, bytes(32))):
        with pytest.raises(CorruptMessage, match="a digest in a setup, or none in an answer"):
            Message.unpack(Message(kind, 1, SESSION, 1, b"", digest).pack())
    opening = a_setup().pack(1, SESSION)
    assert Message.unpack(opening).digest == bytes(32)
    assert digest_of(opening) == hashlib.sha256(opening).digest()


def test_a_length_is_judged_before_anything_of_that_length_is_made():
    """A header that states 2^60 bytes, or a payload that states as many counts, allocates no memory."""
    data = bytearray(packed())
    data[36:44] = struct.pack("<Q", 2**60)
    with pytest.raises(OversizedMessage):
        Message.unpack(bytes(data))
    for name, most in (("counts", 8), ("summed", 24), ("reports", 16)):
        with pytest.raises(CorruptMessage):
            READERS[name](b"\xff" * most + PAYLOADS[name][most:])


@pytest.mark.parametrize("name", PAYLOADS)
@given(data=st.data())
def test_payloads_of_another_length_are_refused(name, data):
    payload = PAYLOADS[name]
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(CorruptMessage):
        READERS[name](payload[:cut])
    with pytest.raises(CorruptMessage):
        READERS[name](payload + b"\0")


@pytest.mark.parametrize("name", PAYLOADS)
@given(data=st.data())
def test_any_payload_is_read_or_refused_by_name(name, data):
    payload = bytearray(PAYLOADS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = READERS[name](bytes(payload))
    except MessageError:
        return
    assert READERS[name](found.pack()).pack() == found.pack()


def test_payloads_are_read_as_they_were_written():
    counts = ClientCounts.unpack(PAYLOADS["counts"])
    assert counts.records == 7
    assert counts.counts.tolist() == [[1, 0], [2**32 - 1, 3]]
    summed = SummedCounts.unpack(PAYLOADS["summed"])
    assert summed.clients.tolist() == [3, 2**64 - 1]
    assert summed.counts.tolist() == [[5, 2**61]]
    reports = Reports.unpack(PAYLOADS["reports"])
    assert (len(reports), reports.size, reports.records, reports.body) == (2, 3, 2, b"abcdef")


def test_what_does_not_fit_is_not_written():
    with pytest.raises(ac.ParameterError, match="below 2\\^32"):
        ClientCounts(np.array([[2**32]]), 1).pack()
    for changed in ({"round": 0}, {"client": 2**64}, {"session": b"short"}, {"digest": b"short"}):
        fields = {"kind": Kind.COUNTS, "round": 1, "session": SESSION, "client": 1, "payload": b"", **changed}
        with pytest.raises(ac.ParameterError):
            Message(**fields).pack()


# --- setup ---------------------------------------------------------------------------------------------


def test_a_setup_arrives_as_it_left():
    setup = a_setup()
    message = Message.unpack(setup.pack(2, SESSION))
    found = RoundSetup.unpack(message)
    assert (message.kind, message.round, message.client) == (Kind.SETUP, 2, 0)
    np.testing.assert_array_equal(found.queries, setup.queries)
    np.testing.assert_array_equal(found.prices, setup.prices)
    for name in ("n_classes", "n_neighbors", "n_labels", "protocol", "parameters", "shape", "size"):
        assert getattr(found, name) == getattr(setup, name)


@pytest.mark.audit
@given(data=st.data())
def test_any_setup_is_read_or_refused_by_name(data):
    message = Message.unpack(a_setup().pack(1, SESSION))
    payload = bytearray(message.payload)
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    for body in (payload, payload[:cut]):
        try:
            found = RoundSetup.unpack(Message(Kind.SETUP, 1, SESSION, 0, bytes(body)))
        except MessageError:
            continue
        assert np.isfinite(found.queries).all()
        assert 1 <= found.n_neighbors <= len(found.queries)


@pytest.mark.parametrize(
    "changed",
    [
        {"n_labels": 6},
        {"n_labels": 0},
        {"n_neighbors": 5},
        {"n_classes": 0},
        {"n_classes": 2**30},
        {"protocol": "trust-me"},
        {"prices": np.arange(3.0)},
        {"prices": np.array([0, 1, 2, np.nan])},
        {"queries": np.full((4, 3), np.inf)},
    ],
)
def test_a_setup_that_cannot_be_is_refused(changed):
    with pytest.raises(ac.ParameterError, match="accepted"):
        a_setup(**changed)


def test_a_setup_of_another_kind_is_refused():
    with pytest.raises(UnsuitableMessage, match="COUNTS; accepted: SETUP"):
        RoundSetup.unpack(Message.unpack(packed()))
