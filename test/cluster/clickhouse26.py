#!/usr/bin/env python3
"""One replica of ClickHouse 26.9, for tests of replication alone. It is no server for anybody's data.

usage: clickhouse26.py server --config-file=<the file that clickhouse-server takes>
       WEIR_TEST_CHDB_PYTHON names the Python that has chdb 4.4.0; else it is the one that runs this

PyPI's chdb is ClickHouse as a library, with all of its replicated tables. It lacks what only `clickhouse server` sets:
the interserver address, scheme and credentials, and the UUID of the server, without which replicas take each other's
session. They are written into the memory of this one build, at addresses that are compared with what must stand there.
It also lacks the HTTP side that sends parts to other replicas, which is here: DataPartsExchange, protocol version 1.

SIGTERM ends it as it ends a server: statements are killed, tables are shut down, the session of Keeper is closed.

What it is not: it has no TCP port, so there is one shard; eight statements at a time.
"""
import ctypes
import hashlib
import os
import queue
import re
import signal
import struct
import sys
import threading
import xml.etree.ElementTree as ElementTree
from urllib.parse import parse_qsl, urlsplit

# A Python of a virtual environment is a link to another one, so its name is compared.
PYTHON = os.environ.get("WEIR_TEST_CHDB_PYTHON", sys.executable)
if PYTHON != sys.executable:
    os.execv(PYTHON, [PYTHON, *sys.argv])

import chdb  # noqa: E402

from chdb_http import Base, Connection, Statements, pool, serve  # noqa: E402
from city_hash import checksum  # noqa: E402

CONNECTIONS = 8
# As shutdown_wait_unfinished.
STOP_SECONDS_MAX = 5
CONFIG = ElementTree.parse(next(word.split("=", 1)[1] for word in sys.argv if word.startswith("--config-file="))).getroot()
FOLDER = CONFIG.findtext("path").rstrip("/")
HTTP_PORT = int(CONFIG.findtext("http_port"))
INTERSERVER_PORT = int(CONFIG.findtext("interserver_http_port"))
# Where others are told to fetch parts: a test puts a proxy between.
ADVERTISED_PORT = int(CONFIG.findtext("interserver_advertised_port") or INTERSERVER_PORT)

# ── the library's memory ───────────────────────────────────────────────────────────────────────────────────────────

# Offsets into chdb-core 26.9's _chdb.abi3.so for x86-64, with the bytes that stand there. Those of the getters were
# found by the texts of the errors that they throw.
GETTERS = {
    "getInterserverIOAddress": (343021504, b"\x41\x56"),
    "getInterserverScheme": (343021760, None),
    "getInterserverCredentials": (343021376, None),
}
SERVER_UUID = 570217000
# Where the executable part begins, in the file and in memory.
TEXT_IN_FILE, TEXT_IN_MEMORY = "09056000", 0x9057000
RETURN = b"\x48\x89\xf8\xc3"  # mov rax, rdi; ret
libc = ctypes.CDLL(None, use_errno=True)


def base_address():
    lines = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith("/_chdb.abi3.so")]
    begins = [line[0] for line in lines if line[1] == "r-xp" and line[2] == TEXT_IN_FILE]
    if not begins:
        raise SystemExit("this is not the build of chdb 4.4.0 for x86-64 that this file knows")
    return int(begins[0].split("-")[0], 16) - TEXT_IN_MEMORY


def write_code(address, code):
    page = address & ~0xFFF
    for rights in (7, 5):  # read, write and execute; then without write
        if libc.mprotect(ctypes.c_void_p(page), 0x3000, rights):
            raise OSError(ctypes.get_errno(), "mprotect")
        if rights == 7:
            ctypes.memmove(address, code, len(code))


def text_object(text):
    """libc++'s short string: 23 bytes and the length."""
    data = text.encode()
    assert len(data) <= 22
    return data.ljust(23, b"\0") + bytes([len(data)])


def stored(data):
    """mov rax, eight bytes; mov [rdi + offset], rax; and so on."""
    return b"".join(
        b"\x48\xb8" + data[at : at + 8] + b"\x48\x89\x87" + struct.pack("<i", at) for at in range(0, len(data), 8)
    )


def patch():
    base = base_address()
    for offset, begins in GETTERS.values():
        if begins is not None and ctypes.string_at(base + offset, len(begins)) != begins:
            raise SystemExit("this is not the build of chdb 4.4.0 that this file knows")
    port = b"\x66\xc7\x87" + struct.pack("<i", 24) + struct.pack("<H", ADVERTISED_PORT)  # mov word [rdi + 24], port
    empty = ctypes.create_string_buffer(4096)  # credentials whose texts are empty
    patch.kept = empty
    # A shared pointer comes in two registers: mov rax, credentials; xor edx, edx; ret
    credentials = b"\x48\xb8" + struct.pack("<Q", ctypes.addressof(empty) + 64) + b"\x31\xd2\xc3"
    write_code(base + GETTERS["getInterserverIOAddress"][0], stored(text_object("127.0.0.1")) + port + RETURN)
    write_code(base + GETTERS["getInterserverScheme"][0], stored(text_object("http")) + RETURN)
    write_code(base + GETTERS["getInterserverCredentials"][0], credentials)
    uuid = hashlib.md5(f"{CONFIG.findtext('macros/replica')} {HTTP_PORT}".encode()).digest()
    ctypes.memmove(base + SERVER_UUID, uuid, len(uuid))


# ── parts for other replicas ───────────────────────────────────────────────────────────────────────────────────────


def table_folder(table):
    """By the table's metadata on disk: a statement would wait for an INSERT that waits for this fetch."""
    for database in os.listdir(f"{FOLDER}/data/metadata"):
        file = f"{FOLDER}/data/metadata/{database}/{table}.sql"
        if os.path.exists(file):
            uuid = re.search(r"UUID '([0-9a-f-]+)'", open(file).read()).group(1)
            return f"{FOLDER}/data/store/{uuid[:3]}/{uuid}"
    raise FileNotFoundError(table)


def part_body(folder):
    files = []
    for name in sorted(os.listdir(folder)):
        if name != "txn_version.txt":
            with open(f"{folder}/{name}", "rb") as file:
                files.append((name.encode(), file.read()))
    pieces = [struct.pack("<QQ", sum(len(data) for _, data in files), len(files))]
    for name, data in files:
        pieces += [bytes([len(name)]), name, struct.pack("<Q", len(data)), data, checksum(data)]
    return b"".join(pieces)


class Interserver(Base):
    def do_POST(self):
        fields = dict(parse_qsl(urlsplit(self.path).query))
        self.body()
        try:
            table = re.match(r"DataPartsExchange:.*/([^/]+)/replicas/[^/]+$", fields["endpoint"]).group(1)
            body = part_body(f"{table_folder(table)}/{fields['part']}")
        except OSError as error:
            return self.fail(f"Code: 232. DB::Exception: No part {fields.get('part')} in table: {error}")
        self.answer(200, body, {"Set-Cookie": "server_protocol_version=1"})


class Handler(Statements):
    connections = pool([])


def stop(own):
    """As a server: statements are killed and end, tables are shut down, and the session of Keeper ends."""
    own.query("KILL QUERY WHERE query NOT LIKE 'KILL%' ASYNC")
    try:
        sessions = [Handler.connections.get(timeout=STOP_SECONDS_MAX).session for _ in range(CONNECTIONS)]
    except queue.Empty:
        os._exit(0)  # a statement did not end: a server leaves its tables then, too
    # The library hangs where the last session closes before its replicated tables are gone.
    replicas = "SELECT database || '.`' || table || '`' FROM system.replicas"
    tables = own.query(replicas, "TabSeparatedRaw").bytes().decode().split()

    def detach(session, some):
        for table in some:
            session.query(f"DETACH TABLE {table}")

    threads = [threading.Thread(target=detach, args=(each, tables[at::CONNECTIONS])) for at, each in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in [*sessions, own.session]:
        session.close()
    os._exit(0)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    kept = [CONFIG.find(name) for name in ("tcp_port", "macros", "remote_servers", "zookeeper")]
    with open(f"{FOLDER}/chdb.xml", "w") as file:
        file.write(f"<clickhouse><logger><level>warning</level><log>{FOLDER}/server.log</log></logger>")
        file.write("<mark_cache_size>67108864</mark_cache_size><background_pool_size>4</background_pool_size>")
        file.write("<background_schedule_pool_size>16</background_schedule_pool_size>")
        # As a server has by default. With the one of the library, a fetch from a server that stands still holds up all.
        file.write("<background_fetches_pool_size>16</background_fetches_pool_size>")
        file.write("".join(ElementTree.tostring(each, encoding="unicode") for each in kept) + "</clickhouse>")
    patch()
    for _ in range(CONNECTIONS):
        Handler.connections.put(Connection(chdb.connect(f"{FOLDER}/data?config-file={FOLDER}/chdb.xml")))
    own = Connection(chdb.connect(f"{FOLDER}/data?config-file={FOLDER}/chdb.xml"))
    serve(INTERSERVER_PORT, Interserver)
    serve(HTTP_PORT, Handler)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.pause()
    stop(own)


main()
