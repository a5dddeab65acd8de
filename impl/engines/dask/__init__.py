"""Cells on the workers of a Dask cluster: who may run which, what travels there, and what comes back."""
