"""What actors say.

message          What actors say to one another
wire             Envelope <-> frames, without sockets
arrays           Arrays of a message that is sent
nesting          How deep the values of a message may be nested, and how one that came is shown
credits          Byte credits: how many bytes one sender may have under way to one receiver on one
                 lane
grants           Byte credits at the receiver: when to give them back
header_checks    The places of a message's header, and what is wrong with one that does not fit them
                 (see `wire`)
received_arrays  Arrays of a message that came

See docs/decisions/messages.md.
"""
