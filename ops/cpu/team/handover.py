"""How a team's threads hand each other work, as LLVM IR: a turn number that rises with each kernel,
a count of finished shares, and the sleep state and the last claimed share of each thread.

`post` announces a kernel. If all threads are awake it calls `finish`: the caller runs its share,
then every share that its thread has not begun, and waits for the rest. Otherwise it marks the
sleepers and returns their number; the caller wakes them and calls `finish`. `serve` is a thread's
life until it falls asleep.

A share is claimed before it is run, by its thread or by the caller, so it is run once. Its result
does not depend on who runs it. So the caller does not wait for a thread that other programs keep
from its core, unless the thread has begun.

If the caller waits for longer than its own share took, and threads were kept from their cores for
half of this wait, the team is late: other programs want the cores. The caller then runs all kernels
alone for a while. The while doubles with each late kernel, up to MOST_ALONE, and halves whenever
the team was in time for as long. Beside one busy program on two cores, `single` with two threads
had half the images per second of one thread before. A long wait alone says little: shares may be
unequal (three images for two threads). Judged by the wait only, airbench94 ran two steps of three
alone on an idle machine.

No wake-up is lost (Dekker). A thread first marks itself as asleep and then looks for work once
more; `post` first announces work and then looks for sleepers. So one of them sees the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I32, I64, VOID, declared, on_arm

# fields of the state, each on separate cache lines: turn, done, the kernel, its block, the time for
# which threads were kept from their cores while they ran their shares; then one per thread
TURN, DONE, KERNEL, BLOCK, KEPT = range(5)
FIELDS = 5
ASLEEP = 1
AWAKE = 2
LINE_BYTES = 128
# places in a thread's line: its sleep state, the last turn it saw, (the core of `team`), and the
# last turn whose share was claimed
LAST = 1
CLAIM = 3
# places in the caller's line: the time until which it runs kernels alone (0: it does not), for how
# long after the next late kernel, and since when the team has been in time
ALONE, PENALTY, IN_TIME = 4, 5, 6
WAKE = 7  # place in a thread's line: 1 if it slept when the last kernel was posted
# nanoseconds
LEAST_ALONE = 1_000_000
MOST_ALONE = 512_000_000
LEAST_LATE = 200_000  # a shorter wait is never late
PATIENCE = 20_000  # turns of a waiting loop, about 0.3 ms on x86; then a member sleeps
# turns after which the caller yields the core between looks: a member may be waiting for it
POLITE = 2_000


def build_handover(module: ir.Module) -> None:
    """Add the functions judge, finish, post, sequence
    and serve."""
    _judge(module)
    _finish(module)
    _post(module)
    _sequence(module)
    _serve(module)


def _function(
    module: ir.Module, name: str, result: ir.Type, count: int
) -> tuple[ir.IRBuilder, list[ir.Value]]:
    made = ir.Function(module, ir.FunctionType(result, [I64] * count), name)
    return ir.IRBuilder(made.append_basic_block("entry")), list(made.args)


def _field(b: ir.IRBuilder, state: ir.Value, index: ir.Value | int) -> ir.Value:
    offset = I64(index * LINE_BYTES) if isinstance(index, int) else b.mul(index, I64(LINE_BYTES))
    return b.inttoptr(b.add(state, offset), I64.as_pointer())


def _read(b: ir.IRBuilder, state: ir.Value, index: ir.Value | int) -> ir.Value:
    return b.load_atomic(_field(b, state, index), "seq_cst", 8)


def _write(b: ir.IRBuilder, state: ir.Value, index: ir.Value | int, value: ir.Value) -> None:
    b.store_atomic(value, _field(b, state, index), "seq_cst", 8)


def _swap(b: ir.IRBuilder, state: ir.Value, index: ir.Value, value: int) -> ir.Value:
    return b.atomic_rmw("xchg", _field(b, state, index), I64(value), "seq_cst")


def _pause(b: ir.IRBuilder) -> None:
    word = "yield" if on_arm(b) else "pause"
    b.call(ir.InlineAsm(ir.FunctionType(VOID, []), word, "", side_effect=True), [])


def _call(
    b: ir.IRBuilder, kernel: ir.Value, number: ir.Value, size: ir.Value, block: ir.Value
) -> None:
    kind = ir.FunctionType(VOID, [I64, I64, I64])
    b.call(b.inttoptr(kernel, kind.as_pointer()), [number, size, block])


def _place(b: ir.IRBuilder, state: ir.Value, number: ir.Value, index: int) -> ir.Value:
    """The address of a place in a thread's line."""
    line = _field(b, state, b.add(number, I64(FIELDS)))
    return b.gep(line, [I64(index)])


def _claimed(b: ir.IRBuilder, state: ir.Value, number: ir.Value, turn: ir.Value) -> ir.Value:
    """Claim the share of a thread in this turn: whether it was free."""
    at = _place(b, state, number, CLAIM)
    before = b.sub(turn, I64(1))  # every share of the turn before was claimed
    return b.extract_value(b.cmpxchg(at, before, turn, "seq_cst", "seq_cst"), 1)


def _run(
    b: ir.IRBuilder, state: ir.Value, number: ir.Value, size: ir.Value, clock: _Clock | None = None
) -> None:
    """Run a claimed share and count it. With a clock, tell for how long this thread was kept from
    its core meanwhile (reading the clocks takes 0.5 us)."""
    kernel, block = _read(b, state, KERNEL), _read(b, state, BLOCK)
    if clock is None:
        _call(b, kernel, number, size, block)
    else:
        began, used = clock.now(), clock.used()
        _call(b, kernel, number, size, block)
        kept = b.sub(b.sub(clock.now(), began), b.sub(clock.used(), used))
        b.atomic_rmw("add", _field(b, state, KEPT), kept, "seq_cst")
    b.atomic_rmw("add", _field(b, state, DONE), I64(1), "seq_cst")


def _finish(module: ir.Module) -> None:
    """finish(state, size, kernel, block, awake): run the caller's share and all shares that are not
    begun, then wait for the others. Threads that were not all `awake` are not judged: to wake one
    takes longer than many a share."""
    b, (state, size, kernel, block, awake) = _function(module, "finish", VOID, 5)
    clock = _Clock(b)
    began = clock.now()
    _call(b, kernel, I64(0), size, block)
    own = b.sub(clock.now(), began)
    turn = _read(b, state, TURN)
    with _each(b, I64(1), size) as number, b.if_then(_claimed(b, state, number, turn)):
        _run(b, state, number, size)
    waits = clock.now()
    start, head, again, rest, done = (
        b.block,
        *(b.append_basic_block(n) for n in ("head", "again", "rest", "done")),
    )
    b.branch(head)
    b.position_at_end(head)
    turns = b.phi(I64)
    turns.add_incoming(I64(0), start)
    b.cbranch(b.icmp_signed("<", _read(b, state, DONE), b.sub(size, I64(1))), again, done)
    b.position_at_end(again)
    _pause(b)
    more = b.add(turns, I64(1))
    turns.add_incoming(more, again)
    b.cbranch(b.icmp_signed("<", more, I64(POLITE)), head, rest)
    b.position_at_end(rest)
    b.call(declared(b, "sched_yield", I32, []), [])
    turns.add_incoming(I64(0), rest)
    b.branch(head)
    b.position_at_end(done)
    now = clock.now()
    with b.if_then(b.icmp_signed("!=", awake, I64(0))):
        b.call(module.globals["judge"], [state, b.sub(now, waits), own, now])
    b.ret_void()


class _Clock:
    """Times in nanoseconds."""

    def __init__(self, b: ir.IRBuilder) -> None:
        self._b = b
        self._at = b.alloca(I64, 2)

    def now(self) -> ir.Value:
        """The time."""
        return self._read(time.CLOCK_MONOTONIC)

    def used(self) -> ir.Value:
        """For how long a core has run this thread."""
        return self._read(time.CLOCK_THREAD_CPUTIME_ID)

    def _read(self, clock: int) -> ir.Value:
        b = self._b
        read = declared(b, "clock_gettime", I32, [I32, I64.as_pointer()])
        b.call(read, [I32(clock), self._at])
        seconds = b.load(self._at)
        return b.add(b.mul(seconds, I64(10**9)), b.load(b.gep(self._at, [I64(1)])))


def _judge(module: ir.Module) -> None:
    """judge(state, waited, own, now): let the caller run the next kernels alone if it waited for
    longer than its own share took, and threads were kept from their cores for half of this wait.
    All in nanoseconds."""
    b, (state, waited, own, now) = _function(module, "judge", VOID, 4)
    alone, penalty, in_time = (_place(b, state, I64(0), at) for at in (ALONE, PENALTY, IN_TIME))
    patient = b.select(b.icmp_signed(">", own, I64(LEAST_LATE)), own, I64(LEAST_LATE))
    kept = b.shl(_read(b, state, KEPT), I64(1))
    before = b.load(penalty)
    long = b.icmp_signed(">", waited, patient)
    late = b.and_(long, b.icmp_signed(">", kept, waited))
    with b.if_then(late):
        until = b.add(now, before)
        b.store(until, alone)
        b.store(until, in_time)
        twice = b.shl(before, I64(1))
        most = I64(MOST_ALONE)
        b.store(b.select(b.icmp_signed("<", twice, most), twice, most), penalty)
    with b.if_then(b.icmp_signed(">", b.sub(now, b.load(in_time)), before)):
        b.store(now, in_time)
        half = b.ashr(before, I64(1))
        least = I64(LEAST_ALONE)
        b.store(b.select(b.icmp_signed(">", half, least), half, least), penalty)
    b.ret_void()


def _all_alone(
    b: ir.IRBuilder, state: ir.Value, size: ir.Value, kernel: ir.Value, block: ir.Value
) -> None:
    """Run every share by the caller. They are claimed before the turn is announced, so the threads
    find none, and fall asleep."""
    turn = b.add(_read(b, state, TURN), I64(1))
    with _each(b, I64(1), size) as number:
        b.store_atomic(turn, _place(b, state, number, CLAIM), "seq_cst", 8)
    _write(b, state, TURN, turn)
    with _each(b, I64(0), size) as number:
        _call(b, kernel, number, size, block)


@contextmanager
def _each(b: ir.IRBuilder, first: ir.Value, end: ir.Value) -> Iterator[ir.Value]:
    """A loop over the numbers [first, end)."""
    before = b.block
    head, body, after = (b.append_basic_block(n) for n in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64)
    number.add_incoming(first, before)
    b.cbranch(b.icmp_signed("<", number, end), body, after)
    b.position_at_end(body)
    yield number
    number.add_incoming(b.add(number, I64(1)), b.block)
    b.branch(head)
    b.position_at_end(after)


def _post(module: ir.Module) -> None:
    """post(state, size, kernel, block) -> the number of members that sleep, each with a mark at
    WAKE; 0 if the kernel has been run."""
    b, (state, size, kernel, block) = _function(module, "post", I64, 4)
    clock = _Clock(b)
    alone = _place(b, state, I64(0), ALONE)
    until = b.load(alone)
    with b.if_then(b.icmp_signed("!=", until, I64(0))):
        with b.if_then(b.icmp_signed("<", clock.now(), until)):
            _all_alone(b, state, size, kernel, block)
            b.ret(I64(0))
        b.store(I64(0), alone)
    for index, value in ((KERNEL, kernel), (BLOCK, block), (DONE, I64(0)), (KEPT, I64(0))):
        _write(b, state, index, value)
    _write(b, state, TURN, b.add(_read(b, state, TURN), I64(1)))
    sleepers = b.alloca(I64)
    b.store(I64(0), sleepers)
    with _each(b, I64(1), size) as number:
        before = _swap(b, state, b.add(number, I64(FIELDS)), AWAKE)
        slept = b.zext(b.icmp_signed("==", before, I64(ASLEEP)), I64)
        b.store(slept, _place(b, state, number, WAKE))
        b.store(b.add(b.load(sleepers), slept), sleepers)
    with b.if_then(b.icmp_signed("==", b.load(sleepers), I64(0))):
        b.call(module.globals["finish"], [state, size, kernel, block, I64(1)])
    b.ret(b.load(sleepers))


def _sequence(module: ir.Module) -> None:
    """sequence(state, size, calls, first, end) -> 2^16 times the number of the kernel whose threads
    must be woken, plus how many; 2^16 times `end` if all have been run. `calls`: for each kernel
    its address and its block."""
    b, (state, size, calls, first, end) = _function(module, "sequence", I64, 5)
    table = b.inttoptr(calls, I64.as_pointer())
    alone = b.icmp_signed("==", size, I64(1))
    with _each(b, first, end) as number:
        at = b.shl(number, I64(1))
        kernel, block = (b.load(b.gep(table, [b.add(at, I64(k))])) for k in (0, 1))
        with b.if_else(alone) as (one, several):
            with one:
                _call(b, kernel, I64(0), size, block)
            with several:
                asleep = b.call(module.globals["post"], [state, size, kernel, block])
                with b.if_then(b.icmp_signed("!=", asleep, I64(0))):
                    b.ret(b.or_(b.shl(number, I64(16)), asleep))
    b.ret(b.shl(end, I64(16)))


def _serve(module: ir.Module) -> None:
    """serve(state, number, size): run posted kernels until none comes for a while; then fall asleep
    and return."""
    b, (state, number, size) = _function(module, "serve", VOID, 3)
    clock = _Clock(b)
    mine = b.add(number, I64(FIELDS))
    last = _place(b, state, number, LAST)
    start, look, work, claimed, wait, sleep, late, out = (
        b.block,
        *(
            b.append_basic_block(n)
            for n in ("look", "work", "claimed", "wait", "sleep", "late", "out")
        ),
    )
    b.branch(look)
    b.position_at_end(look)
    turns = b.phi(I64)
    turns.add_incoming(I64(0), start)
    turn = _read(b, state, TURN)
    b.cbranch(b.icmp_signed("!=", turn, b.load(last)), work, wait)
    b.position_at_end(work)
    b.store(turn, last)
    b.cbranch(_claimed(b, state, number, turn), claimed, wait)
    b.position_at_end(claimed)
    _run(b, state, number, size, clock)
    turns.add_incoming(I64(0), claimed)
    b.branch(look)
    b.position_at_end(wait)
    _pause(b)
    more = b.add(turns, I64(1))
    turns.add_incoming(more, wait)
    b.cbranch(b.icmp_signed("<", more, I64(PATIENCE)), look, sleep)
    b.position_at_end(sleep)
    _write(b, state, mine, I64(ASLEEP))
    b.cbranch(b.icmp_signed("!=", _read(b, state, TURN), b.load(last)), late, out)
    # work was posted meanwhile: go on, unless the caller has already counted this thread as asleep
    b.position_at_end(late)
    turns.add_incoming(I64(0), late)
    b.cbranch(b.icmp_signed("==", _swap(b, state, mine, AWAKE), I64(ASLEEP)), look, out)
    b.position_at_end(out)
    b.ret_void()
