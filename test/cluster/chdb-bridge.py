"""ClickHouse's HTTP interface before chdb: one session, one statement at a time.

usage: chdb-bridge.py [--cluster]   prints its port, and ends with its standard input

With --cluster it stands for a cluster of one shard with one replica: its macros and its remote_servers are those of
ClickHouse. Tables with replicas stay read-only in an embedded ClickHouse, so they are written as tables without, and
a replica is in sync where its table is there. clickhouse26.py has replicas.
"""
import atexit
import os
import re
import shutil
import sys
import tempfile

from chdb import session

from chdb_http import Connection, Statements, pool, serve

CONFIG = """<clickhouse>
<tcp_port>9000</tcp_port><macros><shard>1</shard><replica>r1</replica></macros>
<remote_servers><weir><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></weir></remote_servers>
</clickhouse>"""
IS_CLUSTER = "--cluster" in sys.argv
REPLICATED = re.compile(r"ENGINE = Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, )?")
SYNC = re.compile(r"^SYSTEM SYNC REPLICA (.*?)(?: LIGHTWEIGHT)?$")


def opened():
    if not IS_CLUSTER:
        return session.Session()
    folder = tempfile.mkdtemp(prefix="weir-chdb-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open(f"{folder}/config.xml", "w") as file:
        file.write(CONFIG)
    return session.Session(f"{folder}/data?config-file={folder}/config.xml")


class Handler(Statements):
    connections = pool([Connection(opened())])

    def rewritten(self, sql):
        return SYNC.sub(r"SELECT 1 FROM \1 WHERE 0", REPLICATED.sub(r"ENGINE = \1(", sql)) if IS_CLUSTER else sql

    def is_setting(self, name):
        return super().is_setting(name) and not (IS_CLUSTER and name.startswith("insert_quorum"))


print(serve(0, Handler), flush=True)
sys.stdin.read()
atexit._run_exitfuncs()  # chdb itself does not always end
os._exit(0)
