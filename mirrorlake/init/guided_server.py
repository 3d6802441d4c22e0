"""The first two screens of `mirrorlake init`: the server, and which of its databases."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.config.source_url import SourceUrl
from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.init.choice import Choice, fits
from mirrorlake.init.from_server import complete_url
from mirrorlake.init.prompts import ask, chosen_of, literal, say, size_words, title, until_right
from mirrorlake.init.sizes import DatabaseSize, read_database_sizes
from mirrorlake.sources.mysql.introspection.introspect import read_databases, spelled
from mirrorlake.sources.mysql.sessions.connect import rows_of, session


def ask_server(url: str | None) -> tuple[SourceUrl, dict[str, DatabaseSize]]:
    """The server, which answered, and what it has."""
    title(1)
    if url is not None:
        return _connect(complete_url(url))
    say("Where is MySQL or MariaDB? An account that may only SELECT is enough.")
    while True:
        try:
            server = complete_url(ask("mysql://user@host:port/database"))
            if not server.password.get_secret_value():
                secret = ask(f"Password of {server.user} (Enter: none)", hidden=True)
                server = replace(server, password=SecretStr(secret))
            return _connect(server)
        except (ConfigError, SourceError) as error:
            say(str(error), "red")


def _connect(server: SourceUrl) -> tuple[SourceUrl, dict[str, DatabaseSize]]:
    with session(server.source("server")) as connection:
        ((version,),) = rows_of(connection, "SELECT @@version")
        sizes = read_database_sizes(connection)
        named = server.database
        seen = (spelled(connection, named),) if named else read_databases(connection)
    say(f"{version} on {server.host}:{server.port}, as {server.user}")
    return server, {name: sizes.get(name, DatabaseSize(name, 0, 0, 0)) for name in seen}


def ask_databases(server: SourceUrl, sizes: dict[str, DatabaseSize]) -> Choice:
    """The databases that are meant; all where there is nothing to choose."""
    title(2)
    names = list(sizes)
    table = show.table("database", "tables", "rows, about", "size")
    for number, one in enumerate(sizes.values(), 1):
        cells = (f"{one.tables:,}", f"{one.rows:,}", size_words(one.bytes))
        table.add_row(f"{number}. {escape(one.name)}", *cells)
    show.console.print(table)
    if server.database or len(names) < 2:
        return Choice()

    def take(answer: str) -> Choice:
        if not answer:
            return Choice()
        chosen = chosen_of(answer, names, lambda name, word: fits(word, "", name))
        return Choice(tuple(literal(names[n]) for n in sorted(chosen)))

    return until_right("Which ones? (1,3-5 or names like crm_*; Enter: all)", take)
