"""A model server's gradients that wait for the norm of their iteration, and are then clipped."""

from __future__ import annotations

from abc import abstractmethod

from roles.learning.common_norm import CommonNorm, NormShare, NormShares
from roles.learning.model_holder import ModelHolder
from roles.messages import Blobs, LayerGradient
from runtime import Envelope


class ClippedUpdates(ModelHolder):
    """A model holder that clips. Subclasses apply the gradients."""

    def _share_norm(self, shares: NormShares) -> None:
        """Begin without gradients."""
        self._norm = CommonNorm(self, shares)
        # (number, group) -> layer -> the last part of its gradient, the whole gradient
        self._unclipped: dict[tuple[int, int], dict[str, tuple[LayerGradient, Blobs]]] = {}

    @abstractmethod
    async def _apply_clipped(
        self, message: LayerGradient, total: Blobs, squares: tuple[float, ...]
    ) -> None:
        """Apply a layer's gradient, clipped by the norm of all gradients with these squares."""

    async def _wait_for_norm(self, message: LayerGradient, total: Blobs) -> None:
        """Keep a gradient until the norm of its iteration is known. The last layer's gradient
        completes this server's share of the norm."""
        waiting = self._unclipped.setdefault((message.number, message.group), {})
        waiting[message.layer] = message, total
        if len(waiting) < len(self._store.layers):
            return
        totals = {layer: of for layer, (_, of) in waiting.items()}
        squares = await self.compute("norm", self._store.squares, totals)
        known = await self._norm.share(message.group, message.number, squares)
        await self._clip(message.group, message.number, known)

    async def on_norm_share(self, message: NormShare, envelope: Envelope) -> None:
        """Take another holder's share of an iteration's norm."""
        known = self._norm.came(message, envelope.sender)
        await self._clip(message.group, message.number, known)

    async def _clip(self, group: int, number: int, squares: tuple[float, ...] | None) -> None:
        """Apply the gradients of an iteration, clipped, once all squares are known."""
        if squares is None:
            return
        for message, total in self._unclipped.pop((number, group)).values():
            await self._apply_clipped(message, total, squares)
