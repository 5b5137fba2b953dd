"""How a team's threads hand each other work, as LLVM IR: a turn number that rises with each kernel,
a count of finished shares, and the sleep state and the last claimed share of each thread.

`post` announces a kernel. If all threads are awake it calls `finish`: the caller runs its share,
then every share that its thread has not begun, and waits for the rest. Otherwise it returns the
sleepers as bits; the caller wakes them and calls `finish`. `serve` is a thread's life until it
falls asleep.

A share is claimed before it is run, by its thread or by the caller, so it is run once. Its result
does not depend on who runs it. A thread that other programs keep from its core thus costs no more
than its share: beside a busy program, two threads had 0.55 of the speed of one when the caller
waited for them.

No wake-up is lost (Dekker). A thread first marks itself as asleep and then looks for work once
more; `post` first announces work and then looks for sleepers. So one of them sees the other.
"""

from __future__ import annotations

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I32, I64, VOID, declared, on_arm

# fields of the state, each on separate cache lines: turn, done, the kernel, its block; then one per
# thread
TURN, DONE, KERNEL, BLOCK = range(4)
FIELDS = 4
ASLEEP = 1
AWAKE = 2
LINE_BYTES = 128
# places in a thread's line: its sleep state, the last turn it saw, (the core of `team`), and the
# last turn whose share was claimed
LAST = 1
CLAIM = 3
PATIENCE = 20_000  # turns of a waiting loop, about 0.3 ms on x86; then a member sleeps
# turns after which the caller yields the core between looks: a member may be waiting for it
POLITE = 2_000


def build_handover(module: ir.Module) -> None:
    """Add the functions post, finish and serve."""
    _finish(module)
    _post(module)
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


def _run(b: ir.IRBuilder, state: ir.Value, number: ir.Value, size: ir.Value) -> None:
    """Run a claimed share and count it."""
    _call(b, _read(b, state, KERNEL), number, size, _read(b, state, BLOCK))
    b.atomic_rmw("add", _field(b, state, DONE), I64(1), "seq_cst")


def _finish(module: ir.Module) -> None:
    """finish(state, size, kernel, block): run the caller's share and all shares that are not begun,
    then wait for the others."""
    b, (state, size, kernel, block) = _function(module, "finish", VOID, 4)
    _call(b, kernel, I64(0), size, block)
    turn = _read(b, state, TURN)
    own, each, claim, helped, following, wait = (
        b.block,
        *(b.append_basic_block(n) for n in ("each", "claim", "helped", "following", "wait")),
    )
    b.branch(each)
    b.position_at_end(each)
    number = b.phi(I64)
    number.add_incoming(I64(1), own)
    b.cbranch(b.icmp_signed("<", number, size), claim, wait)
    b.position_at_end(claim)
    b.cbranch(_claimed(b, state, number, turn), helped, following)
    b.position_at_end(helped)
    _run(b, state, number, size)
    b.branch(following)
    b.position_at_end(following)
    number.add_incoming(b.add(number, I64(1)), following)
    b.branch(each)
    b.position_at_end(wait)
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
    b.ret_void()


def _post(module: ir.Module) -> None:
    """post(state, size, kernel, block) -> bits of the members that sleep; 0 if the kernel has been
    run."""
    b, (state, size, kernel, block) = _function(module, "post", I64, 4)
    for index, value in ((KERNEL, kernel), (BLOCK, block), (DONE, I64(0))):
        _write(b, state, index, value)
    _write(b, state, TURN, b.add(_read(b, state, TURN), I64(1)))
    start, head, body, end = (b.block, *(b.append_basic_block(n) for n in ("head", "body", "end")))
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64)
    bits = b.phi(I64)
    number.add_incoming(I64(1), start)
    bits.add_incoming(I64(0), start)
    b.cbranch(b.icmp_signed("<", number, size), body, end)
    b.position_at_end(body)
    slept = b.icmp_signed("==", _swap(b, state, b.add(number, I64(FIELDS)), AWAKE), I64(ASLEEP))
    bits.add_incoming(b.or_(bits, b.select(slept, b.shl(I64(1), number), I64(0))), body)
    number.add_incoming(b.add(number, I64(1)), body)
    b.branch(head)
    b.position_at_end(end)
    with b.if_then(b.icmp_signed("==", bits, I64(0))):
        b.call(module.globals["finish"], [state, size, kernel, block])
    b.ret(bits)


def _serve(module: ir.Module) -> None:
    """serve(state, number, size): run posted kernels until none comes for a while; then fall asleep
    and return."""
    b, (state, number, size) = _function(module, "serve", VOID, 3)
    mine = b.add(number, I64(FIELDS))
    last = _place(b, state, number, LAST)
    start, look, work, wait, sleep, late, out = (
        b.block,
        *(b.append_basic_block(n) for n in ("look", "work", "wait", "sleep", "late", "out")),
    )
    b.branch(look)
    b.position_at_end(look)
    turns = b.phi(I64)
    turns.add_incoming(I64(0), start)
    turn = _read(b, state, TURN)
    b.cbranch(b.icmp_signed("!=", turn, b.load(last)), work, wait)
    b.position_at_end(work)
    b.store(turn, last)
    with b.if_then(_claimed(b, state, number, turn)):
        _run(b, state, number, size)
    turns.add_incoming(I64(0), b.block)
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
