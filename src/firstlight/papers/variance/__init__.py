"""Sample variance decay in randomly initialized ReLU networks (Luther & Seung, 2019)."""
