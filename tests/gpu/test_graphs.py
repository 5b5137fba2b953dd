"""Capture of streams into graphs on the stand-in: what it refuses, launches, updates of kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script
from tests.gpu.test_races import BEGIN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

GRAPH = """
import ctypes
cudart = ctypes.CDLL("libcudart.so.13")
x, one, two = cupy.ones(8, "f"), cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
y = cupy.empty(8, "f")
cupy.cuda.Device().synchronize()
before = fake_cuda.counts()
with one:
    one.begin_capture()
    assert one.is_capturing() and not two.is_capturing()
    scaled(x, 2)
    forked = one.record()
    two.wait_event(forked)
    with two:
        assert two.is_capturing()
        rt.memcpyAsync(y.data.ptr, x.data.ptr, x.nbytes, rt.memcpyDeviceToDevice, two.ptr)
        joined = two.record()
    one.wait_event(joined)
    scaled(x, 3)
    graph = one.end_capture()
assert not one.is_capturing() and not two.is_capturing()
assert fake_cuda.counts()["launches"] == before["launches"]
assert (x.get() == 1).all()  # a captured call does not run
graph.launch(one)
graph.launch(two)  # a graph never runs twice at once, in whatever streams
two.synchronize()
assert (x.get() == 36).all() and (y.get() == 12).all()
assert fake_cuda.counts()["graphs"] == 2
text = graph.debug_dot_str()
assert text.count("the kernel scale") == 2 and text.count("a copy") == 1 and text.count("->") == 3, text
"""

UPDATE = """
with one:
    one.begin_capture()
    scaled(x, 2)
    handle = rt.streamEndCapture(one.ptr)
instance = rt.graphInstantiate(handle)
count = ctypes.c_size_t(9)
nodes = (ctypes.c_void_p * 9)()
assert cudart.cudaGraphGetNodes(ctypes.c_void_p(handle), nodes, ctypes.byref(count)) == 0 and count.value == 1
class Parameters(ctypes.Structure):
    _fields_ = [("func", ctypes.c_void_p), ("sizes", ctypes.c_uint * 6), ("shared", ctypes.c_uint),
                ("arguments", ctypes.POINTER(ctypes.c_void_p)), ("extra", ctypes.c_void_p)]
found = Parameters()
assert cudart.cudaGraphKernelNodeGetParams(ctypes.c_void_p(nodes[0]), ctypes.byref(found)) == 0
assert list(found.sizes) == [1, 1, 1, 8, 1, 1] and found.func == scale.kernel.ptr
assert ctypes.cast(found.arguments[1], ctypes.POINTER(ctypes.c_float))[0] == 2
x.fill(1)
cupy.cuda.Device().synchronize()
rt.graphLaunch(instance, one.ptr)
place, by = ctypes.c_void_p(x.data.ptr), ctypes.c_float(5)
found.arguments = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(by))
assert cudart.cudaGraphExecKernelNodeSetParams(ctypes.c_void_p(instance), ctypes.c_void_p(nodes[0]), ctypes.byref(found)) == 0
by.value = 100  # the arguments were copied
rt.graphLaunch(instance, one.ptr)
one.synchronize()
assert (x.get() == 10).all()  # the queued launch kept its 2
with one:
    one.begin_capture()
    scaled(x, 7)
    other = rt.streamEndCapture(one.ptr)
    one.begin_capture()
    scaled(x, 7)
    scaled(x, 7)
    longer = rt.streamEndCapture(one.ptr)
result = (ctypes.c_char * 64)()
def update(graph):
    return cudart.cudaGraphExecUpdate(ctypes.c_void_p(instance), ctypes.c_void_p(graph), result)
assert update(longer) == 910 and update(other) == 0
x.fill(1)
cupy.cuda.Device().synchronize()
rt.graphLaunch(instance, one.ptr)
one.synchronize()
assert (x.get() == 7).all()
for graph in (handle, other, longer):
    rt.graphDestroy(graph)
rt.graphExecDestroy(instance)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_repeats_the_work_of_its_streams_in_their_order(seed: int, stand_in: Path) -> None:
    done = script(BEGIN + GRAPH + UPDATE, on_fake_cuda(stand_in, seed=seed))
    assert done.returncode == 0, done.stderr


CAPTURE = """
one, other, plain = (cupy.cuda.Stream(non_blocking=flag) for flag in (True, True, False))
x, host = cupy.ones(8, "f"), numpy.ones(8, "f")
before = other.record()
cupy.cuda.Device().synchronize()
RELAXED, STRICT = rt.streamCaptureModeRelaxed, rt.streamCaptureModeGlobal
with other:
    scaled(x, 1)
    before = other.record()
def refuses(number, call, *arguments, stream=one, mode=RELAXED, end=901):
    "What is refused during a capture, and how the capture ends."
    rt.streamBeginCapture(stream.ptr, mode)
    with stream:
        scaled(x, 2)
    refused(number, call, *arguments)
    refused(end, rt.streamEndCapture, stream.ptr)
"""

REFUSED = {
    "capture of the default stream": "refused(900, rt.streamBeginCapture, 0, RELAXED)",
    "a second capture of a stream": (
        "rt.streamBeginCapture(one.ptr, RELAXED); refused(401, rt.streamBeginCapture, one.ptr, RELAXED)"
    ),
    "an end without a beginning": "refused(401, rt.streamEndCapture, one.ptr)",
    "a wait for the stream": "refuses(900, rt.streamSynchronize, one.ptr)",
    "a question about the stream": (
        "refuses(900, lambda: rt.check_status(rt.streamQuery(one.ptr)))"
    ),
    "a wait for the device": "refuses(900, rt.deviceSynchronize)",
    "the default stream next to a blocking stream": "refuses(906, scaled, x, 2, stream=plain)",
    "a synchronous copy next to a blocking stream": (
        "refuses(906, rt.memcpy, x.data.ptr, host.ctypes.data, 32, rt.memcpyHostToDevice, stream=plain)"
    ),
    "an allocation in a strict capture": "refuses(900, rt.malloc, 512, mode=STRICT)",
    "a wait for work outside": "refuses(905, one.wait_event, before)",
    "a wait for a captured event": (
        "rt.streamBeginCapture(one.ptr, RELAXED); event = one.record()\n"
        "refused(907, event.synchronize); refused(901, rt.streamEndCapture, one.ptr)"
    ),
    "a branch that is not joined": (
        "rt.streamBeginCapture(one.ptr, RELAXED); other.wait_event(one.record())\n"
        "with other: scaled(x, 2)\n"
        "refused(904, rt.streamEndCapture, one.ptr)\n"
        "assert not other.is_capturing()"
    ),
    "an end in another stream": (
        "rt.streamBeginCapture(one.ptr, RELAXED); other.wait_event(one.record())\n"
        "refused(903, rt.streamEndCapture, other.ptr); refused(901, rt.streamEndCapture, one.ptr)"
    ),
    "a merge of two captures": (
        "rt.streamBeginCapture(one.ptr, RELAXED); rt.streamBeginCapture(other.ptr, RELAXED)\n"
        "refused(902, other.wait_event, one.record())"
    ),
    "an end in another thread": (
        "import threading; rt.streamBeginCapture(one.ptr, STRICT)\n"
        "thread = threading.Thread(target=refused, args=(908, rt.streamEndCapture, one.ptr))\n"
        "thread.start(); thread.join(); refused(901, rt.streamEndCapture, one.ptr)"
    ),
}


EACH = """
import gc, json, sys
capture, cases = json.loads(sys.argv[1])
for case, code in cases.items():
    print(case, flush=True)
    exec(capture + code, dict(globals()))
    gc.collect()  # streams that are still captured
"""


def test_a_capture_refuses_what_cuda_refuses_and_ends(stand_in: Path) -> None:
    done = script(BEGIN + EACH, on_fake_cuda(stand_in), json.dumps([CAPTURE, REFUSED]))
    assert done.returncode == 0, done.stdout + done.stderr
