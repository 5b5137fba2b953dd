"""Our reader of LMDB files finds the records that the LMDB library wrote, and refuses every damaged
file in words."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nets import DataError
from nets.data import open_source
from nets.data.lmdb.mdb import open_mdb
from nets.data.lmdb.writers import records_of, write_lmdb
from tests.nets.support import SHARED, needs_shared

lmdb = pytest.importorskip("lmdb")


def database(path, steps):
    """Write a database by several transactions of (key, value or None to delete). Returns its
    records."""
    held = {}
    with lmdb.open(str(path), map_size=1 << 30, lock=False) as env:
        for step in steps:
            with env.begin(write=True) as transaction:
                for key, value in step:
                    if value is None:
                        transaction.delete(key)
                        held.pop(key, None)
                    else:
                        transaction.put(key, value)
                        held[key] = value
    return [held[key] for key in sorted(held)]


def records(path):
    found = open_mdb(path)
    return [found.record(at) for at in range(len(found))]


@settings(max_examples=25, deadline=None)
@given(
    keys=st.lists(st.binary(min_size=1, max_size=300), max_size=60), seed=st.integers(0, 99),
    largest=st.sampled_from([0, 20, 3000, 40000]), removed=st.integers(0, 3),
)  # fmt: skip
def test_the_reader_finds_every_record_in_key_order(tmp_path_factory, keys, seed, largest, removed):
    rng = np.random.default_rng(seed)
    steps = [[(key, rng.bytes(rng.integers(largest + 1))) for key in keys]]
    steps.append([(key, None) for key in keys[:: removed or len(keys) + 1]])
    path = tmp_path_factory.mktemp("db")
    expected = database(path, steps)
    assert records(path) == expected


def test_a_deep_tree_is_read_whole(tmp_path):
    steps = [[(b"%08d" % at + b"k" * 200, b"%d" % at) for at in range(20000)]]
    expected = database(tmp_path, steps)
    assert records(tmp_path) == expected


def test_a_database_cut_at_any_page_is_refused_by_name(tmp_path):
    write_lmdb(
        tmp_path / "db", records_of((np.full((1, 40, 40), at, np.uint8), at) for at in range(50))
    )
    data = (tmp_path / "db" / "data.mdb").read_bytes()
    for end in range(0, len(data) - 1, 2048):
        (tmp_path / "cut.mdb").write_bytes(data[:end])
        with pytest.raises(
            DataError, match=(r"/cut\.mdb: (damaged LMDB file: .|found \d+ " r"bytes, expected)")
        ):
            open_mdb(tmp_path / "cut.mdb")


def test_a_tree_that_runs_in_circles_is_refused(tmp_path):
    database(tmp_path, [[(b"%08d" % at, bytes(100)) for at in range(200)]])
    data = bytearray((tmp_path / "data.mdb").read_bytes())
    psize = struct.unpack_from("<I", data, 40)[0]
    roots = [struct.unpack_from("<Q", data, at + 112)[0] for at in (16, psize + 16)]
    root = next(page for page in roots if page < len(data) // psize)
    node = root * psize + struct.unpack_from("<H", data, root * psize + 16)[0]
    struct.pack_into("<HHH", data, node, root, 0, 0)  # the root's first child is the root itself
    (tmp_path / "data.mdb").write_bytes(data)
    with pytest.raises(DataError, match=f"page {root} is reached twice"):
        open_mdb(tmp_path)


def newest_meta(data):
    psize = struct.unpack_from("<I", data, 40)[0]
    return max((16, psize + 16), key=lambda at: struct.unpack_from("<Q", data, at + 128)[0])


def test_a_database_whose_counts_do_not_match_its_content_is_refused(tmp_path):
    database(tmp_path, [[(b"%d" % at, b"value") for at in range(5)]])
    data = bytearray((tmp_path / "data.mdb").read_bytes())
    struct.pack_into("<Q", data, newest_meta(data) + 104, 4)
    (tmp_path / "data.mdb").write_bytes(data)
    with pytest.raises(DataError, match="found 5 records, expected 4"):
        open_mdb(tmp_path)


def test_a_value_that_runs_past_the_end_of_the_file_is_refused(tmp_path):
    value = bytes(range(256)) * 40
    database(tmp_path, [[(b"a", value)]])
    data = bytearray((tmp_path / "data.mdb").read_bytes())
    node = data.index(struct.pack("<HHHH", len(value), 0, 1, 1))
    struct.pack_into("<HH", data, node, 0, 100)  # a size of 6.5 million bytes
    (tmp_path / "data.mdb").write_bytes(data)
    with pytest.raises(DataError, match=r"found a value on pages \d+ to \d+ of \d+"):
        open_mdb(tmp_path)


def test_several_values_a_key_are_refused(tmp_path):
    with lmdb.open(str(tmp_path), lock=False, max_dbs=1) as env:
        inner = env.open_db(b"inner")
        with env.begin(write=True, db=inner) as transaction:
            transaction.put(b"a", b"b")
    with pytest.raises(DataError, match="it holds several databases, expected one"):
        open_mdb(tmp_path)


@needs_shared
def test_the_database_caffe_wrote_reads():
    source = open_source(
        {"format": "lmdb", "source": "ilsvrc12_train_1_lmdb"}, SHARED / "caffe" / "lmdb"
    )
    assert (len(source), source.shape) == (1, (3, 256, 256))
    images, labels = source.read(np.array([0, 0]))
    assert labels.tolist() == [0, 0]
    path = str(SHARED / "caffe" / "lmdb" / "ilsvrc12_train_1_lmdb")
    with lmdb.open(path, readonly=True, lock=False) as env, env.begin() as transaction:
        raw = next(iter(transaction.cursor()))[1]
    assert images[1].tobytes() in raw
