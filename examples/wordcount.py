"""Counts words with any number of mappers: `python -m runtime up examples/wordcount.toml`."""

import asyncio
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from runtime import Actor, ActorSpec, Envelope, Json, Message, Topology, message


class Options(BaseModel):  # this program's keys of cluster.toml
    files: list[str]
    mappers: int = 2


@message
class CountWords(Message):
    text: str


@message
class Words(Message):
    counts: Json  # word -> number of occurrences


class Mapper(Actor):
    async def on_count_words(self, message: CountWords, envelope: Envelope) -> None:
        counts = await self.compute("count", Counter, message.text.lower().split())
        await self.reply(envelope, Words(counts=dict(counts)))


class Reader(Actor):
    """Sends the lines to the mappers and adds up their answers. The run ends with this actor."""

    def __init__(self, *, files: list[str], mappers: list[str]) -> None:
        self._files = files
        self._mappers = mappers

    async def run(self) -> None:
        texts = await self.compute("read", lambda: [Path(file).read_text() for file in self._files])
        lines = [line for text in texts for line in text.splitlines()]
        asks = [
            self.ask(self._mappers[number % len(self._mappers)], CountWords(text=line), Words)
            for number, line in enumerate(lines)
        ]
        total = sum((Counter(answer.counts) for answer in await asyncio.gather(*asks)), Counter())
        self.emit("counted", words=total.total(), **dict(total.most_common(5)))


ROLES = {"reader": Reader, "mapper": Mapper}


def plan(config: object, options: Options) -> Topology:
    names = [f"mapper-{number}" for number in range(options.mappers)]
    reader = ActorSpec("reader", "reader", {"files": options.files, "mappers": names})
    mappers = [ActorSpec(name, "mapper") for name in names]
    links = tuple(("reader", name) for name in names)
    return Topology(__name__, (reader, *mappers), links, "reader")
