"""The doctor looks at everything, says what is wrong, and changes nothing."""

from mirrorlake.runtime import doctor
from mirrorlake.runtime.doctor import diagnose
from mirrorlake.runtime.jars import read_pins


def by_name(config=None):
    return {piece.name: piece for piece in diagnose(config)}


def test_an_empty_machine_is_described_and_left_alone(monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(cache))
    monkeypatch.setattr(doctor, "find_java", lambda: doctor.look_for_java()[0] or fail())
    pieces = by_name()
    assert pieces["Python"].state == "ok"
    assert pieces["PySpark"].version == "4.1.4"
    assert pieces["cache folder"].detail == "not there yet; made when it is first needed"
    assert {piece.state for name, piece in pieces.items() if name.startswith("jar ")} == {"missing"}
    assert not cache.exists()


def fail():
    raise doctor.MachineError("There is no Java", next_step="Run make setup")


def test_a_missing_java_is_a_piece_not_an_exception(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "find_java", fail)
    piece = by_name()["Java"]
    assert (piece.state, "Run make setup" in piece.detail) == ("missing", True)


def test_a_damaged_jar_is_broken(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    jar = read_pins()[0]
    jar.path.write_bytes(b"half")
    piece = by_name()[f"jar {jar.coordinates.split(':')[1]}"]
    assert piece.state == "broken"
    assert "4 bytes" in piece.detail


def test_an_unwritable_cache_folder_is_broken(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "file" / "cache"))
    assert by_name()["cache folder"].state == "broken"


def test_a_full_disk_is_broken(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "ENOUGH_BYTES", 1 << 60)
    pieces = by_name(tmp_path / "mirrorlake.yaml")
    assert pieces["disk of the cache folder"].state == "broken"
    assert "make room" in pieces["disk of the lake"].detail


def test_no_jar_but_sparks_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    of_spark = {f"jar {jar.name.rpartition('-')[0]}" for jar in read_pins() if jar.group == "spark"}
    missing = {name for name, piece in by_name().items() if piece.state == "missing"}
    needed = {name for name in missing if not by_name()[name].optional and name.startswith("jar ")}
    assert needed == of_spark


def test_without_spark_only_its_own_piece_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "is_there", lambda _: False)
    monkeypatch.setattr(doctor, "is_clone", lambda: False)
    monkeypatch.setattr(doctor, "spark_jars", fail)
    pieces = by_name()
    assert not {"Java", "Java's class archive"} & pieces.keys()
    assert not [name for name in pieces if name.startswith("jar ")]
    spark = pieces["PySpark"]
    assert (spark.state, spark.optional) == ("missing", True)
    assert "changes of large tables" in spark.detail
    monkeypatch.setattr(doctor, "is_clone", lambda: True)
    assert not by_name()["PySpark"].optional
