"""The name under which an actor's waits for its data are counted, next to its waits for peers."""

DATA = "its data"
