"""Damaged files of every format: each is read or refused in words, without a crash, a hang or
unlimited memory."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nets.data.lmdb.writers import records_of, write_lmdb
from nets.definition.spec import ZOO
from nets.files.mean import write_mean
from nets.files.solverstate import SolverState, write_solverstate
from nets.files.weights import write_weights
from tests.nets.mutate import READERS
from tests.nets.test_data import write_idx

COUNT = 80  # files of each kind; 1120 in all

h5py = pytest.importorskip("h5py")
pytest.importorskip("lmdb")
pillow = pytest.importorskip("PIL.Image")


def prepare(directory, kind):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (3, 12, 10), dtype=np.uint8)
    weights = {
        "conv": (rng.random((4, 3, 3, 3), np.float32), rng.random(4, np.float32)),
        "ip": (rng.random((2, 9)),),
    }
    state = SolverState(7, tuple(weights["conv"]), "net.caffemodel", 1)
    make = {
        "net.prototxt": lambda p: p.write_text((ZOO / "lenet.prototxt").read_text()),
        "solver.prototxt": lambda p: p.write_text((ZOO / "lenet_solver.prototxt").read_text()),
        "mean.binaryproto": lambda p: write_mean(p, image),
        "batch.bin.gz": lambda p: p.write_bytes(gzip.compress(bytes(range(10)) * 3073)),
        "photo.jpg": lambda p: pillow.fromarray(image.transpose(1, 2, 0)).save(p),
        "photo.png": lambda p: pillow.fromarray(image.transpose(1, 2, 0)).save(p),
    }
    path = directory / kind
    if kind in make:
        make[kind](path)
    elif kind.startswith("weights"):
        write_weights(path, weights)
    elif kind.startswith("state"):
        write_solverstate(path, state)
    elif kind == "data.mdb":
        write_lmdb(directory / "db", records_of((image[:, :6], label) for label in range(300)))
        path.write_bytes((directory / "db" / "data.mdb").read_bytes())
    elif kind == "data.h5":
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "data", data=rng.random((20, 3, 4, 4)), chunks=True, compression="gzip"
            )
            file.create_dataset("label", data=np.arange(20))
    elif kind == "images.idx":
        write_idx(path, image)
        write_idx(directory / "labels.idx", np.array([0, 1, 2], np.uint8))
    (directory / "photos.txt").write_text("photo.jpg 0\n")
    (directory / "pngs.txt").write_text("photo.png 0\n")


@pytest.mark.parametrize("kind", READERS)
def test_mutated_files_are_read_or_refused_in_words(tmp_path, kind):
    prepare(tmp_path, kind)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.nets.mutate", str(tmp_path), kind, str(COUNT)],
        cwd=Path(__file__).parents[2], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
