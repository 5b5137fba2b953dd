"""Every optimizer and the average of parameters on a device, many parameters at once, compared with
NumPy."""

from __future__ import annotations

from pathlib import Path

from tests.fake_cuda.processes import on_fake_cuda, script

STEPS = """
import dataclasses, pathlib, sys
import numpy as np
from nets import OptimizerSettings, ParamSpec, SolverExtras, WeightAverage, load_solver
from nets.definition.solver_types import RULES
from nets.schema import caffe_pb2 as caffe
from ops import get_backend
from roles.learning.parameter_store import ParameterStore

file = pathlib.Path(sys.argv[1]) / "s.prototxt"
file.write_text('base_lr: 0.1 lr_policy: "fixed" max_iter: 9 momentum: 0.5 weight_decay: 0.01')
shapes = {"conv": ((6, 3, 3, 3), (6,)), "ip": ((5, 8), (5,)), "ip2": ((5, 8), (5,))}
params = {
    layer: tuple(
        ParamSpec(layer, n, "w", shape, caffe.FillerParameter(), 1.0 + n, 1.0 - n)
        for n, shape in enumerate(of)
    )
    for layer, of in shapes.items()
}
def drawn(seed):
    random = np.random.default_rng(seed)
    return {
        layer: tuple(random.standard_normal(shape).astype("f") for shape in of)
        for layer, of in shapes.items()
    }
extras = SolverExtras(
    optimizer=OptimizerSettings("weights", (("conv", 0.5),)), average=WeightAverage(0.5)
)
for kind in RULES:
    values = {"type": kind, **({"momentum": 0.0} if kind in ("AdaGrad", "RMSProp") else {})}
    solver = load_solver(file, values, extras)
    stores = []
    for name in ("numpy", "cupy"):
        ops = get_backend(name)
        first = {layer: tuple(map(ops.asarray, of)) for layer, of in drawn(0).items()}
        store = ParameterStore(params, first, solver, ops, in_place=True)
        for step in (1, 2, 3):
            store.apply_all(drawn(step))
        stores.append(store.state())
    numpy, cupy = stores
    assert numpy.keys() == cupy.keys()
    for name, array in numpy.items():
        error = np.abs(cupy[name] - array).max() / np.abs(array).max()
        assert error < 1e-4, (kind, name, error)
print("all of", len(RULES))
"""


def test_optimizers_and_averages_are_those_of_numpy(stand_in: Path, tmp_path: Path) -> None:
    done = script(STEPS, on_fake_cuda(stand_in), tmp_path)
    assert done.stdout.startswith("all of "), done.stderr
