"""Fit y = 2 a - 3 b + 1 with the samples of one site; NVFlare averages the weights of all sites.

NVFlare runs this program in the job process of each client.
"""

from __future__ import annotations

import zlib

import numpy as np
import nvflare.client as flare


def samples(site: str) -> tuple[np.ndarray, np.ndarray]:
    """Make the samples of a site: inputs with a column of ones, and what they should give."""
    numbers = np.random.default_rng(zlib.crc32(site.encode()))
    inputs = np.column_stack([numbers.random((200, 2)), np.ones(200)])
    return inputs, inputs @ [2.0, -3.0, 1.0]


def main() -> None:
    """Improve the weights of each round, and send them back."""
    flare.init()
    inputs, wanted = samples(flare.get_site_name())
    while flare.is_running():
        received = flare.receive()
        if received is None:
            return
        weights = np.asarray(received.params["numpy_key"])
        loss = float(np.mean((inputs @ weights - wanted) ** 2))
        for _ in range(50):
            weights = weights - 0.5 * inputs.T @ (inputs @ weights - wanted) / len(inputs)
        print(f"round {received.current_round}: loss {loss:.5f} before", flush=True)
        flare.send(
            flare.FLModel(params={"numpy_key": weights}, params_type="FULL", metrics={"loss": loss})
        )


if __name__ == "__main__":
    main()
