"""The pages that a process serves over HTTP.

http_server  A small HTTP server in a thread of its own, for pages that nobody may use to starve the
             process
readers      Who may read a process's pages
hosts        The names by which a process's pages may be called
visits       Who comes to a page again and again, so that the page can stay until they have seen the
             end

See docs/decisions/watching.md.
"""
