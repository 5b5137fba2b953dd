"""A separate process that reads mutated files. Prints a line per kind. If a file is neither read
nor refused correctly, prints the reason and exits with 1.

Run as `python -m tests.nets.mutate DIRECTORY KIND COUNT`. The directory holds an intact file per
kind.
"""

import faulthandler
import resource
import sys
import time
from pathlib import Path

import numpy as np

from nets import NetError, load_net, load_solver
from nets.data import open_source
from nets.files.mean import read_mean
from nets.files.solverstate import read_solverstate
from nets.files.weights import read_weights

MEMORY = 3 << 30  # bytes of address space, the interpreter and its libraries included
# the probability of each kind of change; a cut is rare, since it leaves little to read
KINDS = (0.4, 0.1, 0.1, 0.15, 0.2, 0.05)
SLOW = 10.0  # Seconds for one small file. The limit finds hangs; it is not a measurement.


def everything(config):
    def read(path):
        source = open_source(config, path.parent)
        return source.read(np.arange(len(source)))

    return read


READERS = {
    "net.prototxt": load_net,
    "solver.prototxt": load_solver,
    "weights.caffemodel": read_weights,
    "weights.caffemodel.h5": read_weights,
    "weights.safetensors": read_weights,
    "state.solverstate": read_solverstate,
    "state.solverstate.h5": read_solverstate,
    "mean.binaryproto": read_mean,
    "data.mdb": everything({"format": "lmdb", "source": "data.mdb"}),
    "images.idx": everything({"format": "idx", "images": "images.idx", "labels": "labels.idx"}),
    "batch.bin.gz": everything({"format": "cifar10", "files": ["batch.bin.gz"]}),
    "data.h5": everything({"format": "hdf5", "source": "data.h5"}),
    "photo.jpg": everything({"format": "images", "source": "photos.txt"}),
    "photo.png": everything({"format": "images", "source": "pngs.txt"}),
}


def mutated(data, rng):
    """Make one to four changes: a byte, a run of bytes, a cut, a copy from another place, a large
    number."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        length = int(rng.integers(1, 33))
        match int(rng.choice(6, p=KINDS)):
            case 0:
                changed[at] ^= int(rng.integers(1, 256))
            case 1:
                changed[at : at + length] = rng.bytes(length)
            case 2:
                del changed[at : at + length]
            case 3:
                other = int(rng.integers(len(changed)))
                changed[at : at + length] = changed[other : other + length]
            case 4:
                changed[at : at + 4] = int(rng.choice([0, 2**31 - 1, 2**32 - 1, 2**30])).to_bytes(
                    4, "little"
                )
            case 5:
                del changed[at:]
    return bytes(changed)


def main(directory, kind, count):
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    path = directory / kind
    intact = path.read_bytes()
    READERS[kind](path)
    read = refused = 0
    for seed in range(count):
        path.write_bytes(mutated(intact, np.random.default_rng([seed, len(kind)])))
        faulthandler.dump_traceback_later(SLOW, exit=True)
        start = time.perf_counter()
        try:
            READERS[kind](path)
            read += 1
        except NetError as error:
            refused += 1
            assert error.problems, "the error names no problem"
            assert all(line.strip() and len(line) < 1000 for line in error.problems), error.problems
        except BaseException:
            print(f"{kind}: seed {seed}")
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
        assert time.perf_counter() - start < SLOW
    print(f"{kind}: {read} read, {refused} refused")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
