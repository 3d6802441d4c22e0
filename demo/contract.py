"""The demo's contract file, whose text is ``contract.yaml``."""

from __future__ import annotations

from importlib.resources import files


def demo_contract(port: int, host: str = "127.0.0.1") -> str:
    """The demo's mirrorlake.yaml: sources nyc and shop, both on the server at `host`:`port`."""
    template = files("demo").joinpath("contract.yaml").read_text("utf-8")
    return template.replace("{host}", host).replace("{port}", str(port))
