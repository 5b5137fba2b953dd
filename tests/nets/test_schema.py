"""The schema is Caffe's, and the generated code matches the schema."""

import numpy as np
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message

from nets.definition.prototxt import parse
from nets.schema import caffe_pb2 as caffe
from nets.schema import onnx_net_pb2
from nets.schema.generate import SCHEMAS, generate
from tests.nets.support import MODELS, SHARED, needs_shared

FIRST_OF_OURS = 9001  # the numbers of fields that Caffe lacks


def compiled(schema, tmp_path):
    """The output of protoc for `schema`, with floats in one notation and without JSON names."""
    import grpc_tools.protoc

    out = tmp_path / "schema.bin"
    arguments = ["protoc", f"-I{schema.parent}", f"--descriptor_set_out={out}", str(schema)]
    assert grpc_tools.protoc.main(arguments) == 0
    return normalised(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0])


def normalised(message: Message) -> Message:
    for field, value in message.ListFields():
        if field.name == "json_name":
            message.ClearField("json_name")
        elif (
            field.name == "default_value"
            and message.type == descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT
        ):
            message.default_value = str(np.float32(value))
        elif field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                normalised(item)
    return message


def committed(code=caffe):
    return normalised(descriptor_pb2.FileDescriptorProto.FromString(code.DESCRIPTOR.serialized_pb))


def test_generated_code_matches_the_schemas(tmp_path):
    found = [committed(code) for code in (caffe, onnx_net_pb2)]
    assert found == [compiled(schema, tmp_path) for schema in SCHEMAS]


def test_generating_again_gives_code_without_a_check_of_the_protobuf_release(tmp_path):
    code, stub = generate(tmp_path)[:2]
    assert "runtime_version" not in code.read_text("utf-8")
    assert "class NetParameter" in stub.read_text("utf-8")


@needs_shared
def test_every_message_has_the_fields_and_numbers_that_caffe_gives_them(tmp_path):
    def facts(file):
        return {
            message.name: (
                sorted(
                    field.SerializeToString()
                    for field in message.field
                    if field.number < FIRST_OF_OURS
                ),
                sorted(enum.SerializeToString() for enum in message.enum_type),
            )
            for message in file.message_type
        }

    found = facts(committed())
    caffes = facts(compiled(SHARED / "caffe" / "caffe.proto", tmp_path))
    assert {name: found[name] for name in found.keys() & caffes.keys()} == caffes
    ours = {
        field.type_name.rpartition(".")[2]
        for message in committed().message_type
        for field in message.field
        if field.number >= FIRST_OF_OURS
    }
    assert found.keys() - caffes.keys() == ours - {""}


@needs_shared
def test_every_published_prototxt_parses():
    files = sorted(MODELS.rglob("*.prototxt"))
    assert len(files) > 50
    for file in files:
        message = caffe.SolverParameter() if "solver" in file.name else caffe.NetParameter()
        parse(file.read_text("utf-8"), message, file.name)
