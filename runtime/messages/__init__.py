"""What actors say.

message  What actors say to one another
wire     Envelope <-> frames, without sockets
arrays   Arrays in messages
nesting  How deep the values of a message may be nested, and how one that came is shown
credits  Byte credits: how many bytes one sender may have under way to one receiver on one lane
"""
