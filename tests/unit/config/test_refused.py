"""Every file that is refused: at which line, and with which words."""

# a case is one line, so that the cases can be read as a table

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import ConfigError

ENVIRON = {"PW": "a-password-of-the-test", "KEY": "k" * 16, "SHORT": "short-key"}
TOP = "version: 1\nsources:\n  s:\n    host: 127.0.0.1\n    user: u\n"  # 5 lines
TABLES = TOP + "    databases:\n      d:\n        tables:\n"  # 8 lines
HASHING = 'privacy: {hash_key: "${env:KEY}"}\n'


def refusal(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "m.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ=ENVIRON, today=date(2026, 1, 31))
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(path), "m.yaml")


def table(text: str) -> str:
    return f"{TABLES}          t: {text}\n"


def columns(text: str, more: str = "") -> str:
    return table(f"{{mode: full, key: [id], columns: {{{text}}}{more}}}")


def tenants(text: str, key: str = "[id]") -> str:
    table = f"{{key: {key}, columns: {{{text}}}}}"
    return f"{TOP}tenants: {{g: {{sources: [s], databases: [d], tables: {{t: {table}}}}}}}\n"


BIGQUERY = "bigquery: {project: a-project, bucket: a-bucket}\n"
LANDING = TOP.replace("    host: 127.0.0.1\n    user: u\n", "    landing: {url: x}\n")  # 4 lines
LANDED = LANDING + "    databases:\n      d:\n        tables:\n"


def landed(text: str) -> str:
    return f"{LANDED}          t: {text}\n"


def snapshot(text: str) -> str:
    return landed(f"{{mode: snapshot, key: [id], snapshot: {{{text}}}}}")


REFUSED = {
    "a policy that is none": (table("{mode: full, key: [id], schema_changes: evolv}"), "schema_changes: 'evolv' is not 'evolve', 'freeze' or 'fail'; did you mean 'evolve'?"),
    "a rename without a rule": (columns("b: {renamed_from: a}"), "the column is named without a rule"),
    "a rename to itself": (columns("b: {pii: show, renamed_from: B}"), "a column that was renamed has its new name alone"),
    "a rename from a key": (columns("b: {pii: show, renamed_from: ID}"), "'b' was renamed from 'ID', which the contract names itself"),
    "renames in a circle": (columns("a: {pii: show, renamed_from: b}, b: {pii: show, renamed_from: a}"), "'a' and 'b' are renamed from one another: columns that change names can't be said"),
    "two renames from one name": (columns("a: {pii: show, renamed_from: c}, b: {pii: show, renamed_from: [d, C]}"), "'C' stands twice under renamed_from"),
    "a rename from a number": (columns("a: {pii: show, renamed_from: {b: c}}"), "renamed_from: a list is expected: put it in [ ]"),
    "a rename of a snapshot": (landed("{mode: snapshot, key: [id], columns: {b: {pii: show, renamed_from: a}}}"), "mode snapshot reads what lands: remove renamed_from of 'b'"),
    "a name in the lake that is Iceberg's": (columns("a: {pii: show, name_in_lake: _deleted}"), "name_in_lake of 'a': '_deleted' is called as Iceberg's own are"),
    "a name in the lake that is ours": (columns("a: {pii: show, name_in_lake: _Mirror_a}"), "'_Mirror_a' is called as Mirrorlake's own are"),
    "a name in the lake that is none": (columns("a: {pii: show, name_in_lake: ''}"), "name_in_lake: a MySQL name has 1 to 64 characters and no NUL"),
    "a name in the lake that it has": (columns("a: {pii: show, name_in_lake: A}"), "name_in_lake of 'a': it is what MySQL calls it: remove it"),
    "a name in the lake that is the key's": (columns("a: {pii: show, name_in_lake: ID}"), "name_in_lake of 'a': 'ID' is another column's name in MySQL"),
    "one name in the lake of two": (columns("a: {pii: show, name_in_lake: c}, b: {pii: show, name_in_lake: C}"), "'c' is another column's name in the lake, too"),
    "a name in the lake alone": (columns("a: {name_in_lake: b}"), "the column is named without a rule"),
    "a name in the lake of what is never read": (columns("a: {pci: never, name_in_lake: b}"), "columns.a.name_in_lake: a column that is never read (pci) is not there"),
    "a name in the lake of tenants": (tenants("a: {pii: show, name_in_lake: b}"), "columns of tenants have MySQL's names: remove name_in_lake of 'a'"),
    "a name in the lake of a snapshot": (landed("{mode: snapshot, key: [id], columns: {a: {pii: show, name_in_lake: b}}}"), "mode snapshot reads what lands: remove name_in_lake of 'a'"),
    "a hash in a view of what has a name in the lake": (columns("a: {pii: hash, name_in_lake: b}", ", clean: view"), "m.yaml:9:57: sources.s.databases.d.tables.t.columns.a.pii: pii: hash in a view"),
    "versions that are none": (table("{mode: full, key: [id], versions: tabel}"), "versions: 'tabel' is not 'view' or 'table'; did you mean 'table'?"),
    "versions of a snapshot": (landed("{mode: snapshot, key: [id], versions: view}"), "mode snapshot has no raw rows to show: remove versions"),
    "a form of JSON of a snapshot": (landed("{mode: snapshot, key: [id], columns: {b: {pii: show, json_as: structure}}}"), "mode snapshot has no raw rows to show: remove json_as of 'b'"),
    "a form of JSON that is never read": (columns("b: {pci: never, json_as: structure}"), "columns.b.json_as: a column that is never read (pci) is not shown at all"),
    "a form of JSON alone": (columns("b: {json_as: structure}"), "the column is named without a rule"),
    "a table over versions of tenants": (TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {versions: table}}}}\n", "versions: a table of tenants is shown by a view over all versions: remove versions"),
    "tenants by the log without a key": (TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {mode: binlog}}}}\n", "tenants.g.tables.t.key: tenants follow the log by their key: name the columns of a unique key"),
    "tenants of another mode": (TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {mode: append, key: [id]}}}}\n", "mode: "),
    "tenants' renames in a circle": (tenants("a: {pii: show, renamed_from: b}, b: {pii: show, renamed_from: A}"), "m.yaml:6:78: tenants.g.tables.t.columns: 'a' and 'b' are renamed from one another"),
    "a tenants' rename from its key": (tenants("b: {pii: show, renamed_from: ID}"), "'b' was renamed from 'ID', which the contract names itself"),
    "a tenants' rename to itself": (tenants("b: {pii: show, renamed_from: B}"), "a column that was renamed has its new name alone"),
    "two tenants' renames from one name": (tenants("a: {pii: show, renamed_from: c}, b: {pii: show, renamed_from: C}"), "'C' stands twice under renamed_from"),
    "two rules for one column of tenants": (tenants("a: {pii: 'null'}, A: {pii: show}"), "two rules are for one column: MySQL's column names are one in any case"),
    "tenants that freeze": (TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {schema_changes: freeze}}}}\n", "schema_changes: tenants evolve or fail: a column that comes later is held out of clean"),
    "tenants that freeze by default": ("defaults: {schema_changes: freeze}\n" + tenants("a: {pii: show}"), "tenants.g.tables.t: defaults say schema_changes: freeze, and tenants have none"),
    "a key of tenants that is never read": (tenants("Id: {pci: never}"), "'Id' is marked pci: never, and key has to be read: name another column"),
    "a key of tenants that names a column twice": (tenants("a: {pii: show}", "[id, ID]"), "tables.t.key: the key names a column twice"),
    "a policy of a snapshot": (landed("{mode: snapshot, key: [id], schema_changes: fail}"), "mode snapshot reads what lands, and no window: remove schema_changes"),
    "a Trino without a catalog": ("readers: {trino: {url: \"https://t\", user: u}}\n" + TOP, "m.yaml:1:11: readers.trino.catalog: is missing"),
    "a Trino with its login in the address": ("readers: {trino: {url: \"https://u:secret@t:8443\", user: u, catalog: c}}\n" + TOP, "readers.trino.url: an address has no login in it"),
    "a Trino by another protocol": ("readers: {trino: {url: \"trino://t:8080\", user: u, catalog: c}}\n" + TOP, "readers.trino.url: an address is written https://host:port or http://host:port"),
    "a Trino with a path": ("readers: {trino: {url: \"https://t/v1\", user: u, catalog: c}}\n" + TOP, "readers.trino.url: an address is written https://host:port or http://host:port"),
    "a Trino at no port": ("readers: {trino: {url: \"https://t:x\", user: u, catalog: c}}\n" + TOP, "readers.trino.url: an address is written https://host:port or http://host:port"),
    "a Trino's password in clear text": ("readers: {trino: {url: \"http://t\", user: u, password: \"${env:PW}\", catalog: c}}\n" + TOP, "readers.trino.password: Trino takes a password by https:// alone"),
    "a Trino's password in the file": ("readers: {trino: {url: \"https://t\", user: u, password: secret, catalog: c}}\n" + TOP, "readers.trino.password: a secret is not written into this file: write ${env:NAME} and set that variable"),
    "BigQuery without its section": (table("{mode: full, publish: [lake, bigquery]}"), "t.publish: publish: [lake, bigquery] needs a section bigquery with project and bucket"),
    "BigQuery by default without its section": ("defaults: {publish: [lake, bigquery]}\n" + TOP, "m.yaml:1:21: defaults.publish: publish: [lake, bigquery] needs a section"),
    "BigQuery without the lake": (table("{mode: full, publish: [bigquery]}"), "t.publish: write [lake] or [lake, bigquery]: BigQuery is loaded out of the lake"),
    "a place that is none": (table("{mode: full, publish: [lake, bigquerry]}"), "'bigquerry' is not 'lake' or 'bigquery'; did you mean 'bigquery'?"),
    "a snapshot in BigQuery without its section": (landed("{mode: snapshot, key: [id], publish: [lake, bigquery]}"), "t.publish: publish: [lake, bigquery] needs a section bigquery"),
    "tenants in BigQuery without its section": (TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {publish: [lake, bigquery]}}}}\n", "m.yaml:6:67: tenants.g.tables.t.publish: publish: [lake, bigquery] needs a section bigquery"),
    "tenants in the dataset of views": (BIGQUERY + "defaults: {publish: [lake, bigquery]}\n" + table("{mode: full}") + "tenants: {g: {sources: [s], databases: [e], namespaces: {deduped: s_d__views_clean}, tables: {t: {}}}}\n", "tenants.g.namespaces.deduped: the dataset s_d__views_clean has the views of s.d.t in BigQuery: name another namespace"),
    "tables in the dataset of views": (BIGQUERY + "defaults: {publish: [lake, bigquery]}\n" + table("{mode: full}") + "      e: {namespaces: {deduped: s_d__views_clean}, tables: {t: {mode: full}}}\n", "e.namespaces.deduped: the dataset s_d__views_clean has the views of s.d.t in BigQuery: name another namespace"),
    "a layout in BigQuery of a table that is not there": (BIGQUERY + table("{mode: full, bigquery: {partition_by: at}}"), "t.bigquery: the table is published in the lake alone: remove bigquery, or write publish: [lake, bigquery]"),
    "partitions by a column that is not loaded": (BIGQUERY + table("{mode: full, key: [id], publish: [lake, bigquery], columns: {At: {pii: drop}}, bigquery: {partition_by: at}}"), "t.bigquery.partition_by: 'at' is not loaded into BigQuery, by its rule: name another column"),
    "tenants' partitions by a column that is never read": (BIGQUERY + TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {publish: [lake, bigquery], columns: {at: {pci: never}}, bigquery: {partition_by: at}}}}}\n", "t.bigquery.partition_by: 'at' is not loaded into BigQuery, by its rule"),
    "partitions of a week": (BIGQUERY + table("{mode: full, publish: [lake, bigquery], bigquery: {partition_by: at, partition: week}}"), "t.bigquery.partition: 'week' is not 'day' or 'month'"),
    "partitions in BigQuery of no column": (BIGQUERY + table("{mode: full, publish: [lake, bigquery], bigquery: {partition: month}}"), "t.bigquery.partition_by: is missing"),
    "raw loaded into BigQuery": (BIGQUERY + table("{mode: full, publish: [lake, bigquery], bigquery: {load: raw}}"), "has 1 problem:\nm.yaml:10:65: sources.s.databases.d.tables.t.bigquery.load: was removed: a table in BigQuery is loaded from deduped, always. Remove it"),
    "another load by default": (BIGQUERY + "defaults: {bigquery: {load: none}}\n" + table("{mode: full}"), "defaults.bigquery: was removed: a table in BigQuery is loaded from deduped"),
    "tenants read in place": (BIGQUERY + TOP + "tenants: {g: {sources: [s], databases: [d], tables: {t: {publish: [lake, bigquery], bigquery: {load: none}}}}}\n", "tenants.g.tables.t.bigquery.load: was removed"),
    "a bucket with its scheme": ("bigquery: {project: pp, bucket: 'gs://b'}\n" + TOP, "bigquery.bucket: "),
    "empty": ("", "m.yaml:1: the config is empty"),
    "only a comment": ("# nothing\n", "is empty"),
    "a list": ("- a\n", "is not a mapping"),
    "bad syntax": ("version: 1\nsources: [a\n", "m.yaml:3:1: not valid YAML: a list is not closed by ]"),
    "two documents": ("version: 1\n---\nversion: 1\n", "m.yaml:2:1: not valid YAML"),
    "a tab": ("version: 1\nsources:\n\ts: 1\n", "m.yaml:3:1: not valid YAML: a tab; YAML is"),
    "a control character": ("version: 1\nlake: \x07\n", "m.yaml:2:1: the character U+0007"),
    "not UTF-8": (b"version: 1\n# \xff", "is not UTF-8 (byte 13)"),
    "a doubled key": (TOP + "    user: v\n", "m.yaml:6:5: sources.s.user: this key is already on line 5"),
    "a tag": ("version: !python/object:os.system 1\n", "m.yaml:1:10: version: the tag"),
    "a circular alias": ("version: 1\nsources: &a {s: *a}\n", "m.yaml:2:10: sources.s: this alias"),
    "a list as a key": ("version: 1\n? [a]\n: 1\n", "m.yaml:2:3: a key must be a plain name"),
    "a merge of a text": ("version: 1\nsources: {<<: x}\n", "'<<' takes a mapping"),
    "no version": (TOP.replace("version: 1\n", ""), "m.yaml:1:1: version: is missing"),
    "another version": (TOP.replace("1\n", "2\n", 1), "m.yaml:1:10: version: this release reads version 1"),
    "no sources": ("version: 1\n", "sources: is missing"),
    "empty sources": ("version: 1\nsources: {}\n", "m.yaml:2:10: sources: is empty"),
    "sources without a value": ("version: 1\nsources:\n", "sources: has no value"),
    "no host": (TOP.replace("    host: 127.0.0.1\n", ""), "m.yaml:3:3: sources.s.host: is missing"),
    "unknown key": (TOP + "    pasword: x\n", "m.yaml:6:5: sources.s.pasword: unknown key; did you mean 'password'?"),
    "unknown key, nothing near": ("zzz: 1\n" + TOP, "m.yaml:1:1: zzz: unknown key; known are version, lake,"),
    "unknown table key": (table("{mode: full, curser: x}"), "t.curser: unknown key; did you mean 'cursor'?"),
    "a key of the table at a column": (columns("c: {mode: full}"), "t.columns.c.mode: unknown key here: it belongs in sources.s.databases.d.tables.t"),
    "a key of the file at a source": (TOP + "    lake: x\n", "m.yaml:6:5: sources.s.lake: unknown key here: it belongs in the file itself"),
    "unknown rule": (columns("c: {pi: drop}"), "m.yaml:9:52: sources.s.databases.d.tables.t.columns.c.pi: unknown key; did you mean 'pii'?"),
    "unknown tls key": (TOP + "    tls: {caa: x}\n", "m.yaml:6:11: sources.s.tls.caa: unknown key; did you mean 'ca'?"),
    "wrong tls word": (TOP + "    tls: maybe\n", "m.yaml:6:10: sources.s.tls: 'maybe' is not 'off' or 'required'"),
    "literal password": (TOP + "    password: hunter2\n", "m.yaml:6:15: sources.s.password: a secret is not written"),
    "half literal password": (TOP + "    password: x${env:PW}\n", "a secret is not written"),
    "password as a list": (TOP + "    password: [hunter2]\n", "a secret is not written"),
    "missing variable": (TOP + "    password: ${env:NOWHERE}\n", "m.yaml:6:15: sources.s.password: the environment variable NOWHERE is not set"),
    "literal hash key": ("privacy: {hash_key: hunter2}\n" + TOP, "m.yaml:1:21: privacy.hash_key: a secret"),
    "short hash key": ('privacy: {hash_key: "${env:SHORT}"}\n' + TOP, "privacy.hash_key: a key shorter than 16"),
    "password in the ledger's URL": ("ledger: {url: 'postgresql://u:hunter2@h/d'}\n" + TOP, "m.yaml:1:15: ledger.url: a password is not written"),
    "password with a slash": ("ledger: {url: 'postgresql://u:hunter2/@x@h/d'}\n" + TOP, "a password is not written"),
    "password in a query": ("ledger: {url: 'postgresql://h/d?password=hunter2'}\n" + TOP, "a password is not written"),
    "half a password": ("ledger: {url: 'postgresql://u:hunter2${env:PW}@h/d'}\n" + TOP, "a password is not written"),
    "catalog's password": ("lake: {catalog: {uri: 'postgresql://u:hunter2@h/d'}}\n" + TOP, "m.yaml:1:23: lake.catalog.uri: a password"),
    "catalog's secret": ("lake: {catalog: {properties: {s3.secret-access-key: hunter2}}}\n" + TOP, "lake.catalog.properties.\"s3.secret-access-key\": a secret"),
    "spark's secret": ("spark: {conf: {fs.s3a.secret.key: hunter2}}\n" + TOP, "a secret is not written"),
    "spark's substitution": ("spark:\n  conf: {spark.sql.variable.substitute: 'true'}\n" + TOP, "m.yaml:2:9: spark.conf: spark.sql.variable.substitute must stay false"),
    "unknown permissions": ("lake: {permissions: privat}\n" + TOP, "m.yaml:1:21: lake.permissions: 'privat' is not 'private', 'group' or 'open'; did you mean 'private'?"),
    "permissions as a mode": ("lake:\n  permissions: 0700\n" + TOP, "m.yaml:2:16: lake.permissions: '0700' is not 'private', 'group' or 'open'"),
    "hadoop's umask": ("spark:\n  conf: {spark.hadoop.fs.permissions.umask-mode: '022'}\n" + TOP, "m.yaml:2:9: spark.conf: spark.hadoop.fs.permissions.umask-mode follows lake.permissions"),
    "spark's clock": ("spark:\n  conf: {spark.sql.session.timeZone: Europe/Berlin}\n" + TOP, "spark.sql.session.timeZone must stay UTC"),
    "broken placeholder": ("lake: {catalog: {properties: {a: '${env:A-B}'}}}\n" + TOP, "a placeholder is written ${env:NAME}"),
    "placeholder elsewhere": (TOP.replace("127.0.0.1", "${env:PW}"), "m.yaml:4:11: sources.s.host: only secrets come from the environment"),
    "ledger in memory": ("ledger: {url: 'sqlite://'}\n" + TOP, "a database in memory forgets"),
    "ledger in memory, named": ("ledger: {url: 'sqlite:///:memory:'}\n" + TOP, "a database in memory forgets"),
    "ledger is a path": ("ledger: {url: ledger.db}\n" + TOP, "this is not a database URL"),
    "properties as a text": ("spark: {conf: x}\n" + TOP, "m.yaml:1:15: spark.conf: a mapping is expected"),
    "URL as a list": ("ledger: {url: [x]}\n" + TOP, "ledger.url: a text is expected"),
    "driver memory": ("spark: {driver_memory: 2 GB}\n" + TOP, "spark.driver_memory: string should match"),
    "duration": ("ledger: {wait: 30}\n" + TOP, "m.yaml:1:16: ledger.wait: '30' is not a duration"),
    "duration as a list": ("ledger: {wait: [1s]}\n" + TOP, "a duration is expected"),
    "port": (TOP + "    port: 70000\n", "sources.s.port: input should be less than or equal to 65535"),
    "port as a text": (TOP + "    port: x\n", "sources.s.port: a whole number is expected"),
    "time zone": (TOP + "    time_zone: Europe/Berln\n", "unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"),
    "time zone, a path": (TOP + "    time_zone: ../../etc\n", "unknown time zone"),
    "source name": (TOP.replace("  s:", "  My-Shop:"), "m.yaml:3:3: sources.My-Shop: a source's name"),
    "empty database name": (TOP + "    databases: {'': {}}\n", "a MySQL name has 1 to 64 characters"),
    "long table name": (f"{TABLES}          {'t' * 65}: {{mode: full}}\n", "m.yaml:9:11: "),
    "namespace": (TOP + "    databases: {d: {namespaces: {raw: a.b}}}\n", "a namespace is written with"),
    "mode missing": (table("{key: [id]}"), "m.yaml:9:11: sources.s.databases.d.tables.t.mode: is missing"),
    "mode misspelled": (table("{mode: incremntal}"), "'incremntal' is not 'append', 'incremental', 'full', 'binlog' or 'snapshot'; did you mean 'incremental'?"),
    "deletes of a copy": (table("{mode: full, key: [id], deletes: flag}"), "tables.t.deletes: mode full copies what MySQL holds"),
    "deletes flagged without a key": (table("{mode: append, cursor: m, deletes: flag}"), "tables.t.deletes: without a key nothing shows"),
    "repair as another word": (table("{mode: full, repair: yes}"), "tables.t.repair"),
    "table without contract": (f"{TABLES}          t:\n", "tables.t: has no value"),
    "key as a text": (table("{mode: full, key: id}"), "tables.t.key: a list is expected: put it in [ ]"),
    "key of null": (table("{mode: full, key: [null]}"), "tables.t.key[0]: has no value"),
    "key twice": (table("{mode: full, key: [id, ID]}"), "tables.t.key: the key names a column twice"),
    "incremental without key": (table("{mode: incremental, cursor: m}"), "m.yaml:9:11: sources.s.databases.d.tables.t.key: mode incremental needs"),
    "incremental without cursor": (table("{mode: incremental, key: [id]}"), "tables.t.cursor: mode incremental needs"),
    "append without cursor": (table("{mode: append}"), "tables.t.cursor: mode append needs"),
    "binlog without a key that keeps deletes": (table("{mode: binlog, deletes: ignore}"), "tables.t.deletes: without a key an update takes a row away and adds one"),
    "binlog with a cursor": (table("{mode: binlog, key: [id], cursor: m}"), "tables.t.cursor: mode binlog reads the server's log, and no window: remove cursor"),
    "binlog with an overlap": (table("{mode: binlog, key: [id], overlap: 1h}"), "tables.t.overlap: mode binlog reads the server's log"),
    "binlog of entities": (table("{mode: binlog, key: [id], entity: {token: a, created: b}}"), "tables.t.entity: mode binlog reads the server's log"),
    "binlog with snapshots": (table("{mode: binlog, key: [id], snapshot: {}}"), "tables.t.snapshot: mode binlog reads a server"),
    "full with cursor": (table("{mode: full, cursor: m}"), "m.yaml:9:35: sources.s.databases.d.tables.t.cursor: mode full reads the whole table"),
    "full with every": (table("{mode: full, every: 1h}"), "tables.t.every: mode full is copied by the daily schedule"),
    "full with overlap": (table("{mode: full, overlap: 1h}"), "tables.t.overlap: mode full reads"),
    "shrink limit as a share": (table("{mode: full, shrink_limit: 90}"), "tables.t.shrink_limit: input should be less than or equal to 1"),
    "shrink limit as a text": (table("{mode: full, shrink_limit: 90%}"), "tables.t.shrink_limit: a number is expected"),
    "start in the future": (table("{mode: full, start: 2026-02-01}"), "m.yaml:9:34: sources.s.databases.d.tables.t.start: 2026-02-01 is in the future (today is 2026-01-31 UTC)"),
    "default start in the future": ("defaults: {start: 2026-02-01}\n" + table("{mode: full}"), "m.yaml:1:19: defaults.start: 2026-02-01 is in the future"),
    "start as a number": (table("{mode: full, start: 20260101}"), "a day is written like 2026-01-31"),
    "start that is no day": (table("{mode: full, start: 2026-02-30}"), "2026-02-30 is not a day of the calendar"),
    "owner": (table("{mode: full, owners: [someone]}"), "tables.t.owners[0]: an owner is an e-mail address or team:<name>, not 'someone'"),
    "freshness without failing": (table("{mode: full, freshness: {warn_after: 1h}}"), "tables.t.freshness.fail_after: is missing"),
    "warning after failing": (table("{mode: full, freshness: {warn_after: 2h, fail_after: 1h}}"), "freshness.warn_after: a warning comes before the failure"),
    "fresh within seconds": ("defaults: {freshness: {fail_after: 59s}}\n" + TOP, "defaults.freshness.fail_after: freshness is looked at every minute"),
    "pci key": (columns("ID: {pci: never}"), "tables.t.key: 'id' is marked pci: never"),
    "pci cursor": (table("{mode: append, cursor: c, columns: {c: {pci: never}}}"), "tables.t.cursor: 'c' is marked pci: never"),
    "pci created": (table("{mode: append, cursor: c, created: d, columns: {d: {pci: never}}}"), "tables.t.created: 'd' is marked"),
    "two rules for one column": (columns("a: {pii: drop}, A: {pii: hash}"), "two rules are for one column"),
    "both rules": (columns("a: {pii: drop, pci: never}"), "columns.a.pii: a column that is never read"),
    "no rule": (columns("a: {}"), "columns.a.pii: the column is named without a rule"),
    "rule without a value": (columns("a: {pii: }"), "columns.a.pii: the column is named without a rule"),
    "hash in a view": (HASHING + columns("a: {pii: hash}"), "columns.a.pii: pii: hash in a view would show the key"),
    "hash without a key": (columns("a: {pii: hash}", ", clean: table"), "pii: hash needs privacy.hash_key"),
    "dropped key of a table": (columns("ID: {pii: drop}", ", clean: table"), "the clean table is kept by its key"),
    "masked key of a table": (columns("id: {pii: mask}", ", clean: table"), "the clean table is kept by its key"),
    "a replica's password": (TOP + "    replica: mysql://u:hunter2@r\n", "m.yaml:6:14: sources.s.replica: a password is not written into this file"),
    "a replica's kind": (TOP + "    replica: postgresql://r\n", "sources.s.replica: the source's URL does not begin with mysql://"),
    "a replica without a user": (TOP + "    replica: mysql://r\n", "sources.s.replica: the source's URL names no user"),
    "a replica that is the source": (TOP + "    replica: mysql://u@127.0.0.1\n", "sources.s.replica: this is the source itself"),
    "no rows a second": (TOP + "    rows_per_second: 0\n", "sources.s.rows_per_second: "),
    "an unknown limit": (TOP + "    back_off: {lag: 5m}\n", "sources.s.back_off.lag: unknown key"),
    "a landing with a host": (LANDING + "    host: h\n", "m.yaml:5:11: sources.s.host: a landing is no server: remove host"),
    "a landing somewhere else": (LANDING.replace("x}", "'ftp://h/x'}"), "m.yaml:4:20: sources.s.landing.url: landings are folders, gs://"),
    "a bucket without a name": (LANDING.replace("x}", "'gs:///x'}"), "a bucket is written gs://bucket or"),
    "an endpoint with a login": (LANDING.replace("x}", "x, endpoint: 'http://u:hunter2@h'}"), "landing.endpoint: an endpoint is written http"),
    "a cluster that is a path": (LANDING.replace("x}", "x, cluster: a/b}"), "landing.cluster: this is the name of one folder"),
    "a snapshot of a server": (table("{mode: snapshot, key: [id]}"), "tables.t.mode: mode snapshot needs a source with a landing"),
    "a landing that is asked": (landed("{mode: full}"), "m.yaml:8:21: sources.s.databases.d.tables.t.mode: mode full reads a server"),
    "snapshot without a key": (landed("{mode: snapshot}"), "tables.t.key: mode snapshot needs"),
    "snapshot with a cursor": (landed("{mode: snapshot, key: [id], cursor: m}"), "tables.t.cursor: mode snapshot reads what lands"),
    "snapshot of another mode": (table("{mode: full, snapshot: {}}"), "tables.t.snapshot: mode full reads a server"),
    "a snapshot's clean table": (landed("{mode: snapshot, key: [id], clean: table}"), "tables.t.clean: clean of snapshots is a view"),
    "a window without a day": (snapshot("retention_days: 7"), "snapshot.retention_days: the window is counted in days"),
    "removed from a part": (snapshot("part: 1d, missing: removed"), "snapshot.missing: part 1d holds rows of a time"),
    "a marker that is a path": (snapshot("marker: a/b"), "snapshot.marker: a marker's name is"),
    "fresh in seconds": (snapshot("fresh_within: 1s"), "snapshot.fresh_within: freshness is looked at every minute"),
    "a day that is never read": (landed("{mode: snapshot, key: [id], snapshot: {day: d}, columns: {D: {pci: never}}}"), "tables.t.snapshot: 'd' is marked pci: never"),
    "colliding defaults": (
        "version: 1\nsources:\n"
        "  a_b: {host: h, user: u, databases: {c: {}}}\n"
        "  a: {host: h, user: u, databases: {b_c: {}}}\n",
        "m.yaml:4:37: sources.a.databases.b_c.namespaces.deduped: namespace 'a_b_c' (deduped) is also the"
        " deduped namespace of a_b.c",
    ),
    "colliding layers": (TOP + "    databases: {a: {}, a__raw: {}}\n", "is also the raw namespace of s.a"),
    "colliding in case": (TOP + "    databases: {a: {}, A: {}}\n", "namespace 's_a' (deduped) is also"),
    "two layers in one": (TOP + "    databases: {a: {namespaces: {raw: x, clean: x}}}\n", "namespace 'x' (clean) is also the raw"),
    "agreed on by one only": (TOP + "    databases: {a: {}, b: {namespaces: {raw: s_a__raw}}}\n", "namespaces.raw: namespace 's_a__raw' (raw) is also the raw"),
    "two tables in one": (
        TOP + "    databases:\n      a: &d {namespaces: {raw: r, deduped: x, clean: c}, tables: {t: {mode: full}}}\n      b: *d\n",
        "it would be written into r.t, as s.a.t is",
    ),
    "dots that make two names one": (
        TOP + "    databases:\n      a: {tables: {b.c: {mode: full}}}\n      a.b: {tables: {c: {mode: full}}}\n",
        "the name 's.a.b.c' also means",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    text, expected = REFUSED[case]
    message = refusal(tmp_path, text)
    assert expected in message
    assert "hunter2" not in message
    assert "password-of-the-test" not in message


def test_all_problems_are_listed_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = TOP.replace("version: 1", "version: 3") + "    pasword: x\n    port: x\n"
    lines = refusal(tmp_path, text).splitlines()
    assert lines[0] == "m.yaml has 3 problems:"
    assert [line.split(" ")[0] for line in lines[1:]] == [
        "m.yaml:1:10:",
        "m.yaml:6:5:",
        "m.yaml:7:11:",
    ]


@pytest.mark.parametrize(
    ("hints", "names"),
    [
        ({"a": "b", "b": "A"}, "'a' and 'b'"),
        ({"a": "b", "b": "c", "c": "a", "d": "e"}, "'a', 'b' and 'c'"),
        ({"a": "b", "b": "[z, a]"}, "'a' and 'b'"),
    ],
)
@pytest.mark.parametrize("command", [["sync"], ["preflight", "ALTER TABLE t DROP a"]])
def test_columns_that_change_names_are_one_error_before_anything_is_read(
    tmp_path: Path, hints: dict[str, str], names: str, command: list[str]
) -> None:
    """No server is there: had a command gone on, it would say so."""
    rules = ", ".join(f"{name}: {{pii: show, renamed_from: {of}}}" for name, of in hints.items())
    path = tmp_path / "m.yaml"
    path.write_text(columns(rules))
    result = CliRunner().invoke(cli, [*command, "--config", str(path)])
    assert isinstance(result.exception, ConfigError)
    message = str(result.exception)
    assert f"{names} are renamed from one another: columns that change names can't be" in message
    assert message.count("renamed") == 1
    assert "problems" not in message


def test_the_cause_shows_no_secret_either(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(TOP + "    password: hunter2\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ=ENVIRON)
    assert caught.value.__cause__ is None
    assert "hunter2" not in f"{caught.value.__context__}{caught.value.__context__!r}"


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config file .*mirrorlake init"):
        load_config(tmp_path / "none.yaml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_config(tmp_path)
