"""Operations that pass over memory once or twice: activations, norms, pooling, losses, updates, sums."""
