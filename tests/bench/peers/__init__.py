"""Other gateways, pinned, each in an environment of its own under build/peers, under the same load as ours.
Called by tests.bench.comparison."""
