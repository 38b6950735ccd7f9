"""Initial guessing bias: how untrained networks favor some classes (Francazi, Lucchi & Baity-Jesi, ICML 2024)."""
