"""Norm placement and initial guessing bias (Francazi et al., 2026)."""
