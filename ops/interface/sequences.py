"""Operations of text and other sequences: tables looked up by number, recurrent layers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ops.errors import Array, Shape
from ops.reference import embed, recurrent
from ops.reference.recurrent import LstmGradients, RnnGradients, Tape


class SequenceOps:
    """Embedding, LSTM and RNN over whole sequences, forward and backward through time."""

    xp: Any

    def embed_forward(
        self, index: Array, w: Array, b: Array | None = None, out: Array | None = None
    ) -> Array:
        """Rows of w (rows, O) at the whole numbers of `index`, which has any shape, plus b (O,) ->
        (*index.shape, O)."""
        return embed.forward(self.xp, index, w, b, out)

    def embed_rows(self, index: Array, rows: int) -> Array:
        """The whole numbers of `index`, of any shape and dtype, as int64. Raises OpsError that
        names the first number that is not a row from 0 to `rows` - 1."""
        return embed.read_rows(self.xp, "embed_rows", index, rows)

    def embed_backward_weights(
        self, index: Array, dy: Array, w_shape: Shape, *,
        bias: bool, out_w: Array | None = None, out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """dw of shape `w_shape`, each row the sum of its dy, and db (O,) (None without `bias`)."""
        return embed.backward_weights(
            self.xp, index, dy, w_shape, self.sum_rows, bias, out_w, out_b
        )

    def sum_rows(self, rows: Array, values: Array, out: Array) -> None:
        """out[r] = the sum of the values (count, O) whose entry in rows (count,) is r, added up in
        order."""
        embed.sum_rows(self.xp, rows, values, out)

    def recurrent_scratch(
        self, x_shape: Shape, hidden: int, gates: int, *, training: bool, table: int = 0
    ) -> int:
        """Bytes of scratch memory that the steps of a recurrent layer take: `hidden` units of
        `gates` gates each. `table`: the rows of the table that an index reads, 0 without one."""
        return 0

    def lstm_forward(
        self,
        x: Array,
        cont: Array,
        w_x: Array,
        b: Array | None,
        w_h: Array,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        extra: Array | None = None,
        out: Array | None = None,
        tape: Tape | None = None,
    ) -> Tape:
        """x (T, N, D), cont (T, N), w_x (4H, D), b (4H,), w_h (4H, H) -> tape of h (T, N, H), c and
        the gates.

        Gates are i, f, o, g; cont 0 begins a sequence; h0, c0 (N, H) are the state before the first
        step (None: zero); extra (N, 4H) is added to every step's gate inputs. `tape` may hold the
        destinations of the result; `out` is the destination of h. With `index` (T, N), int64, x is
        a table (R, D), and each step reads a row of it.
        """
        into = (tape or Tape())._replace(**({} if out is None else {"h": out}))
        return recurrent.lstm_forward(self.xp, x, index, cont, w_x, b, w_h, h0, c0, extra, into)

    def lstm_backward(
        self,
        dh: Array,
        tape: Tape,
        x: Array,
        cont: Array,
        w_x: Array,
        w_h: Array,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        dh_last: Array | None = None,
        dc_last: Array | None = None,
        out: LstmGradients | None = None,
        without: Collection[str] = (),
    ) -> LstmGradients:
        """dh (T, N, H) -> the gradient of every input except those named in `without` ("x",
        "extra").

        dh_last, dc_last (N, H): gradients of the last state, if something else uses it. With
        `index` the gradient of x is the table's, (R, D).
        """
        return recurrent.lstm_backward(
            self.xp,
            dh,
            tape,
            x,
            index,
            cont,
            w_x,
            w_h,
            h0,
            c0,
            dh_last,
            dc_last,
            out or LstmGradients(),
            without,
            self.sum_rows,
        )

    def rnn_forward(
        self,
        x: Array,
        cont: Array,
        w_x: Array,
        b: Array | None,
        w_h: Array,
        w_o: Array,
        b_o: Array | None,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        extra: Array | None = None,
        out: Array | None = None,
        states: Array | None = None,
    ) -> tuple[Array, Array]:
        """x (T, N, D), w_x (H, D), w_h (H, H), w_o (O, H) -> outputs (T, N, O) and states (T, N,
        H), both tanh. `index` as in `lstm_forward`."""
        return recurrent.rnn_forward(
            self.xp, x, index, cont, w_x, b, w_h, w_o, b_o, h0, extra, out, states
        )

    def rnn_backward(
        self,
        do: Array,
        o: Array,
        h: Array,
        x: Array,
        cont: Array,
        w_x: Array,
        w_h: Array,
        w_o: Array,
        *,
        index: Array | None = None,
        h0: Array | None = None,
        dh_last: Array | None = None,
        out: RnnGradients | None = None,
        without: Collection[str] = (),
    ) -> RnnGradients:
        """do (T, N, O) -> the gradient of every input except those named in `without` ("x",
        "extra").

        dh_last (N, H): the gradient of the last state, if something else uses it. `index` as in
        `lstm_backward`.
        """
        given = out or RnnGradients()
        return recurrent.rnn_backward(
            self.xp, do, o, h, x, index, cont, w_x, w_h, w_o, h0, dh_last, given, without,
            self.sum_rows,
        )  # fmt: skip
