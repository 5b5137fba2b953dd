"""Plain objects behind the roles: the job, parameters, sums, batches, formats. No messages are sent here."""
