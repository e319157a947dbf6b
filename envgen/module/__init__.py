"""Environments whose generator and scorer are foreign code, run in a child process."""
