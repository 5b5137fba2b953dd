"""Links that leave a host: a process that holds a peer's key is accepted as that peer only, and all
other connections are refused.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from roads import Load, Note, paired
from test_broken_links import End

from benchmarks.helpers.strangers import STRANGERS, Door, recording
from runtime.errors import LaunchError
from runtime.machine import descriptors
from runtime.messages.message import Envelope
from runtime.transport import Endpoints
from runtime.transport.frame_parts import PARTS_FROM, SEALED_PART
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair

CURVE = "curve://127.0.0.1:*"


def place(address: str) -> tuple[str, int]:
    """The host and the port of an address."""
    host, _, port = address.partition("://")[2].rpartition(":")
    return host, int(port)


@asynccontextmanager
async def ends(keys: dict[str, Keys]) -> AsyncIterator[dict[str, End]]:
    """One open end for each name."""
    made = {name: End(name, CURVE, each) for name, each in keys.items()}
    try:
        yield made
    finally:
        for end in made.values():
            await end.road.close()


@pytest.mark.parametrize("kind", STRANGERS)
async def test_no_message_of_a_stranger_is_delivered_and_peers_go_on(kind: str) -> None:
    keys = paired("p", "q")
    async with asyncio.timeout(60), ends(keys) as made:
        p = made["p"]
        q = made["q"]
        there = await q.road.open()
        await p.road.open()
        address = place(there.control[0])
        loop = asyncio.get_running_loop()
        said = Envelope(Note(number=2, text="forged"), 1 << 40, "me", 1, "you")
        door = Door(*address, keys["q"].public, p.road._identity, said)
        with recording(*address) as recorder:
            p.road.connect("q", replace(there, control=(f"curve://127.0.0.1:{recorder.port}",)))
            await p.say("q", 1)
            assert await q.came.get() == 1
            door.recorded = recorder.sent
            assert len(door.recorded) > 500  # a whole handshake and one message
            assert not await loop.run_in_executor(None, STRANGERS[kind], door)
            await p.say("q", 3)
            assert await q.came.get() == 3
            assert p.lost.empty()
        assert q.came.empty()
        if kind in ("unknown_key", "wrong_server_key", "null", "plain"):
            who, error = await q.refused.get()
            assert who.startswith("a stranger")
            assert error.reason == "refused"
        for held in door.held:
            held.close()


async def test_a_peer_is_accepted_under_its_own_name_only() -> None:
    keys = paired("p", "q", "r")
    async with asyncio.timeout(60), ends({**keys, "liar": keys["r"]}) as made:
        q = made["q"]
        liar = made["liar"]
        there = await q.road.open()
        liar.road._identity = b"p/1.7"  # with the key of r
        liar.road.connect("q", there)
        await liar.say("q", 2)
        who, error = await q.refused.get()
        assert (who, error.reason) == ("r", "refused")
        assert "it claims to be p/1.7" in str(error)
        assert q.came.empty()


async def test_connecting_to_a_peer_without_a_key_for_it_is_an_error() -> None:
    keys = paired("p", "q")
    async with ends({"p": replace(keys["p"], peers={})}) as made:
        with pytest.raises(
            LaunchError, match=("links to 'q' are encrypted, and this process has no key for them")
        ):
            made["p"].road.connect(
                "q", Endpoints(("curve://127.0.0.1:9",), ("curve://127.0.0.1:9",))
            )


@pytest.mark.parametrize(
    "size", [SEALED_PART - 1, SEALED_PART, SEALED_PART + 1, 3 * SEALED_PART + 5, PARTS_FROM + 1]
)
async def test_frames_of_every_size_arrive_as_they_were(size: int) -> None:
    keys = paired("p", "q")
    came = asyncio.Queue[Envelope]()
    async with asyncio.timeout(30), ends(keys) as made:
        p = made["p"]
        q = made["q"]
        q.road.deliver = lambda envelope, size, release: (came.put_nowait(envelope), release())[1]
        there = await q.road.open()
        p.road.connect("q", there)
        blob = np.random.default_rng(1).integers(0, 256, size, np.uint8)
        await p.road.send("q", Envelope(Load(number=1, blobs=(blob, blob[:10])), 1, "me", 1, "you"))
        message = (await came.get()).message
        assert isinstance(message, Load)
        assert [part.tobytes() for part in message.blobs] == [blob.tobytes(), blob[:10].tobytes()]


@pytest.mark.slow
async def test_a_process_may_have_many_more_peers_than_zeromq_foresees() -> None:
    descriptors.more()  # each peer needs 8 descriptors
    others = [f"q{number}" for number in range(400)]
    keys = paired("p", *others)
    async with asyncio.timeout(60), ends({"p": keys["p"]}) as made:
        p = made["p"]
        for name in others:  # two lanes each; that port has no listener
            p.road.connect(name, Endpoints(("curve://127.0.0.1:9",), ("curve://127.0.0.1:9",)))
        assert {await p.lost.get() for _ in others} == set(others)


def test_keys_are_read_back_equal_and_their_repr_is_empty(tmp_path: Path) -> None:
    keys = Keys("s3cret", *key_pair(), {"q": key_pair()[0]})
    keys.write(tmp_path / "keys")
    assert Keys.read(tmp_path / "keys") == keys
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600
    assert repr(keys) == "Keys()"
    with pytest.raises(FileExistsError):
        keys.write(tmp_path / "keys")
    (tmp_path / "wrong").touch(0o600)
    for wrong in (b"", b"[]", b"{}", b"[1, 2, 3, 4]", b'["", "xx", "", {}]', b"\xff"):
        (tmp_path / "wrong").write_bytes(wrong)
        with pytest.raises(
            LaunchError,
            match=r"wrong: not the keys of a process, or damaged: expected the keys of this",
        ):
            Keys.read(tmp_path / "wrong")
    with pytest.raises(
        LaunchError,
        match=r"nothing: No such file or directory: expected the keys of this process, which",
    ):
        Keys.read(tmp_path / "nothing")


def test_only_agreed_keys_and_secrets_are_admitted() -> None:
    (public, private), (other, _) = key_pair(), key_pair()
    keys = Keys("a secret", public, private, {"q": other})
    assert keys.admitted(b"CURVE", [other]) == (b"q", "")
    assert keys.admitted(b"PLAIN", [b"convoy", b"a secret"]) == (b"convoy", "")
    for mechanism, shown in ((b"CURVE", [public]), (b"CURVE", []), (b"NULL", [])):
        assert keys.admitted(mechanism, shown)[0] == b""
    for shown in ([b"convoy", b"another"], [], [b"convoy", other]):
        assert keys.admitted(b"PLAIN", shown) == (b"", "it does not know this run's secret")
    assert Keys().admitted(b"PLAIN", [b"convoy", b""])[0] == b""
