"""Files whose parts together claim more bytes than the file can hold: they are refused before
memory is allocated for them."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from nets import DataError, NetError
from nets.data import open_source
from nets.data.lmdb.mdb import open_mdb
from nets.data.lmdb.writers import records_of, write_lmdb
from nets.data.sources.source import stacked
from nets.files import checkpoint, hdf5
from nets.files.caffemodel import read_caffemodel
from nets.files.solverstate import SolverState, read_solverstate, write_solverstate
from nets.files.weights import read_each
from nets.schema import caffe_pb2 as caffe

h5py = pytest.importorskip("h5py")
TOGETHER = r"claim \d+ bytes in total, too large for a file of \d+ bytes"


@pytest.fixture
def read(monkeypatch):
    """The names of the datasets that were read."""
    names = []
    get = h5py.Dataset.__getitem__

    def noted(self, *arguments, **more):
        names.append(self.name)
        return get(self, *arguments, **more)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", noted)
    return names


def claims(group, names, numbers=1 << 20):
    """Create datasets of zeros that are not stored. Each claims less than the file can hold, and
    takes almost no space in it."""
    for name in names:
        group.create_dataset(name, shape=(numbers,), dtype="f4", chunks=(1024,), fillvalue=0)


def test_weights_whose_arrays_are_too_large_together_are_refused_before_any_is_read(tmp_path, read):
    path = tmp_path / "w.caffemodel.h5"
    with h5py.File(path, "w") as file:
        for layer in range(40):
            claims(file.create_group(f"data/ip{layer}"), "01")
    one = 4 << 20
    assert one < hdf5.RATIO * path.stat().st_size < 80 * one
    for reader in (hdf5.read_weights, lambda path: read_each([path])):
        with pytest.raises(
            NetError, match=(rf"w\.caffemodel\.h5: found \d+ datasets or more " rf"that {TOGETHER}")
        ):
            reader(path)
    assert read == []


def test_many_names_of_one_array_count_each(tmp_path, read):
    path = tmp_path / "w.caffemodel.h5"
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        zipped = data.create_dataset(
            "a/0", data=np.zeros(1 << 20, np.float32), compression="gzip", chunks=(1 << 20,)
        )
        for layer in range(100):
            data[f"l{layer}/0"] = zipped
    with pytest.raises(NetError, match=TOGETHER):
        hdf5.read_weights(path)
    assert read == []


def test_the_history_of_a_solver_is_refused_before_any_of_it_is_read(tmp_path, read):
    path = tmp_path / "s.solverstate.h5"
    write_solverstate(path, SolverState(3, (), "net.caffemodel"))
    with h5py.File(path, "a") as file:
        claims(file["history"], map(str, range(80)))
    with pytest.raises(NetError, match=TOGETHER):
        read_solverstate(path)
    assert not [name for name in read if name.startswith("/history")]


def test_the_tops_of_hdf5_data_are_refused_when_they_are_too_large_together(tmp_path, read):
    path = tmp_path / "d.h5"
    tops = [f"t{at}" for at in range(80)]
    with h5py.File(path, "w") as file:
        for top in tops:
            file.create_dataset(
                top, shape=(1 << 10, 1 << 10), dtype="f4", chunks=(64, 64), fillvalue=0
            )
    with pytest.raises(DataError, match=TOGETHER):
        open_source({"format": "hdf5", "source": "d.h5", "tops": tops}, tmp_path)
    assert read == []


def test_a_chunk_that_is_larger_than_the_file_can_hold_is_refused(tmp_path, read):
    path = tmp_path / "w.caffemodel.h5"
    with h5py.File(path, "w") as file:
        file.create_group("data/ip").create_dataset(
            "0", (1,), "f4", maxshape=(None,), chunks=(1 << 28,)
        )
    with pytest.raises(
        NetError, match=(r"found chunks of shape \(268435456,\), too large for " r"a file of")
    ):
        hdf5.read_weights(path)
    assert read == []


@pytest.mark.parametrize("learned", ["", "net.caffemodel", "ne\u00fcu"])
def test_files_that_convoy_and_caffe_write_are_read(tmp_path, learned):
    path = tmp_path / "s.solverstate.h5"
    state = SolverState(7, (np.ones((2, 3), np.float32),), learned, 2)
    write_solverstate(path, state)
    found = read_solverstate(path)
    assert (found.iteration, found.current_step, found.learned_net) == (7, 2, learned)
    with h5py.File(path, "a") as file:  # the string type that H5LTmake_dataset_string writes
        del file["learned_net"]
        file["learned_net"] = learned
    assert read_solverstate(path).learned_net == learned


def test_the_name_of_a_net_is_one_string_of_this_file(tmp_path, read):
    path = tmp_path / "s.solverstate.h5"
    (tmp_path / "secret").write_text("secret" * 99)
    odd = {
        "numbers": lambda file: claims(file, ["learned_net"], 1 << 40),
        "many": lambda file: file.create_dataset(
            "learned_net", (1 << 40,), h5py.string_dtype(), chunks=(1024,)
        ),
        "long": lambda file: file.create_dataset("learned_net", (), "S1000000"),
        "elsewhere": lambda file: file.create_dataset(
            "learned_net", (1,), "S99", external=[(str(tmp_path / "secret"), 0, 99)]
        ),
        "link": lambda file: file.__setitem__("learned_net", h5py.ExternalLink("other.h5", "/x")),
        "group": lambda file: file.create_group("learned_net"),
    }
    for make in odd.values():
        write_solverstate(path, SolverState(3, ()))
        with h5py.File(path, "a") as file:
            del file["learned_net"]
            make(file)
        with pytest.raises(NetError, match=r"s\.solverstate\.h5: /learned_net: found .*expected"):
            read_solverstate(path)
    assert "/learned_net" not in read
    write_solverstate(path, SolverState(3, ()))
    with h5py.File(path, "a") as file:
        del file["iter"]
        claims(file, ["iter"])
    with pytest.raises(NetError, match=r"/iter: found shape \(1048576,\), too large for a file of"):
        read_solverstate(path)


# -- other files with many parts


def test_images_are_decoded_until_the_first_of_another_shape():
    decoded = []

    def images():
        for at in range(1000):
            decoded.append(at)
            yield np.zeros((1, 1 + at, 1), np.uint8)

    with pytest.raises(
        DataError, match=(r"1: found an image of shape \(1, 2, 1\), expected " r"\(1, 1, 1\)")
    ):
        stacked(images(), [str(at) for at in range(1000)], (1, 1, 1))
    assert decoded == [0, 1]


@pytest.mark.parametrize("kind", ["images", "lmdb"])
def test_a_batch_of_a_source_is_decoded_until_the_first_of_another_shape(
    tmp_path, monkeypatch, kind
):
    pillow = pytest.importorskip("PIL.Image")
    from nets.data.decoding import decode
    from nets.data.lmdb import datum

    files = []
    for at in range(20):
        files.append(tmp_path / f"{at}.png")
        pillow.new("L", (8 + 8 * (at > 0), 8)).save(files[-1])
    if kind == "images":
        (tmp_path / "list").write_text("".join(f"{file.name} 0\n" for file in files))
        source = open_source({"format": "images", "source": "list"}, tmp_path)
    else:
        pytest.importorskip("lmdb")
        records = [
            (b"%02d" % at, caffe.Datum(encoded=True, data=file.read_bytes()))
            for at, file in enumerate(files)
        ]
        write_lmdb(tmp_path / "db", [(key, record.SerializeToString()) for key, record in records])
        source = open_source({"format": "lmdb", "source": "db"}, tmp_path)
    count = []
    image = decode.image
    monkeypatch.setattr(decode, "image", lambda *arguments: count.append(1) or image(*arguments))
    assert datum.decode is decode
    with pytest.raises(DataError, match=r"expected .* like the first"):
        source.read(np.arange(20))
    assert len(count) == 2


def value_pages(data: bytearray) -> Iterator[int]:
    """The offsets in an LMDB file where nodes of its leaves name the first page of a large value.
    The rest of a page is arbitrary memory."""
    for page in range(2 * 4096, len(data), 4096):
        flags, lower = struct.unpack_from("<HH", data, page + 10)
        if flags != 0x02:  # not a leaf
            continue
        for pointer in range(16, lower, 2):
            node = page + struct.unpack_from("<H", data, page + pointer)[0]
            node_flags, key_bytes = struct.unpack_from("<HH", data, node + 4)
            if node_flags & 0x01:  # the value has its own pages
                yield node + 8 + key_bytes


def test_a_database_may_have_a_name_that_is_not_utf_8(tmp_path):
    pytest.importorskip("lmdb")
    where = tmp_path / "caf\udce9"
    write_lmdb(where, records_of([(np.full((1, 4, 4), at, np.uint8), at) for at in range(3)]))
    assert len(open_mdb(where).starts) == 3


def test_records_of_a_database_that_overlap_are_refused(tmp_path):
    pytest.importorskip("lmdb")
    images = [(np.full((1, 128, 128), at, np.uint8), at) for at in range(9)]
    write_lmdb(tmp_path / "db", records_of(images))
    file = tmp_path / "db" / "data.mdb"
    data = bytearray(file.read_bytes())
    database = open_mdb(tmp_path / "db")
    pages = [int(start) // 4096 for start in database.starts]
    for at in value_pages(data):
        if struct.unpack_from("<Q", data, at)[0] in pages:
            struct.pack_into("<Q", data, at, pages[0])
    del data[max(pages[0] + 5, min(pages) + 5) * 4096 :]
    file.write_bytes(data + bytes(-len(data) % 4096))
    with pytest.raises(
        DataError,
        match=(
            r"db: damaged LMDB file: its records have \d+ bytes in total, but "
            r"the file has \d+"
        ),
    ):
        open_mdb(tmp_path / "db")


def test_arrays_of_a_checkpoint_cannot_share_bytes_or_extend_beyond_the_file(tmp_path):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"a": np.zeros(8, np.float32), "b": np.zeros(8, np.float32)}, {})
    data = path.read_bytes()
    for harm in (
        data.replace(b'"data_offsets":[32,64]', b'"data_offsets":[0,32] '),
        data.replace(b'"shape":[8]', b'"shape":[9]'),
        data[:-1],
    ):
        assert harm != data
        path.write_bytes(harm)
        with pytest.raises(NetError, match=r"c\.safetensors: damaged or not a checkpoint"):
            checkpoint.load(path)


def test_blobs_of_a_caffemodel_have_as_many_numbers_as_their_shapes_claim(tmp_path):
    path = tmp_path / "w.caffemodel"
    net = caffe.NetParameter()
    for layer in range(3):
        blob = net.layer.add(name=f"ip{layer}").blobs.add(data=[0.0])
        blob.shape.dim.extend([1 << 30, 1 << 30])
    path.write_bytes(net.SerializeToString())
    with pytest.raises(NetError) as refused:
        read_caffemodel(path)
    assert len(refused.value.problems) == 3
