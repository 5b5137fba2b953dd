"""The start of the CUDA driver, and the reasons why it cannot start, in words.

The driver's first call may take seconds. CuPy makes it with the interpreter's lock held: the event
loop of the process would stand still, and the process would count as dead. A call through ctypes
releases the lock while the driver starts. CuPy's later calls return at once. Sources: CUDA Driver
API, "Initialization", "Version Management", "Primary Context Management".
"""

from __future__ import annotations

import ctypes
import importlib.util
from importlib import metadata

from ops.errors import OpsError

LIBRARY = "libcuda.so.1"  # comes with the driver
# wheels of CuPy -> the major version of CUDA that they need
WHEELS = {f"cupy-cuda{major}x": major for major in (11, 12, 13)}
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
WHY = {  # number of a CUDA error -> the reason, and what the user can do
    2: "its memory does not suffice for another process: nvidia-smi lists those that use it",
    3: (
        "CUDA was used in the process that this one was forked from: nothing may touch the "
        "GPU before the fork"
    ),
    46: "another process has exclusive use of it, or it is lost: see nvidia-smi",
    101: "the driver does not know it",
    802: "its fabric has not started: see nvidia-fabricmanager",
    803: (
        "the driver's kernel module and its libraries have different versions: reboot, or "
        "reinstall the driver"
    ),
}


def lacking() -> str | None:
    """Return what this machine lacks for the CuPy backend, as far as it can be seen without
    starting the driver. None if nothing is missing. Imports neither cupy nor anything that makes a
    later fork unsafe."""
    if importlib.util.find_spec("cupy") is None:
        return "cupy is not installed: install the extra 'gpu' or cupy-cuda13x[ctk]"
    try:
        driver = ctypes.CDLL(LIBRARY)
    except OSError:
        return f"there is no NVIDIA driver ({LIBRARY} cannot be loaded): install one, 580 or newer"
    version = ctypes.c_int()
    needed = _needed()
    driver.cuDriverGetVersion(ctypes.byref(version))
    found = version.value // 1000, version.value % 1000 // 10
    if needed is not None and found[0] < needed:
        return (
            f"the driver is too old: it is for CUDA {found[0]}.{found[1]}, this cupy needs "
            f"{needed}.0: update the "
            f"driver, or install cupy-cuda{found[0]}x[ctk]"
        )
    return None


def start(device: int) -> None:
    """Start the driver and the device's context, with the interpreter's lock released. Raises
    OpsError that names what is missing."""
    if why := lacking():
        raise _error(why)
    driver = ctypes.CDLL(LIBRARY)
    count = ctypes.c_int()
    handle = ctypes.c_int()
    context = ctypes.c_void_p()
    status = driver.cuInit(0)
    if status == NO_DEVICE:
        raise _error(
            "no CUDA device: the driver knows of none, or CUDA_VISIBLE_DEVICES hides them all"
        )
    if status:
        raise _error(f"the driver cannot be started: {_reason(driver, status)}")
    driver.cuDeviceGetCount(ctypes.byref(count))
    if not 0 <= device < count.value:
        raise _error(
            f"found device {device}, expected 0 to {count.value - 1}: this machine "
            f"has {count.value}"
        )
    status = driver.cuDeviceGet(ctypes.byref(handle), device)
    # the context is kept until the process ends
    if status := status or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle):
        raise _error(f"device {device} cannot be used: {_reason(driver, status)}")


def _needed() -> int | None:
    """The CUDA version that the installed cupy is for; None if it was built by hand."""
    for wheel, major in WHEELS.items():
        try:
            metadata.version(wheel)
        except metadata.PackageNotFoundError:
            continue
        return major
    return None


def _reason(driver: ctypes.CDLL, status: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    said = (name.value or b"an unknown error").decode()
    return f"{WHY[status]} ({said})" if status in WHY else said


def _error(why: str) -> OpsError:
    return OpsError(f"backend 'cupy': {why}")
