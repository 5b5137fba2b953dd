"""Products of matrices: the register-blocked micro-kernel and the loops around it."""
