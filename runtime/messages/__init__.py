"""What actors say.

message  message classes, their registry, the envelope
wire     an envelope as frames and back, trusting nothing
header_checks            what is wrong with a header
arrays  received_arrays  what the header says of an array, and its frame; the way back
nesting  how deep values may be nested
credits  grants          how many bytes may be under way; when they are given back

See docs/decisions/messages.md.
"""
