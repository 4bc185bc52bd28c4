"""Queue disciplines: whose turn it is."""
