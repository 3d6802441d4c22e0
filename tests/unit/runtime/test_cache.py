"""The cache folder: where it is, and what is said when it can't be written."""

from pathlib import Path

import pytest

from mirrorlake.errors import MachineError
from mirrorlake.runtime.cache import cache_folder, cache_lock, cache_path, write_whole


def test_the_variable_wins(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "a b ü"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(".") == tmp_path / "a b ü"
    assert (tmp_path / "a b ü").is_dir()


def test_then_xdg_then_home(monkeypatch, tmp_path):
    monkeypatch.delenv("MIRRORLAKE_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_path() == tmp_path / "xdg" / "mirrorlake"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_path() == tmp_path / ".cache" / "mirrorlake"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_path() == tmp_path / ".cache" / "mirrorlake"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cant_be_made_is_one_clear_line(monkeypatch, tmp_path):
    # Not by permissions: tests may run as root, whom they don't stop.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(MachineError, match="can't be written") as caught:
        cache_folder(".")
    assert str(tmp_path / "file" / "cache") in str(caught.value)
    assert "MIRRORLAKE_CACHE" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lock_that_is_held_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    with (
        cache_lock("piece"),
        pytest.raises(MachineError, match=r"piece\.lock"),
        cache_lock("piece", 0.1),
    ):
        pass


def test_a_failed_write_leaves_the_old_file_and_nothing_else(monkeypatch, tmp_path):
    target = tmp_path / "file"
    write_whole(target, b"old", mode=0o755)

    def full_disk(self: Path, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", full_disk)
    with pytest.raises(MachineError, match="No space left"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_of_somebodys_own_is_named_without_the_cache(tmp_path):
    with pytest.raises(MachineError) as told:
        write_whole(tmp_path / "gone" / "x.prom", b"new")
    assert f"{tmp_path}/gone/x.prom could not be written: No such file" in str(told.value)
    assert "cache" not in str(told.value)
