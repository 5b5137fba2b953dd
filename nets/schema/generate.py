"""A script that regenerates the code of `caffe.proto` and `onnx_net.proto`: `python -m
nets.schema.generate`.

It calls protoc (which needs grpcio-tools) and removes one check from the output. It is not imported
at run time.
"""

import re
import sys
from pathlib import Path

SCHEMAS = [Path(__file__).with_name(f"{name}.proto") for name in ("caffe", "onnx_net")]

_RUNTIME_CHECK = re.compile(
    r"^from google\.protobuf import runtime_version.*\n"
    r"|^_runtime_version\.Validate\w+\((?:\n.*?)*?\n\)\n",
    re.MULTILINE,
)


def generate(directory: Path) -> list[Path]:
    """Write the generated files into `directory` and return their paths. Raises SystemExit if
    protoc refuses a schema."""
    return [path for schema in SCHEMAS for path in _generate(schema, directory)]


def _generate(schema: Path, directory: Path) -> list[Path]:
    from grpc_tools import protoc  # type: ignore[import-untyped]

    arguments = [
        "protoc",
        f"-I{schema.parent}",
        f"--python_out={directory}",
        f"--pyi_out={directory}",
    ]
    if protoc.main([*arguments, str(schema)]) != 0:
        sys.exit(f"protoc could not compile {schema}")
    code, stub = (directory / f"{schema.stem}_pb2.{suffix}" for suffix in ("py", "pyi"))
    # The check ties the file to the protobuf release that generated it, but the format itself is
    # stable.
    code.write_text(_RUNTIME_CHECK.sub("", code.read_text("utf-8")), "utf-8")
    stub.write_text(stub.read_text("utf-8").replace("_Mapping]", "_Mapping[str, object]]"), "utf-8")
    return [code, stub]


if __name__ == "__main__":
    generate(Path(__file__).parent)
