"""Commands in simulated time: simulate, reproduce and replay. Those of a paper lie beside it."""
