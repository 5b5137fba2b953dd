"""Messages between two processes, beside ZeroMQ, Ray and xoscar. The command is `messages`."""
