"""The pages that a process serves over HTTP.

http_server  A small HTTP server in its own thread
readers      Which users may read a process's pages
hosts        The names by which a process's pages may be called, as browsers send them in the header
             Host
visits       Readers that visit a page regularly, so that the page can stay until they have seen the
             end

See docs/decisions/watching.md.
"""
