"""How workers with replicas sum their gradients: collective, tree, accumulator; all give the same bits."""
