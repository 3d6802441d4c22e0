"""The contract file, read once per process."""

from functools import lru_cache
from pathlib import Path

from mirrorlake.config import Config, load_config


@lru_cache(maxsize=8)
def read_config(path: str) -> Config:
    """The config at ``path``; a change of the file is seen when the code location is reloaded.

    Raises:
        ConfigError: the file is missing or says something that can't be kept.
    """
    return load_config(Path(path))
