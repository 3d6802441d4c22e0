"""MySQL, mirrored exactly in the lake, and proved: the engine, which knows nothing of Dagster."""

__version__ = "0.1.0"
