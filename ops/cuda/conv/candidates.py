"""The ways in which cuDNN can compute a pass of a convolution, as candidates of a trial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ops.cuda.conv.algorithm import PLAIN, ConvShape, Direction, Epilogue
from ops.cuda.conv.cudnn import Engine, Library, Planned, Steps, engines
from ops.cuda.conv.folded import Block, Folded, blocks, folded_shape
from ops.cuda.device import OnDevice

Way = Planned | Folded
Key = tuple[ConvShape, Direction, Steps, Epilogue]  # a pass
MOST = 8  # candidates of a pass, lowering among them


class Recipe(NamedTuple):
    """One way: an engine, over the images as they are or `folded` by a block of pixels. `whole`:
    its plan has the epilogue of the pass."""

    engine: Engine
    folded: Block | None = None
    whole: bool = False

    def __str__(self) -> str:
        if self.whole:
            return f"{self.engine} with its epilogue"
        if self.folded is None:
            return str(self.engine)
        how = "padded channels" if self.folded == (1, 1) else "folded pixels"
        return f"{self.engine} with {how}"


class Pass(NamedTuple):
    """A pass of a shape on a device. Its plans need at most `most_bytes` of scratch memory."""

    library: Library
    shape: ConvShape
    direction: Direction
    steps: Steps
    epilogue: Epilogue
    ops: OnDevice
    most_bytes: int

    def made(self, recipe: Recipe) -> Way:
        """The algorithm of a recipe. Raises the frontend's errors, and OpsError if it needs too
        much memory."""
        shape, steps = self._inner(recipe.folded)
        plan = Planned(
            self.library,
            shape,
            self.direction,
            steps,
            self.ops,
            recipe.engine,
            self.epilogue if recipe.whole else PLAIN,
            self.most_bytes,
        )
        if recipe.folded is None:
            return plan
        return Folded(self.shape, self.direction, recipe.folded, plan, self.ops)

    def candidates(self) -> Iterator[tuple[Recipe, Way]]:
        """Make one algorithm after the other: of the engines that cuDNN proposes, the best first,
        with the epilogue and then without it; and of the first engine for each way to fold the
        images. Raises the last error if there is none."""
        folds = blocks(self.shape)
        many = MOST - 1 - len(folds)
        with_it = 0 if self.epilogue == PLAIN else (many + 1) // 2
        kinds: list[tuple[int, Block | None, bool]] = [
            (with_it, None, True),
            (many - with_it, None, False),
            *((1, block, False) for block in folds),
        ]
        found = 0
        last: Exception | None = None
        for most, block, whole in kinds:
            left = most
            try:
                proposed = self._engines(block, whole) if most else []
            except Exception as error:  # noqa: BLE001  # the frontend raises many kinds
                last = error
                continue
            for engine in proposed:
                recipe = Recipe(engine, block, whole)
                try:
                    algorithm = self.made(recipe)
                except Exception as error:  # noqa: BLE001  # an engine that does not suit this pass
                    last = error
                    continue
                yield recipe, algorithm
                found += 1
                left -= 1
                if left == 0:
                    break
        if not found and last is not None:
            raise last

    def _engines(self, block: Block | None, whole: bool) -> list[Engine]:
        shape, steps = self._inner(block)
        epilogue = self.epilogue if whole else PLAIN
        return engines(self.library, shape, self.direction, steps, epilogue)

    def _inner(self, block: Block | None) -> tuple[ConvShape, Steps]:
        """The shape of cuDNN's convolution, and its steps."""
        if block is None:
            return self.shape, self.steps
        shape = folded_shape(self.shape, self.direction, block)
        return shape, (shape.in_shape[1], self.steps[1])
