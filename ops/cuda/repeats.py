"""Operations that a net calls with the same arrays in every pass: later passes start their kernels
without the checks.

A net's arrays stay where they are. The work of an operation depends only on its numbers and on the
addresses and layouts of its arrays: they are its key. The second call with a key is recorded: the
kernels that it starts, with their arguments as the driver takes them. The third and all later calls
start the recorded kernels.

Only launches, products and cuDNN's plans are recorded. An operation that reads the backend's `xp`
may do other work, so it is never repeated, and `stopped` counts it. Neither is an operation
repeated whose results are not among its arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

from ops.cuda.image_layout import address
from ops.recording import Recording

# keys at a time: GoogLeNet's two nets have some 700; arrays of servers move, and must not fill the
# memory
MOST = 4096
Given = ParamSpec("Given")
Result = TypeVar("Result")
Key = tuple[Any, ...]
Call = Callable[[], object]


class Capture(NamedTuple):
    """A stream whose work becomes a graph, and the function that starts a product there, with the
    arguments of `cublasGemmEx` behind the handle."""

    stream: int
    product: Callable[..., None]


# starts the work of a call in the stream of a capture
Elsewhere = Callable[[Capture], object]


class Kept(NamedTuple):
    """The calls that one key starts, and the places of the results among its arguments, -1 for
    None."""

    calls: tuple[Call, ...]
    places: tuple[int, ...]
    several: bool  # the result is a tuple


SEEN = Kept((), (), False)
NEVER = Kept((), (), True)


class Repeats:
    """The recorded operations of one backend, used in the thread that computes. Arrays have the
    type `array`; `launch` is the driver's function."""

    def __init__(self, array: Any, launch: Callable[..., object], stream: int) -> None:
        self.known: dict[Key, Kept] = {}
        self.array = array
        self.stopped: Counter[str] = Counter()  # by name: operations that did other work
        self._launch = launch
        self._stream = stream
        self._calls: list[Call] | None = None  # calls of the operation that is being recorded
        # of calls that are recorded as a whole: their arrays, and how they start in a capture
        self._held: list[object] | None = None
        self._elsewhere: list[Elsewhere] = []
        self.age = 0  # how often recorded memory has moved
        self._whole = True  # whether these calls are all that it has done

    def __repr__(self) -> str:
        calls = [len(kept.calls) for kept in self.known.values() if kept.calls]
        return f"<repeats of {len(calls)} operations, {sum(calls)} calls>"

    @property
    def recording(self) -> bool:
        """Whether an operation is being recorded, so that each start must be added."""
        return self._calls is not None

    def add(self, call: Call, elsewhere: Elsewhere, *arrays: object) -> None:
        """Record a call that repeats the work just started on these arrays; `elsewhere` starts it
        in the stream of a capture."""
        if self._calls is not None:
            self._calls.append(call)
            if self._held is not None:
                self._held.extend(arrays)
                self._elsewhere.append(elsewhere)

    def add_launch(self, function: Any, grid: int, block: int, arguments: Sequence[Any]) -> None:
        """Record the start of a kernel. Arguments: arrays, which are passed as their addresses, and
        NumPy's numbers."""
        values = np.zeros(len(arguments), np.uint64)
        bytes_of = values.view(np.uint8).reshape(-1, 8)
        for place, a in zip(bytes_of, arguments, strict=True):
            number = a if isinstance(a, np.generic) else np.uint64(address(a))
            place[: number.nbytes] = np.frombuffer(number.tobytes(), np.uint8)
        places = values.ctypes.data + 8 * np.arange(len(arguments), dtype=np.uint64)
        shape = grid, 1, 1, block, 1, 1, 0  # blocks, threads, bytes of shared memory
        launch = self._launch
        kernel = function.kernel.ptr
        at = places.ctypes.data
        call = partial(launch, kernel, *shape, self._stream, at, 0)
        call.held = values, places, function  # type: ignore[attr-defined]  # the driver reads them at every call
        self.add(call, lambda to: launch(kernel, *shape, to.stream, at, 0), *arguments)

    def spoil(self) -> None:
        """Note that the operation does something that is not recorded."""
        self._whole = False

    def forget(self) -> None:
        """Forget all keys, because recorded memory has moved."""
        self.known.clear()
        self.age += 1

    def recorded(self, operation: Callable[[], Any]) -> tuple[Any, tuple[Call, ...] | None]:
        """Run an operation. Returns its result and the calls that it made; None instead of the
        calls if it did anything else."""
        self._calls = []
        self._whole = True
        try:
            result = operation()
            return result, tuple(self._calls) if self._whole else None
        finally:
            self._calls = None

    def record_all(self, pieces: Iterable[tuple[str, Callable[[], object]]]) -> Recording:
        """Do the work of all pieces, each with its name, and record it as a whole."""
        age = self.age
        calls: list[Call] = []
        held: list[object] = []
        gap = ""
        self._held = held
        elsewhere: list[Elsewhere] = []
        self._elsewhere = elsewhere
        try:
            for name, work in pieces:
                _, found = self.recorded(work)
                gap = name if found is None and not gap else gap
                calls += found or ()
        finally:
            self._held = None
        return Recording(calls, held, gap, lambda: self.age != age, elsewhere)

    def record(self, key: Key, arguments: Sequence[Any], operation: Callable[[], Any]) -> Any:
        """Run and record the second call with a key."""
        result, calls = self.recorded(operation)
        if calls is None:
            self.stopped[key[0].__name__] += 1
        several = isinstance(result, tuple)
        places = [_place(one, arguments) for one in (result if several else (result,))]
        if key in self.known:  # else memory has moved meanwhile
            found = [place for place in places if place is not None]
            whole = calls is not None and len(found) == len(places)
            self.known[key] = Kept(calls or (), tuple(found), several) if whole else NEVER
        return result

    def note(self, key: Key) -> None:
        """Note the first call with a key."""
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[key] = SEEN


class Repeating(Protocol):
    """A backend with or without repeats."""

    repeats: Repeats | None


On = TypeVar("On", bound=Repeating)


def repeated(
    operation: Callable[Concatenate[On, Given], Result],
) -> Callable[Concatenate[On, Given], Result]:
    """Decorator for an operation whose work depends on its arguments alone, as keys see them."""

    @wraps(operation)
    def started(self: On, /, *given: Given.args, **named: Given.kwargs) -> Result:
        repeats = self.repeats
        if repeats is None or repeats.recording:
            return operation(self, *given, **named)
        array = repeats.array
        arguments: tuple[Any, ...] = (*given, *named.values())
        parts = [
            (a.data.ptr, a.shape, a.strides, a.dtype) if type(a) is array else a for a in arguments
        ]
        key = (operation, *named, *parts)
        try:
            kept = repeats.known.get(key)
        except TypeError:
            # an argument has no hash, such as an array of the host, or arrays in a tuple
            return operation(self, *given, **named)
        if kept is None:
            repeats.note(key)
        if kept is None or kept is NEVER:
            return operation(self, *given, **named)
        if kept is SEEN:
            result: Result = repeats.record(
                key, arguments, lambda: operation(self, *given, **named)
            )
            return result
        for call in kept.calls:
            call()
        if not kept.several:
            return None if kept.places[0] < 0 else arguments[kept.places[0]]  # type: ignore[return-value]
        return tuple(None if at < 0 else arguments[at] for at in kept.places)  # type: ignore[return-value]

    return started


def _place(result: Any, arguments: Sequence[Any]) -> int | None:
    """The place of a result among the arguments; -1 for None, None if it is not among them."""
    return (
        -1 if result is None else next((at for at, a in enumerate(arguments) if a is result), None)
    )
