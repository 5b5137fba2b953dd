"""The user's kubectl, with the user's context, credentials and plugins."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

from runtime.errors import LaunchError
from runtime.reasons import reason
from runtime.terminal_text import bounded, one_line
from runtime.typed_name import shown

SECONDS = 30.0  # the longest wait for an answer of the cluster
NO_JOB_SETS = re.compile(
    r"no matches for kind|doesn't have a resource type|could not find " r"the requested resource"
)
HINTS = (
    (
        NO_JOB_SETS,
        ("the cluster has no JobSet (jobset.x-k8s.io/v1alpha2): its administrator must install it"),
    ),
    (re.compile(r"namespaces .* not found"), "see launcher.kubernetes.namespace"),
    (re.compile(r"context .* does not exist"), "see launcher.kubernetes.context"),
    (re.compile(r"Forbidden"), f"{shown('docs cluster')} has the role that `up` needs"),
)


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one namespace of one cluster. "" leaves the choice to kubectl."""

    context: str = ""
    namespace: str = ""

    @property
    def words(self) -> list[str]:
        """The words that each command begins with."""
        said = {"--context": self.context, "--namespace": self.namespace}
        return ["kubectl", *(f"{option}={value}" for option, value in said.items() if value)]

    async def create(self, thing: dict[str, Any]) -> dict[str, Any]:
        """Make an object. `apply` is not used, since it copies the object, with its keys, into an
        annotation that every reader is shown."""
        return await self._json("create", "-f", "-", "-o", "json", given=json.dumps(thing))

    async def pods(self, selector: str) -> list[dict[str, Any]]:
        """Return the pods with these labels."""
        items: list[dict[str, Any]] = (
            await self._json("get", "pods", "-l", selector, "-o", "json")
        )["items"]
        return items

    async def delete(self, *things: str) -> None:
        """Delete objects, and wait until they and their dependent objects are removed."""
        await self._call(
            "delete",
            *things,
            "--ignore-not-found",
            "--cascade=foreground",
            f"--timeout={SECONDS:g}s",
        )

    async def _json(self, *words: str, given: str = "") -> dict[str, Any]:
        text = await self._call(*words, given=given)
        try:
            found = await asyncio.to_thread(json.loads, text)  # the text of many pods takes long
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise LaunchError(
                f"kubectl {words[0]}: found {bounded(one_line(text))!r}, expected an object as JSON"
            )
        return found

    async def _call(self, *words: str, given: str = "") -> str:
        """Run kubectl and return its output. Raises LaunchError with one line."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.words,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # `up` handles Ctrl-C
            )
        except OSError as error:
            text = f"launcher.kind is 'kubernetes', but kubectl cannot be started: {reason(error)}"
            raise LaunchError(f"{text}: install it, on the PATH of `up`") from None
        try:
            async with asyncio.timeout(SECONDS + 5):
                out, said = await process.communicate(given.encode())
        except TimeoutError:
            raise LaunchError(
                f"kubectl {words[0]}: the cluster did not answer within {SECONDS + 5:g} s"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise LaunchError(
                f"kubectl {words[0]}: {_problem(said.decode(errors='replace'), process.returncode)}"
            )
        return out.decode(errors="replace")


def _problem(said: str, status: int) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = next(
        (line for line in lines if re.match(r"[Ee]rror", line)),
        (lines or [f"exit status {status}"])[-1],
    )
    hint = next((hint for pattern, hint in HINTS if pattern.search(said)), "")
    return f"{bounded(one_line(text))}{f' ({hint})' if hint else ''}"
