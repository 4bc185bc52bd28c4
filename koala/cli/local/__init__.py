"""A grid on this machine: `koala up` and `koala demo`, their processes and the live view."""
