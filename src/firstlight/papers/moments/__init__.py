"""Characterizing well-behaved vs. pathological deep neural networks (Labatie, ICML 2019)."""
