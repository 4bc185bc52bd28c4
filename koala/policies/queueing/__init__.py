"""Queue disciplines: the choice of the queue to visit next."""
