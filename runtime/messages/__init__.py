"""What actors say.

message  message classes, their registry, the envelope
wire     an envelope as frames and back, trusting nothing
arrays   what the header says of an array, and its frame
nesting  how deep values may be nested
credits  how many bytes may be under way
"""
