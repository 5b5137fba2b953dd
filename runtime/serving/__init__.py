"""The pages that a process serves over HTTP.

server    nobody can starve the process by it
readers   who may read them
visits    who comes to a page again and again, and a last look for them
"""
