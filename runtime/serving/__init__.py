"""The pages that a process serves over HTTP.

http_server    nobody can starve the process by it
readers   who may read them
hosts     by which names they may be called
visits    who comes to a page again and again, and a last look for them

See docs/decisions/watching.md.
"""
