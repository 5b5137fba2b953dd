"""A run as in a notebook: build it, start it, watch it, look inside, change its settings.

    python examples/notebook.py

In a notebook each part is a cell without `main`, because a cell may use `await` directly.
"""

import asyncio

import roles
import runtime
from roles.messages import Done, GetState, Regroup, State


async def main() -> None:
    # Describe the training by the keys of [train] in cluster.toml.
    strategy = {"preset": "async", "workers": 2, "live": True}
    topology = roles.training({"max_iter": 5000, "momentum": 0.6, "strategy": strategy})

    # Start the run. It has the processes, logs and checkpoints of `up`. In a notebook:
    # `await run.start()`.
    run = runtime.launch(topology, name="notebook", liveness={"missed": 6})
    together = False
    async with run:
        # Watch it. Every reader gets every event, so another cell may start another reader.
        async for event in run.events():
            if event.name not in ("progress", "test"):
                continue
            print(event)

            # Look inside while it trains. Arrays in an answer are numpy arrays.
            if event.name == "progress":
                state = await run.ask("conv_model", GetState(), State)
                scale = {
                    name: float(array.std())
                    for name, array in zip(state.names, state.arrays, strict=True)
                }
                print("weights of conv1: standard deviation", round(scale["conv1.0"], 4))

            # Change it: continue with one synchronous group and smaller steps. Later, end the run
            # before the planned end.
            if event.name == "test" and event["accuracy"] > 0.9:
                await run.wind_down("accurate enough")
            elif event.name == "progress" and event["loss"] < 1 and not together:
                await run.ask("coordinator", Regroup(groups=1, base_lr=0.01), Done)
                together = True

    # Print the result and the place of the checkpoint.
    result = await run.result()
    print(
        "accuracy",
        result["accuracy"],
        "after",
        result["iterations"],
        "iterations;",
        run.directory / result["checkpoint"],
    )


if __name__ == "__main__":
    asyncio.run(main())
