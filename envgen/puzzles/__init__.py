"""Generators of reasoning-gym as a task family."""
