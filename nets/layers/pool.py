"""Pooling (Caffe's `Pooling` and `SPP`, by MAX, AVE or STOCHASTIC), and average pooling to a given
size (`AdaptivePooling`)."""

from collections.abc import Sequence

import numpy as np

from nets.layers.base import (
    SAVED,
    TOP,
    Blobs,
    Gradients,
    Layer,
    Need,
    Run,
    Setup,
    Shape,
    Values,
    register,
)
from nets.layers.windows import image, pair
from nets.schema import caffe_pb2 as caffe
from ops import Array, OpsError, PoolGeometry
from ops.reference.adaptive_pool import windows


@register("Pooling")
class Pooling(Layer):
    """x (N, C, H, W) -> y (N, C, OH, OW). With `global_pooling` the window is the whole plane.

    Sizes are rounded up, or with `round_mode: FLOOR` down. With MAX, a second top has the place of
    each maximum in its plane. STOCHASTIC chooses at random in training, by numbers that depend on
    (seed, step, layer, row) only. In test it averages by weight.
    """

    tops = (1, 2)
    planned = True
    reads_bottoms = False
    reads_tops = False

    @property
    def replayable(self) -> bool:  # type: ignore[override]
        """Whether the layer's passes may be replayed: nothing is drawn, no places are given."""
        return self.geometry.mode != "STOCHASTIC" and len(self.proto.top) == 1

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        found = super().needs(bottoms, tops, training)
        if self.geometry.mode != "AVE" and (training or len(tops) > 1):
            found.append(Need("argmax", tops[0], SAVED, dtype=np.int32))
        return [*found, *(Need("top_places", shape, TOP, at=1) for shape in tops[1:])]

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        """A second top has places, which may be larger than the whole numbers of bfloat16."""
        return self.geometry.mode != "STOCHASTIC" and len(self.proto.top) == 1

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.pooling_param
        block = "pooling_param"
        shape = image(self, shapes[0])
        mode = caffe.PoolingParameter.PoolMethod.Name(p.pool)
        if len(self.proto.top) > 1 and mode != "MAX":
            raise self.error("top", f"found 2, expected 1: {mode} has no places to give")
        if p.global_pooling and (
            p.HasField("kernel_size") or p.HasField("kernel_h") or p.HasField("kernel_w")
        ):
            raise self.error(
                f"{block}.global_pooling",
                ("given together with a kernel size, expected only one of the two"),
            )
        kernel = (
            (shape[2], shape[3]) if p.global_pooling else pair(self, block, "kernel_size", None)
        )
        stride = pair(self, block, "stride", 1)
        pad = pair(self, block, "pad", 0)
        if p.global_pooling and (stride, pad) != ((1, 1), (0, 0)):
            raise self.error(
                f"{block}.global_pooling",
                (f"found stride {stride}, pad {pad}, expected stride 1, pad 0"),
            )
        try:
            whole = p.round_mode == caffe.PoolingParameter.FLOOR
            self.geometry = PoolGeometry(kernel, stride, pad, mode, whole)
            self.top_shape = self.geometry.output_shape(shape)
        except OpsError as error:
            raise self.error(block, str(error)) from None
        return [self.top_shape] * len(self.proto.top)

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        mode = self.geometry.mode
        training = run.phase == "TRAIN"
        out = self.buffer("top", self.top_shape)
        uniforms = None
        if mode == "STOCHASTIC" and training:
            uniforms = self.ops.asarray(
                run.uniforms("pooling", self.name, self.top_shape), self.dtype
            )
        placed = uniforms is not None or (mode == "MAX" and (training or len(self.proto.top) > 1))
        argmax = self.buffer("argmax", self.top_shape, np.int32) if placed else None
        y, self.argmax = self.ops.pool_forward(
            x,
            self.geometry,
            out=out,
            argmax=argmax if placed else False,
            uniforms=uniforms,
            rectify=self.rectify,
        )
        return [y] if len(self.proto.top) == 1 else [y, self._as_top()]

    def _as_top(self) -> Array:
        """Return the places of the maxima as numbers of the net's dtype."""
        places = self.buffer("top_places", self.top_shape)
        places[...] = self.argmax
        return places

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        x = values.bottoms[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        argmax = self.argmax
        # in the test phase, forward finds them only for a second top
        if argmax is None and self.geometry.mode == "MAX":
            _, argmax = self.ops.pool_forward(x, self.geometry, rectify=self.rectify)
        dx = self.buffer("bottom", x.shape)
        return [self.ops.pool_backward(dy, self.geometry, x.shape, argmax=argmax, out=dx)], ()


@register("AdaptivePooling")
class AdaptivePooling(Layer):
    """x (N, C, H, W) -> means (N, C, OH, OW) of the pixels from floor(i H / OH) to ceil((i + 1) H /
    OH), and likewise along the width. `output_size` is one number or two."""

    of_caffe = False
    planned = True
    reads_bottoms = False
    reads_tops = False
    geometry: PoolGeometry | None  # if all windows have one size: backends have kernels for these

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        shape = image(self, shapes[0])
        self.sizes = pair(self, "adaptive_pooling_param", "output_size", None)
        self.top_shape = (*shape[:2], *self.sizes)
        axes = list(zip(shape[2:], self.sizes, strict=True))
        self._axes = axes
        self.geometry = None
        if all(size % outputs == 0 for size, outputs in axes):
            kernel = (shape[2] // self.sizes[0], shape[3] // self.sizes[1])
            self.geometry = PoolGeometry(kernel, kernel, mode="AVE")
        return [self.top_shape]

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        return self.geometry is not None

    @property
    def windows(self) -> list[list[slice]]:
        """The pixels of each output along the height and the width."""
        return [windows(size, outputs) for size, outputs in self._axes]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        out = self.buffer("top", self.top_shape)
        if self.geometry is not None:
            return [self.ops.pool_forward(x, self.geometry, out=out, argmax=False)[0]]
        return [self.ops.adaptive_pool_forward(x, self.sizes, out=out)]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        shape = values.bottoms[0].shape
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        dx = self.buffer("bottom", shape)
        if self.geometry is not None:
            return [self.ops.pool_backward(dy, self.geometry, shape, out=dx)], ()
        return [self.ops.adaptive_pool_backward(dy, shape, out=dx)], ()


@register("SPP")
class SPP(Layer):
    """Pools the plane into 1, 4, 16, ... bins, one level per `pyramid_height`. All values form one
    row."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p, (rows, channels, high, wide) = self.proto.spp_param, image(self, shapes[0])
        if not 1 <= p.pyramid_height <= 16:
            raise self.error(
                "spp_param.pyramid_height", (f"found {p.pyramid_height}, expected 1 to 16")
            )
        mode = caffe.SPPParameter.PoolMethod.Name(p.pool)
        self.levels = []
        at = 0
        for level in range(p.pyramid_height):
            bins = 2**level
            kernel = -(-high // bins), -(-wide // bins)
            pad = (kernel[0] * bins - high + 1) // 2, (kernel[1] * bins - wide + 1) // 2
            try:
                geometry = PoolGeometry(kernel, kernel, pad, mode)
                shape = geometry.output_shape((rows, channels, high, wide))
            except OpsError as error:
                raise self.error("spp_param.pyramid_height", f"level {level}: {error}") from None
            end = at + channels * shape[2] * shape[3]
            self.levels.append((geometry, shape, at, end))
            at = end
        self.top_shape = (rows, at)
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        y = self.buffer("top", self.top_shape)
        self.places = []
        for geometry, shape, at, end in self.levels:
            training = run.phase == "TRAIN" and geometry.mode == "STOCHASTIC"
            uniforms = (
                self.ops.asarray(run.uniforms(f"spp {at}", self.name, shape), self.dtype)
                if training
                else None
            )
            pooled, argmax = self.ops.pool_forward(bottoms[0], geometry, uniforms=uniforms)
            y[:, at:end] = pooled.reshape(shape[0], -1)
            self.places.append(argmax)
        return [y]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        x = values.bottoms[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        dx = self.buffer("bottom", x.shape)
        dx[...] = 0
        for (geometry, shape, at, end), argmax in zip(self.levels, self.places, strict=True):
            level = dy[:, at:end].reshape(shape)
            self.ops.add(
                dx, self.ops.pool_backward(level, geometry, x.shape, argmax=argmax), out=dx
            )
        return [dx], ()
