"""A user's own generator, in one Python file, as a task family."""
