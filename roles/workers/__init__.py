"""Who computes gradients: conv workers, replicas, one worker that does it all."""
