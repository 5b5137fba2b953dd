"""What tests share and is no test: runs to look at, programs, machines, servers, damage."""
