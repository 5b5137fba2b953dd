"""Messages: their classes, their wire format and their flow control.

message          Message classes, their registry, and the envelope around each message
wire             The wire format: an envelope as frames, and back
arrays           Arrays of a message that is sent
nesting          The limit on how deep the values of a message may be nested, and how a received
                 value is printed
credits          Byte credits: the number of bytes that one sender may have under way to one
                 receiver on one lane
grants           The receiver's side of byte credits: when to grant bytes back
header_checks    The fields of a message's header, and the errors of a header that does not fit them
                 (see `wire`)
received_arrays  Arrays of a message that was received
plain_values     Plain values in messages
device_arrays    Arrays of messages that lie on a device
frame_sizes      The bytes of frames, which byte credits count

See docs/decisions/messages.md.
"""
