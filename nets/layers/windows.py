"""Reader of the height/width pairs in convolution and pooling parameters: one number for both, one
per axis, or `_h` and `_w`."""

from typing import Any

from nets.layers.base import Layer


def pair(layer: Layer, block: str, key: str, default: int | None) -> tuple[int, int]:
    """Return (height, width) of `key` ("kernel_size", "output_size", "stride", "pad", "dilation")
    in the layer's `block`.

    Accepts `key: 3`, `key: [3, 5]` where the field is repeated, or `kernel_h`/`kernel_w`. Raises
    NetError if both ways are used, if neither is used and there is no default, or for more than two
    numbers.
    """
    message: Any = getattr(layer.proto, block)
    stem = key.removesuffix("_size")
    sides = [
        name for name in (f"{stem}_h", f"{stem}_w") if name in message.DESCRIPTOR.fields_by_name
    ]
    given = [name for name in sides if message.HasField(name)]
    value = getattr(message, key)
    plain = [value] if isinstance(value, int) and message.HasField(key) else value
    plain = [] if isinstance(plain, int) else list(plain)
    if given and plain:
        raise layer.error(
            f"{block}.{given[0]}", (f"given together with '{key}', expected only one of the two")
        )
    # convolution_param.pad_h and pad_w may be given alone: Caffe takes 0 for the other
    if len(given) == 1 and not (key == "pad" and block == "convolution_param"):
        raise layer.error(
            f"{block}.{given[0]}", (f"given alone, expected both '{sides[0]}' and '{sides[1]}'")
        )
    if given:
        plain = [getattr(message, name) for name in sides]
    if len(plain) > 2:
        raise layer.error(
            f"{block}.{key}", (f"found {len(plain)} numbers, expected one or two (height, width)")
        )
    if not plain and default is None:
        raise layer.error(
            f"{block}.{key}" if plain else block, (f"'{key}' is missing, expected an integer >= 1")
        )
    chosen = plain or [default]
    least = 0 if key == "pad" else 1
    if min(chosen) < least:
        raise layer.error(
            f"{block}.{given[0] if given else key}",
            (f"found {min(chosen)}, expected an integer >= {least}"),
        )
    return int(chosen[0]), int(chosen[-1])


def image(layer: Layer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` if it is (N, C, H, W). Raises NetError otherwise."""
    if len(shape) != 4:
        raise layer.error("bottom", f"found shape {shape}, expected four axes (N, C, H, W)")
    return shape
