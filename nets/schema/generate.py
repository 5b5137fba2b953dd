"""A script that regenerates `caffe_pb2.py` and `caffe_pb2.pyi` from `caffe.proto`: `python -m
nets.schema.generate`.

It calls protoc (which needs grpcio-tools) and removes one check from the output. It is not imported
at run time.
"""

import re
import sys
from pathlib import Path

SCHEMA = Path(__file__).with_name("caffe.proto")

_RUNTIME_CHECK = re.compile(
    r"^from google\.protobuf import runtime_version.*\n"
    r"|^_runtime_version\.Validate\w+\((?:\n.*?)*?\n\)\n",
    re.MULTILINE,
)


def generate(directory: Path) -> list[Path]:
    """Write both generated files into `directory` and return their paths. Raises SystemExit if
    protoc refuses the schema."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    arguments = [
        "protoc",
        f"-I{SCHEMA.parent}",
        f"--python_out={directory}",
        f"--pyi_out={directory}",
    ]
    if protoc.main([*arguments, str(SCHEMA)]) != 0:
        sys.exit(f"protoc could not compile {SCHEMA}")
    code, stub = directory / "caffe_pb2.py", directory / "caffe_pb2.pyi"
    # The check ties the file to the protobuf release that generated it, but the format itself is
    # stable.
    code.write_text(_RUNTIME_CHECK.sub("", code.read_text("utf-8")), "utf-8")
    stub.write_text(stub.read_text("utf-8").replace("_Mapping]", "_Mapping[str, object]]"), "utf-8")
    return [code, stub]


if __name__ == "__main__":
    generate(SCHEMA.parent)
